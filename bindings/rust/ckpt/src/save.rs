//! Saves: one rank's share of one checkpoint.

use std::ffi::c_void;
use std::marker::PhantomData;

use std::sync::Arc;

use ckpt_sys as sys;

use crate::background::Saves;

use crate::dtype::{check_element, Element};
use crate::error::{check, Result};
use crate::handle::{c_text, c_text_or_null, lent, or_null, Handle};
use crate::job::{Job, JobState};
use crate::load::Buffers;
use crate::memory::{Keep, SharedMemory};
use crate::numbers::numbers;
use crate::options::Options;
use crate::report::Report;
use crate::scope::Scope;
use crate::session::Session;
use crate::store::step_number;
use crate::tensor::{Device, TensorDesc};
use crate::tree::TreeRef;
use crate::value::Value;

ckpt_sys::each_object!(numbers! {
    /// Whether an object belongs to all ranks or to one.
    ObjectScope
});

/// One rank's share of one checkpoint: make it, add to it, run or start it once. Every rank of the session does the
/// same for the same label.
///
/// This crate never copies tensor data. `'a` is the lifetime of borrowed memory, which the engine reads until the save
/// is staged. There are four ways to save:
///
/// | | returns when | memory |
/// |---|---|---|
/// | [`run`](Self::run) | committed | borrowed or shared |
/// | [`stage`](Self::stage) | staged; writing goes on in the background | borrowed or shared |
/// | [`start_in`](Self::start_in) a [`scope`](crate::scope()) | at once; the scope's end waits | borrowed or shared |
/// | [`start`](Self::start) | at once | [shared](Self::add_tensor_shared) or `'static` |
///
/// So even if a job is forgotten (`std::mem::forget`), the engine never reads memory that was freed or changed:
/// ```compile_fail,E0597
/// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
/// let weights = vec![1f32; 1000];
/// let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
/// save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
/// let job = save.start()?; // `weights` is borrowed and not 'static: share it, or stage, or use a scope
/// std::mem::forget(job);
/// # Ok(())
/// # }
/// ```
/// but
/// ```
/// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
/// let weights = vec![1f32; 1000];
/// let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
/// save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
/// let job = save.stage()?;
/// std::mem::forget(job);
/// # Ok(())
/// # }
/// ```
/// Memory that was added cannot change until the save has run:
/// ```compile_fail,E0506
/// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
/// let mut weights = [1f32; 1000];
/// let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
/// save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
/// weights[0] = 2.0;
/// save.run()?;
/// # Ok(())
/// # }
/// ```
/// but
/// ```
/// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
/// let mut weights = [1f32; 1000];
/// let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
/// save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
/// save.run()?;
/// weights[0] = 2.0;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Save<'a> {
    /// The first field, so it is dropped before the memory.
    pub(crate) handle: Handle<sys::ckpt_save>,
    /// The session's, which waits for them.
    saves: Arc<Saves>,
    pub(crate) kept: Vec<Keep>,
    memory: PhantomData<&'a [u8]>,
}

/// The two functions that start a save.
type Start = unsafe extern "C" fn(*mut sys::ckpt_save, *mut *mut sys::ckpt_job, *mut *mut sys::ckpt_error) -> i32;

impl<'a> Save<'a> {
    /// `label`: 1-200 of `[A-Za-z0-9._=+-]`, no leading dot. All ranks pass the same label and step.
    pub fn new(session: &Session, label: &str, step: Option<u64>) -> Result<Self> {
        Save::new_with(session, label, step, &Options::new())
    }

