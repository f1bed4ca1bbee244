//! Shares: the rows of a sparse table that a rank loads.

use std::ffi::c_void;
use std::ops::{Bound, Range, RangeBounds};

use ckpt_sys as sys;

use crate::dtype::{bytes_of_mut, check_element, AnyBits, Dtype};
use crate::error::{check, Error, Result};
use crate::handle::{c_text, c_texts, pointers, sized, Handle};
use crate::load::Load;
use crate::memory::Slot;
use crate::options::Options;
use crate::reader::Reader;
use crate::rows::{Address, Id};
use crate::tensor::Device;

/// Which rows of a sparse table to load.
#[derive(Clone, Debug)]
pub struct Rowset {
    raw: sys::ckpt_share_desc,
    ids: Vec<u64>,
}

// SAFETY: its one pointer, `since`, is null.
unsafe impl Send for Rowset {}
// SAFETY: as above.
unsafe impl Sync for Rowset {}

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

    /// The rows of these buckets. The bucket of an id is the id, as `u64`, modulo
    /// [`TableInfo::bucket_count`](crate::TableInfo::bucket_count).
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

impl Reader {
    /// Finds and counts the rows of a sparse table that this rank wants, before memory is made for them. It reads what
    /// tells where buckets begin; of [`Rowset::modulo`] all ids, of [`Rowset::ids`] those near to what is looked for.
    /// `NOT_FOUND` (no such table), `MISMATCH` (two ranks saved an id of the list), `INCOMPLETE`, `CORRUPT`, `FORMAT`,
    /// `GONE`, `IO`.
    pub fn share(&self, table: &str, rows: &Rowset) -> Result<Share> {
        self.share_with(table, rows, &Options::new())
    }

    /// The same with options, such as a job that cancels it. Options: those used by `share`.
    pub fn share_with(&self, table: &str, rows: &Rowset, options: &Options) -> Result<Share> {
        self.open_share(table, rows.raw, &rows.ids, options)
    }

    /// Of these rows, but not of [`Rowset::ids`], those that are new or other than in checkpoint `earlier`, of any
    /// store: [`Share::missing`] lists the ids that are gone. `MISMATCH` too if the table had other columns there.
    pub fn share_since(&self, table: &str, rows: &Rowset, earlier: &Reader, options: &Options) -> Result<Share> {
        let desc = sys::ckpt_share_desc { since: earlier.handle.get(), ..rows.raw };
        self.open_share(table, desc, &rows.ids, options)
    }

    fn open_share(&self, table: &str, desc: sys::ckpt_share_desc, ids: &[u64], options: &Options) -> Result<Share> {
        let bag = options.bag()?;
        let columns = self.columns(table)?.iter().map(|column| (column.name().to_owned(), column.dtype())).collect();
        let id_dtype = self.table(table)?.id_dtype();
        let name = c_text(table)?;
        let handle = Handle::make(|out, err| {
            let (reader, count) = (self.handle.get(), ids.len() as u64);
            // SAFETY: all that is pointed to lives until the call returns; the share keeps the checkpoint open.
            unsafe { sys::ckpt_share_open(out, reader, name.as_ptr(), &desc, ids.as_ptr(), count, bag.get(), err) }
        })?;
        let mut raw = sized!(ckpt_share_info);
        // SAFETY: the handle is alive; `raw` is ours and has its size set.
        check(|err| unsafe { sys::ckpt_share_get(handle.get(), &mut raw, err) })?;
        Ok(Share { handle, raw, id_dtype, columns })
    }
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
    Raw(Address, u64),
}

impl<'a> Target<'a> {
    fn lent<E: AnyBits>(data: &'a mut [E]) -> Self {
        Target::Lent(bytes_of_mut(data), check_element::<E>)
    }

    fn held<E>(slot: Slot<E>, range: impl RangeBounds<usize>) -> Self {
        Target::Held(slot.bytes(), range.start_bound().cloned(), range.end_bound().cloned())
    }
}

/// Memory for the rows of a window: for their ids, and for any of the columns, each in one piece. Row `i` of all of
/// them belongs together. Which rows are where, the ids tell; of [`Rowset::ids`] rows come in the order asked for.
#[derive(Debug)]
pub struct RowsMut<'a> {
    ids: Option<Target<'a>>,
    columns: Vec<(String, Target<'a>)>,
    device: Device,
    stream: i64,
}

impl Default for RowsMut<'_> {
    fn default() -> Self {
        RowsMut { ids: None, columns: Vec::new(), device: Device::CPU, stream: 0 }
    }
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

    /// Column `name` goes to `bytes` bytes by pointer, for other languages and devices.
    ///
    /// # Safety
    /// `data` points to so many writable bytes on the device that [`device`](Self::device) names. They live, and nobody
    /// else uses them, until the load has ended or is dropped without being started.
    #[must_use]
    pub unsafe fn column_raw(mut self, name: &str, data: *mut c_void, bytes: u64) -> Self {
        self.columns.push((name.to_owned(), Target::Raw(Address(data), bytes)));
        self
    }

    /// The columns are memory of this device ([`column_raw`](Self::column_raw); ids stay the host's), written behind
    /// the work of `stream`, as [`TensorDesc::stream`](crate::TensorDesc::stream) has it.
    #[must_use]
    pub fn device(mut self, device: Device, stream: i64) -> Self {
        (self.device, self.stream) = (device, stream);
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
        let names = c_texts(rows.columns.iter().map(|(name, _)| name.as_str()))?;
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
                pointers(&names).as_ptr(),
                data.as_ptr(),
                bytes.as_ptr(),
                rows.device.kind.0,
                rows.device.id,
                rows.stream,
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
            Target::Raw(address, bytes) => Ok((address.0.cast_mut(), bytes)),
        }
    }
}
