//! Sparse tables: rows by 64-bit id, saved by the ranks that have them, loaded by any other number of ranks.

use std::ffi::{c_char, c_void, CString};
use std::fmt;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use ckpt_sys as sys;

use crate::dtype::{bytes_of, bytes_of_mut, check_element, AnyBits, Dtype, Element};
use crate::error::{check, Error, Result};
use crate::handle::{c_text, lent, sized, Handle, Items};
use crate::load::{Load, Slot};
use crate::memory::{Keep, SharedMemory};
use crate::reader::Reader;
use crate::save::Save;
use crate::tensor::{Device, Dims, MAX_NDIM};

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

/// The id of a row: `i64` or `u64`, which differ in [`TableInfo::id_dtype`] only. The bucket of an id, and its place in
/// order, are those of its bits as `u64`.
pub trait Id: AnyBits + sealed::Bits {}
impl Id for i64 {}
impl Id for u64 {}

// ---- save ----

/// Memory of rows that a save reads: a slice that it borrows, or [`SharedMemory`]. It has elements of the column's dtype,
/// or is bytes.
#[derive(Clone, Debug)]
pub struct RowMemory<'a> {
    block: Block<'a>,
    dtype: fn(Dtype) -> Result<()>,
}

#[derive(Clone, Debug)]
enum Block<'a> {
    Lent(&'a [u8]),
    Shared(SharedMemory),
}

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
    fn get(&self) -> (*const c_void, u64) {
        match &self.block {
            Block::Lent(bytes) => (bytes.as_ptr().cast(), bytes.len() as u64),
            Block::Shared(memory) => (memory.data().cast(), memory.len() as u64),
        }
    }

    fn keep(&self) -> Option<Keep> {
        match &self.block {
            Block::Lent(_) => None,
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
/// let rows = Rows::new(&ids).column("embedding", Dtype::F32, &[16], &embeddings).column("step", Dtype::U32, &[], &steps);
/// # let _ = rows;
/// ```
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    id_dtype: Dtype,
    ids: RowMemory<'a>,
    buckets: u64,
    rows_per_block: u64,
    positions: Option<RowMemory<'a>>,
    columns: Vec<Column<'a>>,
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
        Rows { id_dtype: dtype, ids, buckets: TABLE_BUCKETS, rows_per_block: 0, positions: None, columns, fault }
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

    /// Where each row lies, as `u64`: row `i` of every column is at `positions[i]` of its blocks taken together. Without
    /// it at `i`.
    #[must_use]
    pub fn positions(mut self, positions: impl Into<RowMemory<'a>>) -> Self {
        let positions = positions.into();
        let fault = (positions.dtype)(Dtype::U64).map_err(|error| error.prefixed("positions: ")).err();
        self.fault = self.fault.or(fault);
        self.positions = Some(positions);
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
        }
    }

    fn blocks(&self) -> impl Iterator<Item = &RowMemory<'a>> {
        self.columns.iter().flat_map(|column| &column.blocks)
    }
}

/// Names of columns as C takes them.
struct Names {
    texts: Vec<CString>,
}

impl Names {
    fn new<'n>(names: impl Iterator<Item = &'n str>) -> Result<Self> {
        Ok(Names { texts: names.map(c_text).collect::<Result<_>>()? })
    }

    fn pointers(&self) -> Vec<*const c_char> {
        self.texts.iter().map(|text| text.as_ptr()).collect()
    }
}

impl<'a> Save<'a> {
    /// Adds this rank's rows of sparse table `name`. All ranks give it the same columns, dtypes, shapes and buckets
    /// (`MISMATCH`); a rank without rows may leave it out. The save sorts row numbers, in 8 bytes of memory for each
    /// row, and copies no column.
    ///
    /// `INVALID` if memory is too small for the rows, `EXISTS` if the name was added before. An id that is there twice
    /// is `MISMATCH` when the save runs, before it writes; one of two ranks is found by
    /// [`Load::add_table`] and [`Reader::verify`].
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
    /// save.run()
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
        let (text, names) = (c_text(name)?, Names::new(rows.columns.iter().map(|column| column.name.as_str()))?);
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
                names.pointers().as_ptr(),
                descs.as_ptr(),
                data.as_ptr(),
                bytes.as_ptr(),
                positions.cast(),
                Device::CPU.kind.0,
                Device::CPU.id,
                err,
            )
        })
    }
}