    /// Also fails, and tells the other ranks, if an earlier save of the session failed in the background and nobody was
    /// told of it.
    ///
    /// Options: `on_existing`, `compression`, `held_by`, `replicas`, `threads`, `staging_bytes`, `timeout_ms`, `wait`,
    /// `keep_last`, `keep_every`, `protect`, `incremental`, `base`.
    pub fn new_with(session: &Session, label: &str, step: Option<u64>, options: &Options) -> Result<Self> {
        let (label, step, bag) = (c_text(label)?, step_number(step)?, options.bag()?);
        let handle = Handle::make(|out, err| {
            // SAFETY: texts and options live until the call returns; the save keeps the session alive.
            unsafe { sys::ckpt_save_new(out, session.handle.get(), label.as_ptr(), step, bag.get(), err) }
        })?;
        Save::of(session, handle)
    }

    /// One that was made for the session.
    pub(crate) fn of(session: &Session, handle: Handle<sys::ckpt_save>) -> Result<Self> {
        let saves = Arc::clone(&session.saves);
        let mut save = Save { handle, saves, kept: Vec::new(), memory: PhantomData };
        if let Err(earlier) = session.saves.failure() {
            save.give_up(&earlier.to_string())?;
            return Err(earlier);
        }
        Ok(save)
    }

    /// Adds this rank's region of tensor `name` (1-4096 bytes, no control characters, no `..` path element).
    ///
    /// `data` has the elements that `desc` says, or is bytes. `INVALID` if the region reaches past it, `EXISTS` if the
    /// name was added before.
    pub fn add_tensor<E: Element>(&mut self, name: &str, desc: &TensorDesc, data: &'a [E]) -> Result<()> {
        check_element::<E>(desc.dtype())?;
        // SAFETY: `data` is borrowed for 'a, and every way to run the save ends within 'a or waits for it to be staged.
        unsafe { self.add_tensor_raw(name, desc, data.as_ptr().cast(), size_of_val(data) as u64, Device::CPU) }
    }

    /// Like [`add_tensor`](Self::add_tensor), with memory that the save shares until it is staged.
    pub fn add_tensor_shared(&mut self, name: &str, desc: &TensorDesc, data: impl Into<SharedMemory>) -> Result<()> {
        let data = data.into();
        data.check(desc.dtype())?;
        let (pointer, bytes) = (data.data(), data.len() as u64);
        // Kept before the call, even if that fails: the engine must never have memory that we do not keep.
        self.kept.push(data.keep);
        // SAFETY: the save and then its job own `kept`, and release it only when the engine is done.
        unsafe { self.add_tensor_raw(name, desc, pointer.cast(), bytes, Device::CPU) }
    }

    /// Like [`add_tensor`](Self::add_tensor), with memory by pointer, for other languages and devices.
    ///
    /// # Safety
    /// `data` points to `bytes` readable bytes on `device`, which live and do not change until the save is staged, has
    /// ended, or is dropped without being started.
    pub unsafe fn add_tensor_raw(
        &mut self,
        name: &str,
        desc: &TensorDesc,
        data: *const c_void,
        bytes: u64,
        device: Device,
    ) -> Result<()> {
        let desc = desc.raw().map_err(|error| error.with("tensor", name))?;
        let name = c_text(name)?;
        // SAFETY: text and descriptor live until the call returns; `data` as the caller says.
        check(|err| unsafe {
            let save = self.handle.get_mut();
            sys::ckpt_save_add_tensor(save, name.as_ptr(), desc, data, bytes, device.kind.0, device.id, err)
        })
    }

    /// Adds named bytes, such as `application/json` state or a data loader's position. Copies them at once.
    /// Rank 0 must add a shared object; other ranks may, and then their bytes are compared with rank 0's.
    pub fn add_object(&mut self, name: &str, media_type: &str, scope: ObjectScope, data: &[u8]) -> Result<()> {
        let (name, media_type) = (c_text(name)?, c_text(media_type)?);
        // SAFETY: texts and data live until the call returns.
        check(|err| unsafe {
            sys::ckpt_save_add_object(
                self.handle.get_mut(),
                name.as_ptr(),
                media_type.as_ptr(),
                scope.0,
                data.as_ptr().cast(),
                data.len() as u64,
                err,
            )
        })
    }

