//! The rows of a sparse table that a rank saves.

use std::ffi::c_void;
use std::sync::Arc;

use ckpt_sys as sys;

use crate::dtype::{bytes_of, check_element, AnyBits, Dtype, Element};
use crate::error::{check, Error, Result};
use crate::handle::{c_text, c_texts, pointers, sized};
use crate::memory::{Keep, SharedMemory};
use crate::save::Save;
use crate::tensor::{Device, MAX_NDIM};

/// The usual number of buckets: enough for thousands of ranks.
pub const TABLE_BUCKETS: u64 = sys::CKPT_TABLE_BUCKETS as u64;

mod sealed {
    pub trait Bits: Copy {
        fn to_bits(self) -> u64;
        fn from_bits(bits: u64) -> Self;
    }
    impl Bits for i64 {
        fn to_bits(self) -> u64 {
            self as u64
        }
        fn from_bits(bits: u64) -> Self {
            bits as i64
        }
    }
    impl Bits for u64 {
        fn to_bits(self) -> u64 {
            self
        }
        fn from_bits(bits: u64) -> Self {
            bits
        }
    }
}

/// The id of a row: `i64` or `u64`, which differ in [`TableInfo::id_dtype`](crate::TableInfo::id_dtype) only. The
/// bucket of an id, and its place in order, are those of its bits as `u64`.
pub trait Id: AnyBits + sealed::Bits {}
impl Id for i64 {}
impl Id for u64 {}

/// Memory of rows that a save reads: a slice that it borrows, [`SharedMemory`], or [by pointer](Self::raw). It has
/// elements of the column's dtype, or is bytes.
#[derive(Clone, Debug)]
pub struct RowMemory<'a> {
    block: Block<'a>,
    dtype: fn(Dtype) -> Result<()>,
}

#[derive(Clone, Debug)]
enum Block<'a> {
    Lent(&'a [u8]),
    Shared(SharedMemory),
    Raw(Address, u64),
}

/// Of memory that the caller answers for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(pub(crate) *const c_void);

// SAFETY: it is only handed to the library, on whatever thread; who made it answers for the memory.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl<'a, E: Element> From<&'a [E]> for RowMemory<'a> {
    fn from(data: &'a [E]) -> Self {
        RowMemory { block: Block::Lent(bytes_of(data)), dtype: check_element::<E> }
    }
}
impl<'a, E: Element> From<&'a Vec<E>> for RowMemory<'a> {
    fn from(data: &'a Vec<E>) -> Self {
        data.as_slice().into()
    }
}
impl<'a, E: Element, const N: usize> From<&'a [E; N]> for RowMemory<'a> {
    fn from(data: &'a [E; N]) -> Self {
        data.as_slice().into()
    }
}
impl From<SharedMemory> for RowMemory<'_> {
    fn from(data: SharedMemory) -> Self {
        RowMemory { dtype: data.dtype(), block: Block::Shared(data) }
    }
}

impl RowMemory<'_> {
    /// `bytes` bytes by pointer, for other languages and devices: the rows of a column that
    /// [`Rows::device`] says the place of.
    ///
    /// # Safety
    /// `data` points to so many readable bytes on that device, which live and do not change until each save that they
    /// are added to is staged, has ended, or is dropped without being started.
    #[must_use]
    pub unsafe fn raw(data: *const c_void, bytes: u64) -> Self {
        RowMemory { block: Block::Raw(Address(data), bytes), dtype: check_element::<u8> }
    }

    fn get(&self) -> (*const c_void, u64) {
        match &self.block {
            Block::Lent(bytes) => (bytes.as_ptr().cast(), bytes.len() as u64),
            Block::Shared(memory) => (memory.data().cast(), memory.len() as u64),
            Block::Raw(address, bytes) => (address.0, *bytes),
        }
    }

    fn keep(&self) -> Option<Keep> {
        match &self.block {
            Block::Lent(_) | Block::Raw(..) => None,
            Block::Shared(memory) => Some(Arc::clone(&memory.keep)),
        }
    }

    /// How many ids or positions it holds.
    fn count(&self) -> usize {
        self.get().1 as usize / size_of::<u64>()
    }
}