// ---- reader ----

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

    /// The rows of all ranks.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.raw.row_count
    }

    /// How many buckets it has.
    #[must_use]
    pub fn bucket_count(&self) -> u64 {
        self.raw.bucket_count
    }

    /// The number of its columns.
    #[must_use]
    pub fn column_count(&self) -> u32 {
        self.raw.column_count
    }

    /// Bytes of ids and columns.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.raw.bytes
    }

    /// Bytes in the parts.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.raw.stored_bytes
    }
}

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

    /// Finds and counts the rows of a sparse table that this rank wants, before memory is made for them. It reads what
    /// tells where buckets begin; of [`Rowset::modulo`] all ids, of [`Rowset::ids`] those near to what is looked for.
    /// `NOT_FOUND` (no such table), `MISMATCH` (two ranks saved an id of the list), `INCOMPLETE`, `CORRUPT`, `FORMAT`,
    /// `GONE`, `IO`.
    pub fn share(&self, table: &str, rows: &Rowset) -> Result<Share> {
        let columns = self.columns(table)?.iter().map(|column| (column.name().to_owned(), column.dtype())).collect();
        let id_dtype = self.table(table)?.id_dtype();
        let name = c_text(table)?;
        let handle = Handle::make(|out, err| {
            let (reader, ids) = (self.handle.get(), &rows.ids);
            // SAFETY: name, description and list live until the call returns; the share keeps the checkpoint open.
            unsafe { sys::ckpt_share_open(out, reader, name.as_ptr(), &rows.raw, ids.as_ptr(), ids.len() as u64, err) }
        })?;
        let mut raw = sized!(ckpt_share_info);
        // SAFETY: the handle is alive; `raw` is ours and has its size set.
        check(|err| unsafe { sys::ckpt_share_get(handle.get(), &mut raw, err) })?;
        Ok(Share { handle, raw, id_dtype, columns })
    }
}

// ---- load ----

/// Which rows of a sparse table to load.
#[derive(Clone, Debug)]
pub struct Rowset {
    raw: sys::ckpt_share_desc,
    ids: Vec<u64>,
}

impl Rowset {
    fn new(kind: i32, index: u64, count: u64) -> Self {
        let mut raw = sized!(ckpt_share_desc);
        (raw.kind, raw.index, raw.count) = (kind, index, count);
        Rowset { raw, ids: Vec::new() }
    }

    /// All rows.
    #[must_use]
    pub fn all() -> Self {
        Rowset::new(sys::CKPT_SHARE_ALL, 0, 0)
    }

    /// Slice `index` of `count`: the buckets in equal ranges, the first ones one longer. What a rank of a trainer with
    /// `count` ranks wants.
    #[must_use]
    pub fn slice(index: u64, count: u64) -> Self {
        Rowset::new(sys::CKPT_SHARE_SLICE, index, count)
    }

    /// The rows of these buckets. The bucket of an id is the id, as `u64`, modulo [`TableInfo::bucket_count`].
    #[must_use]
    pub fn buckets(range: Range<u64>) -> Self {
        let mut rows = Rowset::new(sys::CKPT_SHARE_BUCKETS, 0, 0);
        (rows.raw.bucket_first, rows.raw.bucket_end) = (range.start, range.end);
        rows
    }

    /// The rows whose id, as `u64`, is `index` modulo `count`. Reads all ids of the table, and chunks of most rows.
    #[must_use]
    pub fn modulo(index: u64, count: u64) -> Self {
        Rowset::new(sys::CKPT_SHARE_MOD, index, count)
    }

    /// The rows of these ids, in this order, without those that the table lacks: [`Share::missing`] lists them.
    #[must_use]
    pub fn ids<I: Id>(ids: &[I]) -> Self {
        let mut rows = Rowset::new(sys::CKPT_SHARE_IDS, 0, 0);
        rows.ids = ids.iter().map(|id| id.to_bits()).collect();
        rows
    }

    /// In windows of at most so many rows, so that a table larger than memory can be passed through. Without it, or
    /// with 0, one window has all rows.
    #[must_use]
    pub fn window(mut self, rows: usize) -> Self {
        self.raw.window_rows = rows as u64;
        self
    }
}

/// The rows of a sparse table that this rank loads, counted and cut into windows: [`Reader::share`] makes it,
/// [`Load::add_table`] loads a window.
#[derive(Debug)]
pub struct Share {
    handle: Handle<sys::ckpt_share>,
    raw: sys::ckpt_share_info,
    id_dtype: Dtype,
    columns: Vec<(String, Dtype)>,
}

impl Share {
    /// Its rows, of all windows.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.raw.row_count as usize
    }

    /// The number of windows, at least 1.
    #[must_use]
    pub fn window_count(&self) -> u64 {
        self.raw.window_count
    }

    /// The rows of the largest window.
    #[must_use]
    pub fn most_rows(&self) -> usize {
        self.raw.most_rows as usize
    }

    /// The rows of window `window`, from 0. `NOT_FOUND`.
    pub fn window_rows(&self, window: u64) -> Result<usize> {
        let mut rows = 0;
        // SAFETY: the handle is alive; `rows` is ours.
        check(|err| unsafe { sys::ckpt_share_window_rows(self.handle.get(), window, &mut rows, err) })?;
        Ok(rows as usize)
    }

    /// Of [`Rowset::ids`]: the ids that the table lacks, in the order in which they were asked for.
    pub fn missing<I: Id>(&self) -> Result<Vec<I>> {
        (0..self.raw.missing_count)
            .map(|index| {
                let mut id = 0;
                // SAFETY: the handle is alive; `id` is ours.
                check(|err| unsafe { sys::ckpt_share_missing_at(self.handle.get(), index, &mut id, err) })?;
                Ok(I::from_bits(id))
            })
            .collect()
    }

    /// `None` for a column that the table lacks; the library says so.
    fn dtype(&self, column: &str) -> Option<Dtype> {
        self.columns.iter().find(|(name, _)| name == column).map(|(_, dtype)| *dtype)
    }
}

