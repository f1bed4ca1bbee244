//! Readers: an immutable view of one committed checkpoint.

use std::ffi::CString;
use std::path::Path;

use ckpt_sys as sys;

use crate::error::{check, Result};
use crate::handle::{c_path, c_text, c_text_or_null, lent, lent_or_none, or_null, sized, Handle, Items};
use crate::info::{AliasInfo, ObjectInfo, PartInfo, SegmentInfo, TensorInfo};
use crate::job::{Job, JobState};
use crate::memory::Buffers;
use crate::options::Options;
use crate::report::Report;
use crate::store::{CheckpointInfo, Store};
use crate::tree::Tree;
use crate::view::View;

/// An immutable view of one committed checkpoint; threads may share it. While it is open, nothing removes the
/// checkpoint. Names, attributes and views are borrowed from it.
#[derive(Debug)]
pub struct Reader {
    pub(crate) handle: Handle<sys::ckpt_reader>,
}

impl Reader {
    /// Opens the checkpoint that `selector` names (see [`Store::find`]). Reads and checks the manifest, no tensor data.
    /// `NOT_FOUND` if there is none. [`report`](Self::report) says which newer checkpoints were passed over.
    pub fn open(store: &Store, selector: &str) -> Result<Self> {
        Reader::open_with(store, selector, &Options::new())
    }

    /// Options: those used by `reader`.
    pub fn open_with(store: &Store, selector: &str, options: &Options) -> Result<Self> {
        let (selector, bag) = (c_text(selector)?, options.bag()?);
        let handle = Handle::make(|out, err| {
            // SAFETY: text and options live until the call returns; the reader keeps the store alive.
            unsafe { sys::ckpt_reader_open(out, store.handle.get(), selector.as_ptr(), bag.get(), err) }
        })?;
        Ok(Reader { handle })
    }

    /// Describes the checkpoint.
    pub fn info(&self) -> Result<CheckpointInfo> {
        // SAFETY: the handle is alive.
        CheckpointInfo::fill(|out, err| unsafe { sys::ckpt_reader_info(self.handle.get(), out, err) })
    }

    /// A finding `PASSED_OVER` for each newer checkpoint of the run that cannot be loaded, newest first, with its
    /// status: the progress that a trainer loses by going on from this one. Empty for a checkpoint that was named by
    /// its id.
    pub fn report(&self) -> Result<Report> {
        // SAFETY: the handle is alive.
        Report::make(|out, err| unsafe { sys::ckpt_reader_report(self.handle.get(), out, err) })
    }

    /// Tensors and aliases, in the order of their names' bytes.
    pub fn tensors(&self) -> Items<'_, Self, Result<TensorInfo<'_>>> {
        // SAFETY: the handle is alive.
        let count = unsafe { sys::ckpt_reader_tensor_count(self.handle.get()) };
        Items::new(self, count, Reader::tensor_at)
    }

