//! What a reader says of sparse tables.

use std::fmt;

use ckpt_sys as sys;

use crate::dtype::Dtype;
use crate::error::{check, Result};
use crate::handle::{c_text, lent, sized, Items};
use crate::numbers::getters;
use crate::reader::Reader;
use crate::tensor::Dims;

/// A sparse table; its name is borrowed from the reader.
#[derive(Clone, Copy)]
pub struct TableInfo<'a> {
    raw: sys::ckpt_table_info,
    name: &'a str,
}

// SAFETY: numbers, and a text that lives for 'a and is only read.
unsafe impl Send for TableInfo<'_> {}
// SAFETY: as above.
unsafe impl Sync for TableInfo<'_> {}

impl<'a> TableInfo<'a> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The dtype of its ids: `I64` or `U64`.
    #[must_use]
    pub fn id_dtype(&self) -> Dtype {
        Dtype(self.raw.id_dtype)
    }
}
ckpt_sys::fields_of_ckpt_table_info!(getters! { [TableInfo<'_>] });

impl fmt::Debug for TableInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} rows, {} columns", self.name, self.row_count(), self.column_count())
    }
}

/// A column of a sparse table; its name is borrowed from the reader.
#[derive(Clone, Copy)]
pub struct ColumnInfo<'a> {
    dtype: Dtype,
    shape: Dims,
    row_bytes: u64,
    stored_bytes: u64,
    name: &'a str,
}

impl<'a> ColumnInfo<'a> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The dtype of its elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The shape of one row; empty for one element.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.shape.get()
    }

    /// Bytes of one row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.row_bytes as usize
    }

    /// Bytes in the parts.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }
}

impl fmt::Debug for ColumnInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}{:?}", self.name, self.dtype, self.shape())
    }
}

impl Reader {
    /// Sparse tables, in the order of their names. Their tensors are among [`tensors`](Self::tensors) too.
    pub fn tables(&self) -> Items<'_, Self, Result<TableInfo<'_>>> {
        // SAFETY: the handle is alive.
        let count = unsafe { sys::ckpt_reader_table_count(self.handle.get()) };
        Items::new(self, count, |reader, index| {
            // SAFETY: the handle is alive.
            reader.table_info(|out, err| unsafe { sys::ckpt_reader_table_at(reader.handle.get(), index, out, err) })
        })
    }

    /// The sparse table of this name. `NOT_FOUND`, also for a tensor's name.
    pub fn table(&self, name: &str) -> Result<TableInfo<'_>> {
        let name = c_text(name)?;
        // SAFETY: the handle is alive; the name lives until the call returns.
        self.table_info(|out, err| unsafe { sys::ckpt_reader_table_find(self.handle.get(), name.as_ptr(), out, err) })
    }

    fn table_info(
        &self,
        call: impl FnOnce(*mut sys::ckpt_table_info, *mut *mut sys::ckpt_error) -> sys::ckpt_status,
    ) -> Result<TableInfo<'_>> {
        let mut raw = sized!(ckpt_table_info);
        check(|err| call(&mut raw, err))?;
        // SAFETY: the name lives as long as the reader.
        Ok(TableInfo { raw, name: unsafe { lent(raw.name)? } })
    }

    /// The columns of a sparse table, in the order in which they were saved. `NOT_FOUND`.
    pub fn columns(&self, table: &str) -> Result<Vec<ColumnInfo<'_>>> {
        let count = self.table(table)?.column_count();
        let table = c_text(table)?;
        (0..count)
            .map(|index| {
                let mut raw = sized!(ckpt_column_info);
                check(|err| {
                    // SAFETY: the handle is alive; the name lives until the call returns; `raw` has its size set.
                    unsafe { sys::ckpt_reader_table_column_at(self.handle.get(), table.as_ptr(), index, &mut raw, err) }
                })?;
                Ok(ColumnInfo {
                    dtype: Dtype(raw.dtype),
                    shape: Dims::new(raw.ndim, &raw.shape),
                    row_bytes: raw.row_bytes,
                    stored_bytes: raw.stored_bytes,
                    // SAFETY: the name lives as long as the reader.
                    name: unsafe { lent(raw.name)? },
                })
            })
            .collect()
    }
}