    /// Adds a second name for tensor `target` (tied weights), or for a view of it: shape, strides and
    /// [`view_offset`](TensorDesc::view_offset) in elements of the flattened target. Ranks that add it must agree.
    pub fn add_alias(&mut self, name: &str, target: &str, view: Option<&TensorDesc>) -> Result<()> {
        let (name, target) = (c_text(name)?, c_text(target)?);
        let view = view.map(TensorDesc::raw).transpose()?.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: texts and view live until the call returns.
        check(|err| unsafe {
            sys::ckpt_save_add_alias(self.handle.get_mut(), name.as_ptr(), target.as_ptr(), view, err)
        })
    }

    /// Adds this rank's state tree under `name` (`None`: the main tree). The checkpoint's tree is that of all ranks
    /// together: what several ranks have at one place must be equal (`MISMATCH`), and what is each rank's own is a
    /// [`Value::per_rank`]. Add its tensors by their names.
    pub fn add_tree(&mut self, name: Option<&str>, tree: &TreeRef) -> Result<()> {
        let name = c_text_or_null(name)?;
        // SAFETY: text and tree live until the call returns.
        check(|err| unsafe { sys::ckpt_save_add_tree(self.handle.get_mut(), or_null(&name), tree.get(), err) })
    }

    /// Adds a value as a state tree. Add its tensors by their names, or by their paths in it.
    pub fn add_value(&mut self, name: Option<&str>, value: &Value) -> Result<()> {
        let tree = value.to_tree()?;
        self.add_tree(name, &tree)
    }

    /// Sets an attribute of the checkpoint; only rank 0's are written. Key: 1-255 bytes; value: up to 1 MiB.
    pub fn set_attr(&mut self, key: &str, value: &str) -> Result<()> {
        self.set_attr_of(None, key, value)
    }

    /// Sets an attribute of a tensor that this rank adds.
    pub fn set_tensor_attr(&mut self, tensor: &str, key: &str, value: &str) -> Result<()> {
        self.set_attr_of(Some(tensor), key, value)
    }

    fn set_attr_of(&mut self, tensor: Option<&str>, key: &str, value: &str) -> Result<()> {
        let (tensor, key, value) = (c_text_or_null(tensor)?, c_text(key)?, c_text(value)?);
        // SAFETY: texts live until the call returns.
        check(|err| unsafe {
            sys::ckpt_save_set_attr(self.handle.get_mut(), or_null(&tensor), key.as_ptr(), value.as_ptr(), err)
        })
    }

    /// The id that the checkpoint will have once committed.
    pub fn id(&self) -> Result<&str> {
        // SAFETY: the text lives as long as the save.
        unsafe { lent(sys::ckpt_save_id(self.handle.get())) }
    }

    /// Saves, and returns when the outcome is known. `Ok` on rank 0: durable, complete, committed; on other ranks:
    /// committed. After any error but `COMMIT_UNKNOWN` nothing was committed. Shared memory is released on success, or
    /// else when the save is dropped.
    pub fn run(&mut self) -> Result<()> {
        // SAFETY: the memory lives for 'a, and the call ends within it.
        check(|err| unsafe { sys::ckpt_save_run(self.handle.get_mut(), err) })?;
        // Not after a failure: a save that did not begin may be run again, and has the addresses of the memory.
        self.kept.clear();
        Report::print_anew(self.report());
        Ok(())
    }

    /// For a rank that cannot save, instead of running it: the other ranks' saves end at once with `ABORTED` and the
    /// reason. `INVALID` once the save has been run or started.
    pub fn give_up(&mut self, reason: &str) -> Result<()> {
        let reason = c_text(reason)?;
        // SAFETY: the text lives until the call returns.
        check(|err| unsafe { sys::ckpt_save_give_up(self.handle.get_mut(), reason.as_ptr(), err) })
    }