/// This rank's rows of a sparse table, for [`Save::add_table`]: their ids and, in each column, a row of elements for
/// each id. Memory is borrowed or shared as that of tensors, and not copied.
///
/// ```
/// use ckpt::{Dtype, Rows};
/// let ids = [7i64, 3, 9];
/// let (embeddings, steps) = ([0f32; 3 * 16], [1u32; 3]);
/// let rows = Rows::new(&ids).column("embedding", Dtype::F32, &[16], &embeddings);
/// let rows = rows.column("step", Dtype::U32, &[], &steps);
/// # let _ = rows;
/// ```
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    id_dtype: Dtype,
    ids: RowMemory<'a>,
    buckets: u64,
    rows_per_block: u64,
    positions: Option<RowMemory<'a>>,
    changes: Option<(&'a [u64], &'a [u64])>,
    flags: u32,
    columns: Vec<Column<'a>>,
    device: Device,
    stream: i64,
    /// What the library cannot take; `add_table` reports it.
    fault: Option<Error>,
}

#[derive(Clone, Debug)]
struct Column<'a> {
    name: String,
    desc: sys::ckpt_column_desc,
    blocks: Vec<RowMemory<'a>>,
}

impl<'a> Rows<'a> {
    /// Rows of these ids, which differ. There may be none.
    #[must_use]
    pub fn new<I: Id>(ids: &'a [I]) -> Self {
        Rows::with_ids(I::DTYPE, ids)
    }

    /// The same with ids of dtype `I64` or `U64` that may be shared, or bytes.
    #[must_use]
    pub fn with_ids(dtype: Dtype, ids: impl Into<RowMemory<'a>>) -> Self {
        let ids = ids.into();
        let fault = (ids.dtype)(dtype).map_err(|error| error.prefixed("ids: ")).err();
        let columns = Vec::new();
        let (device, stream, buckets) = (Device::CPU, 0, TABLE_BUCKETS);
        Rows {
            id_dtype: dtype,
            ids,
            buckets,
            rows_per_block: 0,
            positions: None,
            changes: None,
            flags: 0,
            columns,
            device,
            stream,
            fault,
        }
    }

    /// Adds a column, one of whose rows has this dtype and shape (empty: one element); `data` has the rows one after
    /// the other.
    #[must_use]
    pub fn column(self, name: &str, dtype: Dtype, row: &[usize], data: impl Into<RowMemory<'a>>) -> Self {
        self.column_in_blocks(name, dtype, row, [data])
    }