    fn tensor_at(&self, index: u64) -> Result<TensorInfo<'_>> {
        // SAFETY: the handle is alive; the texts of the record live as long as it.
        unsafe { TensorInfo::fill(|out, err| sys::ckpt_reader_tensor_at(self.handle.get(), index, out, err)) }
    }

    /// The tensor or alias of this name. `NOT_FOUND`.
    pub fn tensor(&self, name: &str) -> Result<TensorInfo<'_>> {
        let name = c_text(name)?;
        // SAFETY: as for tensor_at; the name lives until the call returns.
        unsafe { TensorInfo::fill(|out, err| sys::ckpt_reader_tensor_find(self.handle.get(), name.as_ptr(), out, err)) }
    }

    /// How alias `name` views its target. `NOT_FOUND` if `name` is not an alias.
    pub fn alias(&self, name: &str) -> Result<AliasInfo> {
        let name = c_text(name)?;
        let mut raw = sized!(ckpt_tensor_desc);
        // SAFETY: the name lives until the call returns; `raw` is ours and has its size set.
        check(|err| unsafe { sys::ckpt_reader_alias_find(self.handle.get(), name.as_ptr(), &mut raw, err) })?;
        Ok(AliasInfo::of(&raw))
    }

    /// Where segment `index` of a tensor lies, from 0 to [`TensorInfo::segment_count`].
    pub fn segment(&self, tensor: &str, index: u32) -> Result<SegmentInfo> {
        let tensor = c_text(tensor)?;
        let mut raw = sized!(ckpt_segment_info);
        check(|err| {
            // SAFETY: the name lives until the call returns; `raw` is ours and has its size set.
            unsafe { sys::ckpt_reader_segment_at(self.handle.get(), tensor.as_ptr(), index, &mut raw, err) }
        })?;
        Ok(SegmentInfo::of(&raw))
    }

    /// Objects, in the order of name, then rank.
    pub fn objects(&self) -> Items<'_, Self, Result<ObjectInfo<'_>>> {
        // SAFETY: the handle is alive.
        let count = unsafe { sys::ckpt_reader_object_count(self.handle.get()) };
        // SAFETY: the handle is alive; the texts of the record live as long as it.
        Items::new(self, count, |reader, index| unsafe {
            ObjectInfo::fill(|out, err| sys::ckpt_reader_object_at(reader.handle.get(), index, out, err))
        })
    }

    /// The shared object `name`, or `rank`'s own. `NOT_FOUND`.
    pub fn object(&self, name: &str, rank: u32) -> Result<ObjectInfo<'_>> {
        let name = c_text(name)?;
        // SAFETY: as for objects; the name lives until the call returns.
        unsafe {
            ObjectInfo::fill(|out, err| sys::ckpt_reader_object_find(self.handle.get(), name.as_ptr(), rank, out, err))
        }
    }

    /// Part `index`, from 0 to [`CheckpointInfo::part_count`].
    pub fn part(&self, index: u32) -> Result<PartInfo> {
        let mut raw = sized!(ckpt_part_info);
        // SAFETY: the handle is alive; `raw` is ours and has its size set.
        check(|err| unsafe { sys::ckpt_reader_part_at(self.handle.get(), index, &mut raw, err) })?;
        Ok(PartInfo::of(&raw))
    }

    /// The attributes of the checkpoint, in the order of their keys.
    pub fn attrs(&self) -> Attrs<'_> {
        Attrs::new(self, None)
    }

    /// The attributes of a tensor, in the order of their keys; none if there is no such tensor.
    pub fn tensor_attrs(&self, tensor: &str) -> Result<Attrs<'_>> {
        Ok(Attrs::new(self, Some(c_text(tensor)?)))
    }

    /// One attribute of the checkpoint.
    pub fn attr(&self, key: &str) -> Result<Option<&str>> {
        self.attr_of(None, key)
    }

    /// One attribute of a tensor.
    pub fn tensor_attr(&self, tensor: &str, key: &str) -> Result<Option<&str>> {
        self.attr_of(Some(tensor), key)
    }

    fn attr_of(&self, tensor: Option<&str>, key: &str) -> Result<Option<&str>> {
        let (tensor, key) = (c_text_or_null(tensor)?, c_text(key)?);
        // SAFETY: texts live until the call returns; its result lives as long as the reader.
        unsafe { lent_or_none(sys::ckpt_reader_attr(self.handle.get(), or_null(&tensor), key.as_ptr())) }
    }

    /// A read-only view of a whole tensor, without a copy. `UNSUPPORTED` unless its bytes are stored raw and in one
    /// piece. Checksums are verified first unless `verify=0`. Options: those used by `map`.
    ///
    /// A mapped file on a failing disk can end the process with SIGBUS; a [`Load`](crate::Load) cannot.
    ///
    /// The view cannot outlive the reader:
    /// ```compile_fail,E0505
    /// # fn f(reader: ckpt::Reader) -> ckpt::Result<()> {
    /// let view = reader.map("w", &ckpt::Options::new())?;
    /// drop(reader);
    /// view.to_vec()?;
    /// # Ok(())
    /// # }
    /// ```
    /// but
    /// ```
    /// # fn f(reader: ckpt::Reader) -> ckpt::Result<()> {
    /// let view = reader.map("w", &ckpt::Options::new())?;
    /// view.to_vec()?;
    /// drop(reader);
    /// # Ok(())
    /// # }
    /// ```
    pub fn map(&self, tensor: &str, options: &Options) -> Result<View<'_>> {
        let (tensor, bag) = (c_text(tensor)?, options.bag()?);
        let (mut data, mut size) = (std::ptr::null(), 0);
        check(|err| {
            let reader = self.handle.get();
            // SAFETY: text and options live until the call returns; both outputs are ours.
            unsafe { sys::ckpt_reader_map(reader, tensor.as_ptr(), bag.get(), &mut data, &mut size, err) }
        })?;
        // SAFETY: the library promises that the view lives as long as the reader.
        Ok(unsafe { View::new(data.cast(), size) })
    }

    /// Checks the checkpoint in the background. Damage does not fail the job: its report lists every damage, and an
    /// empty report means a sound checkpoint. Options: those used by `verify`.
    pub fn verify(&self, options: &Options) -> Result<Job> {
        let bag = options.bag()?;
        // SAFETY: options live until the call returns; the job keeps the reader alive.
        Job::start(None, JobState::DONE, &mut Vec::new(), &mut Buffers::default(), |out, err| unsafe {
            sys::ckpt_reader_verify(self.handle.get(), bag.get(), out, err)
        })
    }

    /// Compares two checkpoints: names, dtypes, shapes, objects and attributes, then (`values=1`) the elements. An
    /// empty report means equal content. Options: those used by `diff`.
    pub fn diff(&self, other: &Reader, options: &Options) -> Result<Report> {
        let bag = options.bag()?;
        Report::make(|out, err| {
            // SAFETY: both readers and the options live until the call returns.
            unsafe { sys::ckpt_reader_diff(self.handle.get(), other.handle.get(), bag.get(), out, err) }
        })
    }

    /// Makes the same checkpoint in another store, byte for byte, and checks every byte on its way. An unfinished copy
    /// is no checkpoint; the next call goes on with it. One that is there already is fine; the report says what was
    /// there, and whether the copy is foreign in that store. Options: those used by `copy`. Errors: `EXISTS` (another
    /// checkpoint has its name there), `CORRUPT`, `FORMAT`, `INCOMPLETE`, `GONE`, `MISMATCH`, `CONFLICT`, `ABORTED`,
    /// `COMMIT_UNKNOWN` (copy again).
    pub fn copy(&self, to: &Store, options: &Options) -> Result<Report> {
        let bag = options.bag()?;
        Report::make(|out, err| {
            // SAFETY: reader, store and options live until the call returns.
            unsafe { sys::ckpt_reader_copy(self.handle.get(), to.handle.get(), bag.get(), out, err) }
        })
    }

    /// Writes the checkpoint to `path`, which must not exist, as option `format` says: safetensors, `.pt`, DCP, hfai,
    /// Composer, OLMo, torchtune or RecIS.
    /// Options: those used by `export`.
    pub fn export(&self, path: impl AsRef<Path>, options: &Options) -> Result<()> {
        let (path, bag) = (c_path(path)?, options.bag()?);
        // SAFETY: text and options live until the call returns.
        check(|err| unsafe { sys::ckpt_export(self.handle.get(), path.as_ptr(), bag.get(), err) })
    }

    /// The state tree of object `name`. `None`: the main tree or, if the checkpoint has none, a dict of all tensors.
    pub fn tree(&self, name: Option<&str>) -> Result<Tree> {
        let name = c_text_or_null(name)?;
        // SAFETY: the text lives until the call returns.
        Handle::make(|out, err| unsafe { sys::ckpt_reader_tree(self.handle.get(), or_null(&name), out, err) })
            .map(Tree::from)
    }

    /// The same, but a [`Value::per_rank`](crate::Value::per_rank) holds only what `rank` saved; what rank 0 saved, if
    /// there were fewer ranks.
    pub fn tree_of_rank(&self, name: Option<&str>, rank: u32) -> Result<Tree> {
        let name = c_text_or_null(name)?;
        Handle::make(|out, err| {
            // SAFETY: the text lives until the call returns.
            unsafe { sys::ckpt_reader_tree_of_rank(self.handle.get(), or_null(&name), rank, out, err) }
        })
        .map(Tree::from)
    }
}

/// Iterates over attributes: keys and values.
#[derive(Debug)]
pub struct Attrs<'a> {
    reader: &'a Reader,
    tensor: Option<CString>,
    next: u64,
    end: u64,
}

impl<'a> Attrs<'a> {
    fn new(reader: &'a Reader, tensor: Option<CString>) -> Self {
        // SAFETY: handle and text are alive.
        let end = unsafe { sys::ckpt_reader_attr_count(reader.handle.get(), or_null(&tensor)) };
        Attrs { reader, tensor, next: 0, end }
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = Result<(&'a str, &'a str)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            return None;
        }
        self.next += 1;
        let (mut key, mut value) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the text lives until the call returns; its result lives as long as the reader.
        Some(unsafe {
            check(|err| {
                let (reader, tensor) = (self.reader.handle.get(), or_null(&self.tensor));
                sys::ckpt_reader_attr_at(reader, tensor, self.next - 1, &mut key, &mut value, err)
            })
            .and_then(|()| Ok((lent(key)?, lent(value)?)))
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Attrs<'_> {}