    /// Once the save has ended, on rank 0: what retention removed, and what it could not remove and why; before that
    /// `ANEW`, which was also printed to stderr, if the save does not go on from what its run has. Empty on other
    /// ranks; `INVALID` before the end.
    pub fn report(&self) -> Result<Report> {
        // SAFETY: the handle is alive.
        Report::make(|out, err| unsafe { sys::ckpt_save_report(self.handle.get(), out, err) })
    }

    /// Starts the save and returns as soon as the data is staged: the memory may change, and writing and committing go
    /// on in the background, which belongs to the session: the job may be dropped. This takes as long as a copy, if
    /// option `staging_bytes` (or the session's `arena_bytes`) is somewhat larger than the data. If the save fails
    /// meanwhile (a label that is taken), the job tells it, not this.
    ///
    /// ```
    /// # let store = ckpt::Store::open("mem:stage")?;
    /// # let session = ckpt::Session::open(&store)?;
    /// let mut weights = vec![1f32; 1000];
    /// let mut save = ckpt::Save::new(&session, "step-1", Some(1))?;
    /// save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
    /// let job = save.stage()?;
    /// weights[0] = 2.0;
    /// job.wait_committed()?;
    /// # Ok::<_, ckpt::Error>(())
    /// ```
    pub fn stage(&mut self) -> Result<Job> {
        let job = self.begin(sys::ckpt_save_start)?;
        job.until_staged();
        Ok(job)
    }

    /// Starts the save in the background; the end of the scope waits until it is staged.
    pub fn start_in<'scope>(&mut self, scope: &'scope Scope<'scope, '_>) -> Result<Job>
    where
        'a: 'scope,
    {
        self.begin(sys::ckpt_save_start).map(|job| scope.watch(job))
    }

    /// Like [`start_in`](Self::start_in), without a copy: it writes straight from the memory, and the end of the scope
    /// waits until all is written. Like [`run`](Self::run), but it can be watched and cancelled.
    pub fn start_in_place_in<'scope>(&mut self, scope: &'scope Scope<'scope, '_>) -> Result<Job>
    where
        'a: 'scope,
    {
        self.begin(sys::ckpt_save_start_in_place).map(|job| scope.watch(job))
    }

    /// The caller makes sure that the job is staged, or dropped, before 'a ends.
    fn begin(&mut self, start: Start) -> Result<Job> {
        let id = self.id()?.to_owned();
        let save = self.handle.get_mut();
        // SAFETY: the memory is borrowed, or moves into the job.
        let job =
            Job::start(Some(&id), JobState::STAGED, &mut self.kept, &mut Buffers::default(), |out, err| unsafe {
                start(save, out, err)
            })?;
        self.saves.add(&job.raw);
        Ok(job)
    }
}

impl Save<'static> {
    /// Starts the save of shared (or `'static`) memory in the background and returns at once.
    ///
    /// ```
    /// # let store = ckpt::Store::open("mem:start")?;
    /// # let session = ckpt::Session::open(&store)?;
    /// use std::sync::Arc;
    /// let mut weights = Arc::new(vec![1f32; 1000]);
    /// let mut save = ckpt::Save::new(&session, "step-1", Some(1))?;
    /// save.add_tensor_shared("w", &ckpt::TensorDesc::of::<f32>(&[1000]), Arc::clone(&weights))?;
    /// let job = save.start()?;
    /// Arc::make_mut(&mut weights)[0] = 2.0; // copies them first: the save may still read the old ones
    /// job.wait_staged()?;
    /// job.wait_committed()?;
    /// # Ok::<_, ckpt::Error>(())
    /// ```
    pub fn start(&mut self) -> Result<Job> {
        self.begin(sys::ckpt_save_start)
    }

    /// Like [`start`](Self::start), without a copy: the job is staged once all of the memory is written.
    pub fn start_in_place(&mut self) -> Result<Job> {
        self.begin(sys::ckpt_save_start_in_place)
    }
}
