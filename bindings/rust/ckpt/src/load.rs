//! Loads: requests for regions of tensors, planned and read together.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use ckpt_sys as sys;

use crate::dtype::{bytes_of_mut, check_element, wrong_elements, AnyBits};
use crate::error::{check, Error, Result};
use crate::handle::{c_text, Handle};
use crate::info::TensorInfo;
use crate::job::{Job, JobState, LoadJob};
use crate::memory::{zeros, Buffers, Held, Slot};
use crate::options::Options;
use crate::owned::OwnedTensor;
use crate::reader::Reader;
use crate::report::Report;
use crate::scope::Scope;
use crate::tensor::{Device, Region, TensorDesc};

/// Many requests that are planned and read together: make it, add to it, run or start it once.
///
/// `'a` is the lifetime of borrowed memory, which the engine writes until the load has ended. A load can also
/// [`hold`](Self::hold) memory, and gives it back as [`Buffers`].
///
/// ```
/// # let store = ckpt::Store::open("mem:load")?;
/// # let session = ckpt::Session::open(&store)?;
/// # let mut save = ckpt::Save::new(&session, "step-1", Some(1))?;
/// # save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[4, 2]), &[1f32; 8])?;
/// # save.run()?;
/// use ckpt::{Load, Reader, Region, TensorDesc};
/// let reader = Reader::open(&store, "latest")?;
/// let mut upper_half = [0f32; 4];
/// let mut load = Load::new(&reader)?;
/// let rows = TensorDesc::of::<f32>(&[4, 2]).region(Region::Box { offset: &[0, 0], extent: &[2, 2] });
/// load.add_tensor("w", &rows, &mut upper_half)?;
/// load.run()?;
/// assert_eq!(upper_half, [1.0; 4]);
/// # Ok::<_, ckpt::Error>(())
/// ```
///
/// One piece of memory cannot be lent twice, nor read while the load has it:
/// ```compile_fail,E0499
/// # fn f(reader: &ckpt::Reader, desc: &ckpt::TensorDesc) -> ckpt::Result<()> {
/// let (mut memory, mut other) = ([0f32; 8], [0f32; 8]);
/// let mut load = ckpt::Load::new(reader)?;
/// load.add_tensor("a", desc, &mut memory)?;
/// load.add_tensor("b", desc, &mut memory)?;
/// load.run()
/// # }
/// ```
/// but
/// ```
/// # fn f(reader: &ckpt::Reader, desc: &ckpt::TensorDesc) -> ckpt::Result<()> {
/// let (mut memory, mut other) = ([0f32; 8], [0f32; 8]);
/// let mut load = ckpt::Load::new(reader)?;
/// load.add_tensor("a", desc, &mut memory)?;
/// load.add_tensor("b", desc, &mut other)?;
/// load.run()
/// # }
/// ```
#[derive(Debug)]
pub struct Load<'a> {
    /// The first field, so it is dropped before the memory.
    pub(crate) handle: Handle<sys::ckpt_load>,
    pub(crate) buffers: Buffers,
    over: bool,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Load<'a> {
    /// A load from this checkpoint.
    pub fn new(reader: &Reader) -> Result<Self> {
        Load::new_with(reader, &Options::new())
    }

    /// Options: those used by `load`.
    pub fn new_with(reader: &Reader, options: &Options) -> Result<Self> {
        let bag = options.bag()?;
        // SAFETY: options live until the call returns; the load keeps the reader alive.
        let handle = Handle::make(|out, err| unsafe { sys::ckpt_load_new(out, reader.handle.get(), bag.get(), err) })?;
        Ok(Load { handle, buffers: Buffers::default(), over: false, memory: PhantomData })
    }

    /// Asks for a region of a tensor or alias. It may be another region than was saved: that is all there is to
    /// resharding.
    ///
    /// The shape of `desc` must be the tensor's, and its dtype too unless [`convert`](TensorDesc::convert) is set
    /// (`MISMATCH`). `data` has the elements that `desc` says, or is bytes. Option `strict` says what the run does
    /// about a name that the checkpoint lacks.
    pub fn add_tensor<E: AnyBits>(&mut self, name: &str, desc: &TensorDesc, data: &'a mut [E]) -> Result<()> {
        check_element::<E>(desc.dtype())?;
        // SAFETY: `data` is borrowed for 'a, and every way to run the load ends within 'a.
        unsafe { self.add_tensor_raw(name, desc, data.as_mut_ptr().cast(), size_of_val(data) as u64, Device::CPU) }
    }

    /// Asks for the shared object `name`, or for `rank`'s own; [`Reader::object`] tells its size.
    pub fn add_object(&mut self, name: &str, rank: u32, data: &'a mut [u8]) -> Result<()> {
        // SAFETY: as for add_tensor.
        unsafe { self.add_object_raw(name, rank, data.as_mut_ptr(), data.len()) }
    }

    /// Gives memory to the load; [`add_tensor_into`](Self::add_tensor_into) reads into it.
    /// [`take_buffers`](Self::take_buffers) or the job gives it back.
    pub fn hold<E: AnyBits>(&mut self, memory: Vec<E>) -> Slot<E> {
        self.buffers.held.push(Some(Held::new(memory)));
        Slot { load: self.buffers.load, index: self.buffers.held.len() - 1, element: PhantomData }
    }

    /// Like [`add_tensor`](Self::add_tensor), into elements `range` of memory that the load holds. Several requests may
    /// share memory, interleaved by strides; if they overlap, the load is INVALID, unless the same bytes come to it.
    pub fn add_tensor_into<E: AnyBits>(
        &mut self,
        name: &str,
        desc: &TensorDesc,
        slot: Slot<E>,
        range: impl RangeBounds<usize>,
    ) -> Result<()> {
        let (data, bytes) = self.buffers.part(slot, Some(desc.dtype()), range)?;
        // SAFETY: the load and then its job own the held memory, and give it back only when the engine is done.
        unsafe { self.add_tensor_raw(name, desc, data.cast(), bytes as u64, Device::CPU) }
    }

    /// Like [`add_object`](Self::add_object), into bytes `range` of memory that the load holds.
    pub fn add_object_into(
        &mut self,
        name: &str,
        rank: u32,
        slot: Slot<u8>,
        range: impl RangeBounds<usize>,
    ) -> Result<()> {
        let (data, bytes) = self.buffers.part(slot, None, range)?;
        // SAFETY: as for add_tensor_into.
        unsafe { self.add_object_raw(name, rank, data, bytes) }
    }

    /// Like [`add_tensor`](Self::add_tensor), with memory by pointer, for other languages and devices.
    ///
    /// # Safety
    /// `data` points to `bytes` writable bytes on `device`. They live, and nobody else uses them, until the load has
    /// ended or is dropped without being started.
    pub unsafe fn add_tensor_raw(
        &mut self,
        name: &str,
        desc: &TensorDesc,
        data: *mut c_void,
        bytes: u64,
        device: Device,
    ) -> Result<()> {
        let desc = desc.raw().map_err(|error| error.with("tensor", name))?;
        let name = c_text(name)?;
        // SAFETY: text and descriptor live until the call returns; `data` as the caller says.
        check(|err| unsafe {
            let load = self.handle.get_mut();
            sys::ckpt_load_add_tensor(load, name.as_ptr(), desc, data, bytes, device.kind.0, device.id, err)
        })
    }

    /// # Safety
    /// As for `add_tensor_raw`.
    unsafe fn add_object_raw(&mut self, name: &str, rank: u32, data: *mut u8, bytes: usize) -> Result<()> {
        let name = c_text(name)?;
        // SAFETY: the text lives until the call returns; `data` as the caller says.
        check(|err| unsafe {
            let load = self.handle.get_mut();
            sys::ckpt_load_add_object(load, name.as_ptr(), rank, data.cast(), bytes as u64, err)
        })
    }

    /// Reads everything that was asked for. `Ok` proves that every requested byte was written and (`verify=1`) checked.
    /// All structural errors (`NOT_FOUND`, `MISMATCH`, `INCOMPLETE`, …) come before memory changes; after `CORRUPT`,
    /// `IO`, `GONE` or `CANCELLED` its content is undefined.
    pub fn run(&mut self) -> Result<()> {
        self.check_not_over()?;
        // SAFETY: the memory lives for 'a, and the call ends within it.
        check(|err| unsafe { sys::ckpt_load_run(self.handle.get_mut(), err) })
    }

    /// Starts the load in the background; the end of the scope waits for its end.
    pub fn start_in<'scope>(&mut self, scope: &'scope Scope<'scope, '_>) -> Result<LoadJob>
    where
        'a: 'scope,
    {
        self.begin().map(|job| LoadJob::new(scope.watch(job)))
    }

    /// The caller makes sure that the job ends before 'a does.
    fn begin(&mut self) -> Result<Job> {
        self.check_not_over()?;
        let load = self.handle.get_mut();
        // SAFETY: the memory is borrowed, or moves into the job.
        Job::start(None, JobState::DONE, &mut Vec::new(), &mut self.buffers, |out, err| unsafe {
            sys::ckpt_load_start(load, out, err)
        })
    }

    /// Lists the names that were asked for and are missing, and those not asked for, whatever `strict` is.
    pub fn report(&self) -> Result<Report> {
        // SAFETY: the handle is alive.
        Report::make(|out, err| unsafe { sys::ckpt_load_report(self.handle.get(), out, err) })
    }

    /// The memory that the load holds; `None` after the load was started or the memory taken.
    #[must_use]
    pub fn memory<E: AnyBits>(&self, slot: Slot<E>) -> Option<&[E]> {
        self.buffers.look(slot)
    }

    /// Gives back the memory that the load holds, and ends the load. After a start the job has the memory.
    #[must_use]
    pub fn take_buffers(&mut self) -> Buffers {
        self.over = true;
        std::mem::take(&mut self.buffers)
    }

    /// The engine still has the address of memory that was given back, and must not use it.
    fn check_not_over(&self) -> Result<()> {
        if self.over {
            return Err(Error::invalid("the load is over: its memory was taken"));
        }
        Ok(())
    }
}