/// Memory that a load writes: borrowed, or what the load holds.
#[derive(Debug)]
enum Target<'a> {
    Lent(&'a mut [u8], fn(Dtype) -> Result<()>),
    Held(Slot<u8>, Bound<usize>, Bound<usize>),
}

impl<'a> Target<'a> {
    fn lent<E: AnyBits>(data: &'a mut [E]) -> Self {
        Target::Lent(bytes_of_mut(data), check_element::<E>)
    }

    fn held<E>(slot: Slot<E>, range: impl RangeBounds<usize>) -> Self {
        Target::Held(slot.bytes(), range.start_bound().cloned(), range.end_bound().cloned())
    }
}

/// Memory for the rows of a window: for their ids, and for any of the columns, each in one piece. Row `i` of all of them
/// belongs together. Which rows are where, the ids tell; of [`Rowset::ids`] rows come in the order asked for.
#[derive(Debug, Default)]
pub struct RowsMut<'a> {
    ids: Option<Target<'a>>,
    columns: Vec<(String, Target<'a>)>,
}

impl<'a> RowsMut<'a> {
    /// Of no columns yet.
    #[must_use]
    pub fn new() -> Self {
        RowsMut::default()
    }

    /// The ids go to `data`. Only a share of [`Rowset::ids`] can do without.
    #[must_use]
    pub fn ids<I: Id>(mut self, data: &'a mut [I]) -> Self {
        self.ids = Some(Target::lent(data));
        self
    }

    /// The ids go to elements `range` of memory that the load holds.
    #[must_use]
    pub fn ids_into<E: AnyBits>(mut self, slot: Slot<E>, range: impl RangeBounds<usize>) -> Self {
        self.ids = Some(Target::held(slot, range));
        self
    }

    /// Column `name` goes to `data`, which has elements of its dtype, or is bytes.
    #[must_use]
    pub fn column<E: AnyBits>(mut self, name: &str, data: &'a mut [E]) -> Self {
        self.columns.push((name.to_owned(), Target::lent(data)));
        self
    }

    /// Column `name` goes to elements `range` of memory that the load holds.
    #[must_use]
    pub fn column_into<E: AnyBits>(mut self, name: &str, slot: Slot<E>, range: impl RangeBounds<usize>) -> Self {
        self.columns.push((name.to_owned(), Target::held(slot, range)));
        self
    }
}

impl<'a> Load<'a> {
    /// Asks for the rows of window `window` of a share of the same reader. The memory holds as many rows as
    /// [`Share::window_rows`] tells, or more.
    ///
    /// `NOT_FOUND` (no such column), `INVALID`. Ids are checked once they are read, so after memory has changed: an id
    /// that two ranks saved is `MISMATCH` and names both; rows that are not sorted as they should be are `FORMAT`.
    pub fn add_table(&mut self, share: &Share, window: u64, rows: RowsMut<'a>) -> Result<()> {
        let (ids, ids_bytes) = match rows.ids {
            Some(target) => self.place(target, Some(share.id_dtype)).map_err(|error| error.prefixed("ids: "))?,
            None => (std::ptr::null_mut(), 0),
        };
        let names = Names::new(rows.columns.iter().map(|(name, _)| name.as_str()))?;
        let (mut data, mut bytes) = (Vec::new(), Vec::new());
        for (name, target) in rows.columns {
            let named = |error: Error| error.prefixed(&format!("column {name:?}: "));
            let (pointer, size) = self.place(target, share.dtype(&name)).map_err(named)?;
            data.push(pointer);
            bytes.push(size);
        }
        // SAFETY: names and lists live until the call returns, with as many entries as `data`. Memory is borrowed for
        // 'a, and every way to run the load ends within 'a; or the load and then its job own it.
        check(|err| unsafe {
            sys::ckpt_load_add_table(
                self.handle.get_mut(),
                share.handle.get(),
                window,
                ids,
                ids_bytes,
                data.len() as u64,
                names.pointers().as_ptr(),
                data.as_ptr(),
                bytes.as_ptr(),
                Device::CPU.kind.0,
                Device::CPU.id,
                err,
            )
        })
    }

    fn place(&self, target: Target<'a>, dtype: Option<Dtype>) -> Result<(*mut c_void, u64)> {
        match target {
            Target::Lent(bytes, check) => {
                dtype.map_or(Ok(()), check)?;
                Ok((bytes.as_mut_ptr().cast(), bytes.len() as u64))
            }
            Target::Held(slot, first, end) => {
                let (data, bytes) = self.buffers.part(slot, dtype, (first, end))?;
                Ok((data.cast(), bytes as u64))
            }
        }
    }
}