    /// The same for rows that lie in several blocks, as a hash table has them in slabs: each but the last has
    /// [`rows_per_block`](Self::rows_per_block) rows, and all columns have equally many blocks.
    #[must_use]
    pub fn column_in_blocks<M: Into<RowMemory<'a>>>(
        mut self,
        name: &str,
        dtype: Dtype,
        row: &[usize],
        blocks: impl IntoIterator<Item = M>,
    ) -> Self {
        let mut desc = sized!(ckpt_column_desc);
        (desc.dtype, desc.ndim) = (dtype.0, i32::try_from(row.len()).unwrap_or(i32::MAX));
        for (to, &from) in desc.shape.iter_mut().zip(row) {
            *to = i64::try_from(from).unwrap_or(-1);
        }
        let mut blocks: Vec<RowMemory<'a>> = blocks.into_iter().map(Into::into).collect();
        if blocks.is_empty() {
            blocks.push((&[0u8; 0]).into());
        }
        if let Err(fault) = self.check_column(dtype, row, &blocks) {
            self.fault = self.fault.or(Some(fault.prefixed(&format!("column {name:?}: "))));
        }
        self.columns.push(Column { name: name.to_owned(), desc, blocks });
        self
    }

    fn check_column(&self, dtype: Dtype, row: &[usize], blocks: &[RowMemory<'a>]) -> Result<()> {
        if row.len() >= MAX_NDIM {
            return Err(Error::invalid(format!("a row of {} dimensions, at most {}", row.len(), MAX_NDIM - 1)));
        }
        if let Some(first) = self.columns.first().filter(|first| first.blocks.len() != blocks.len()) {
            let expected = first.blocks.len();
            return Err(Error::invalid(format!("{} blocks, those before it have {expected}", blocks.len())));
        }
        blocks.iter().try_for_each(|block| (block.dtype)(dtype))
    }

    /// How many buckets the table has, 1 to 2³²-1; the same on all ranks. Without it [`TABLE_BUCKETS`].
    #[must_use]
    pub fn buckets(mut self, count: u64) -> Self {
        self.buckets = count;
        self
    }

    /// How many rows each block has, of columns in several blocks.
    #[must_use]
    pub fn rows_per_block(mut self, rows: usize) -> Self {
        self.rows_per_block = rows as u64;
        self
    }

    /// Where each row lies, as `u64`: row `i` of every column is at `positions[i]` of its blocks taken together.
    /// Without it at `i`.
    #[must_use]
    pub fn positions(mut self, positions: impl Into<RowMemory<'a>>) -> Self {
        let positions = positions.into();
        let fault = (positions.dtype)(Dtype::U64).map_err(|error| error.prefixed("positions: ")).err();
        self.fault = self.fault.or(fault);
        self.positions = Some(positions);
        self
    }

    /// What changed since this session's last save of the table on this rank, whether that one succeeded or not: the
    /// numbers of rows that are new or changed, and ids that are gone. All rows are given nevertheless; with option
    /// `incremental` a save writes only these, where it can.
    #[must_use]
    pub fn changes(mut self, rows: &'a [u64], removed: &'a [u64]) -> Self {
        self.changes = Some((rows, removed));
        self.flags = sys::CKPT_TABLE_CHANGES as u32;
        self
    }

    /// In place of [`changes`](Self::changes): the engine finds out what changed (`CKPT_TABLE_DIGESTS`).
    #[must_use]
    pub fn changes_by_digest(mut self) -> Self {
        self.changes = None;
        self.flags = sys::CKPT_TABLE_DIGESTS as u32;
        self
    }

    /// The columns are memory of this device ([`RowMemory::raw`]; ids and positions stay the host's), copied behind
    /// the work of `stream`, as [`TensorDesc::stream`](crate::TensorDesc::stream) has it.
    #[must_use]
    pub fn device(mut self, device: Device, stream: i64) -> Self {
        (self.device, self.stream) = (device, stream);
        self
    }

    fn check(&self) -> Result<()> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        match &self.positions {
            Some(positions) if positions.count() != self.ids.count() => {
                Err(Error::invalid(format!("{} positions for {} rows", positions.count(), self.ids.count())))
            }
            Some(positions) if !positions.get().0.cast::<u64>().is_aligned() => {
                Err(Error::invalid("positions that are not aligned to 8 bytes"))
            }
            _ => Ok(()),
        }
    }

    fn desc(&self) -> sys::ckpt_table_desc {
        sys::ckpt_table_desc {
            struct_size: size_of::<sys::ckpt_table_desc>() as u32,
            id_dtype: self.id_dtype.0,
            row_count: self.ids.count() as u64,
            bucket_count: self.buckets,
            rows_per_block: self.rows_per_block,
            column_count: self.columns.len() as u32,
            block_count: self.columns.first().map_or(0, |column| column.blocks.len() as u32),
            flags: self.flags,
            reserved: 0,
            changed: self.changes.map_or(std::ptr::null(), |(rows, _)| rows.as_ptr()),
            changed_count: self.changes.map_or(0, |(rows, _)| rows.len() as u64),
            removed: self.changes.map_or(std::ptr::null(), |(_, ids)| ids.as_ptr()),
            removed_count: self.changes.map_or(0, |(_, ids)| ids.len() as u64),
        }
    }

    fn blocks(&self) -> impl Iterator<Item = &RowMemory<'a>> {
        self.columns.iter().flat_map(|column| &column.blocks)
    }
}