impl Load<'static> {
    /// Starts the load in the background, into memory that it holds.
    ///
    /// ```
    /// # let store = ckpt::Store::open("mem:hold")?;
    /// # let session = ckpt::Session::open(&store)?;
    /// # let mut save = ckpt::Save::new(&session, "step-1", Some(1))?;
    /// # save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[8]), &[1f32; 8])?;
    /// # save.run()?;
    /// # let reader = ckpt::Reader::open(&store, "latest")?;
    /// let mut load = ckpt::Load::new(&reader)?;
    /// let slot = load.hold(vec![0f32; 8]);
    /// load.add_tensor_into("w", &ckpt::TensorDesc::of::<f32>(&[8]), slot, ..)?;
    /// let job = load.start()?;
    /// let mut buffers = job.finish()?;
    /// assert_eq!(buffers.take(slot), Some(vec![1.0; 8]));
    /// # Ok::<_, ckpt::Error>(())
    /// ```
    pub fn start(&mut self) -> Result<LoadJob> {
        self.begin().map(LoadJob::new)
    }
}

/// Loads of one thing, whole.
impl Reader {
    /// Loads one whole tensor of elements `E`. For many tensors use [`Load`], which plans them together. `MISMATCH` if
    /// the tensor has other elements, `NOMEM` if it does not fit in memory.
    pub fn read<E: AnyBits>(&self, name: &str) -> Result<Vec<E>> {
        let info = self.tensor(name)?;
        if info.dtype() != E::DTYPE {
            return Err(wrong_elements::<E>(name, info.dtype()));
        }
        let mut data = zeros(info.bytes() as usize / size_of::<E>()).map_err(|error| error.with("tensor", name))?;
        self.read_whole(&info, bytes_of_mut(&mut data))?;
        Ok(data)
    }

    /// Loads one whole tensor of any dtype. `NOMEM` as for [`read`](Self::read).
    pub fn read_tensor(&self, name: &str) -> Result<OwnedTensor> {
        let info = self.tensor(name)?;
        let mut data = zeros(info.bytes() as usize).map_err(|error| error.with("tensor", name))?;
        self.read_whole(&info, &mut data)?;
        Ok(OwnedTensor { dtype: info.dtype(), shape: info.shape().to_vec(), data })
    }

    fn read_whole(&self, info: &TensorInfo<'_>, data: &mut [u8]) -> Result<()> {
        let mut load = Load::new(self)?;
        load.add_tensor(info.name(), &TensorDesc::new(info.dtype(), info.shape()).region(Region::Whole), data)?;
        load.run()
    }

    /// Loads the shared object `name`, or `rank`'s own. `NOMEM` as for [`read`](Self::read).
    pub fn read_object(&self, name: &str, rank: u32) -> Result<Vec<u8>> {
        let mut data = zeros(self.object(name, rank)?.size() as usize)?;
        let mut load = Load::new(self)?;
        load.add_object(name, rank, &mut data)?;
        load.run()?;
        Ok(data)
    }
}