impl<'a> Save<'a> {
    /// Adds this rank's rows of sparse table `name`. All ranks give it the same columns, dtypes, shapes and buckets
    /// (`MISMATCH`); a rank without rows may leave it out. The save sorts row numbers, in 8 bytes of memory for each
    /// row, and copies no column.
    ///
    /// `INVALID` if memory is too small for the rows, `EXISTS` if the name was added before. An id that is there twice
    /// is `MISMATCH` when the save runs, before it writes; one of two ranks is found by
    /// [`Load::add_table`](crate::Load::add_table) and [`Reader::verify`](crate::Reader::verify).
    ///
    /// ```
    /// # let store = ckpt::Store::open("mem:table")?;
    /// # let session = ckpt::Session::open(&store)?;
    /// use ckpt::{Dtype, Load, Reader, Rows, RowsMut, Rowset, Save};
    /// let (ids, embeddings) = ([7i64, 3, 9], [0.7f32, 0.7, 0.3, 0.3, 0.9, 0.9]);
    /// let mut save = Save::new(&session, "step-1", Some(1))?;
    /// save.add_table("items", &Rows::new(&ids).column("embedding", Dtype::F32, &[2], &embeddings))?;
    /// save.run()?;
    ///
    /// let reader = Reader::open(&store, "latest")?;
    /// let share = reader.share("items", &Rowset::slice(0, 1))?; // rank 0 of 1
    /// let mut ids = vec![0i64; share.row_count()];
    /// let mut embeddings = vec![0f32; 2 * share.row_count()];
    /// let mut load = Load::new(&reader)?;
    /// load.add_table(&share, 0, RowsMut::new().ids(&mut ids).column("embedding", &mut embeddings))?;
    /// load.run()?;
    /// assert_eq!((ids[0], embeddings[0]), (3, 0.3));
    /// # Ok::<_, ckpt::Error>(())
    /// ```
    ///
    /// Rows cannot change until the save has run:
    /// ```compile_fail,E0506
    /// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
    /// let mut ids = [7i64, 3, 9];
    /// let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
    /// save.add_table("items", &ckpt::Rows::new(&ids))?;
    /// ids[0] = 8;
    /// save.run()?;
    /// # Ok(())
    /// # }
    /// ```
    /// but
    /// ```
    /// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
    /// let mut ids = [7i64, 3, 9];
    /// let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
    /// save.add_table("items", &ckpt::Rows::new(&ids))?;
    /// save.run()?;
    /// ids[0] = 8;
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_table(&mut self, name: &str, rows: &Rows<'a>) -> Result<()> {
        rows.check().map_err(|error| error.with("tensor", name))?;
        let (text, names) = (c_text(name)?, c_texts(rows.columns.iter().map(|column| column.name.as_str()))?);
        // Kept before the call, even if that fails: the engine must never have memory that we do not keep.
        let memory = rows.blocks().chain([&rows.ids]).chain(&rows.positions);
        self.kept.extend(memory.filter_map(RowMemory::keep));
        let descs: Vec<_> = rows.columns.iter().map(|column| column.desc).collect();
        let (data, bytes): (Vec<_>, Vec<_>) = rows.blocks().map(RowMemory::get).unzip();
        let (ids, ids_bytes) = rows.ids.get();
        let positions = rows.positions.as_ref().map_or(std::ptr::null(), |positions| positions.get().0);
        // SAFETY: texts, descriptors and lists live until the call returns, with as many entries as `desc` says. Memory
        // is borrowed for 'a, and every way to run the save ends within 'a or waits for it to be staged; or it is kept.
        check(|err| unsafe {
            sys::ckpt_save_add_table(
                self.handle.get_mut(),
                text.as_ptr(),
                &rows.desc(),
                ids,
                ids_bytes,
                pointers(&names).as_ptr(),
                descs.as_ptr(),
                data.as_ptr(),
                bytes.as_ptr(),
                positions.cast(),
                rows.device.kind.0,
                rows.device.id,
                rows.stream,
                err,
            )
        })
    }
}
