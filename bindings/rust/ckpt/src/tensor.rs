//! What a piece of memory is: dtype, shape, region, strides, replicas.

use ckpt_sys as sys;

use crate::dtype::{Dtype, Element};
use crate::error::{Error, Result};
use crate::handle::sized;
use crate::numbers::numbers;

/// The most dimensions that a tensor can have.
pub const MAX_NDIM: usize = sys::CKPT_MAX_NDIM as usize;

/// Which elements of a tensor a piece of memory holds. Numbers are in elements, not bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Region<'d> {
    /// The whole tensor.
    #[default]
    Whole,
    /// The box at `offset` of size `extent` (FSDP2, tensor, pipeline and expert parallelism; any tiling).
    Box {
        /// Its first element, one number per dimension.
        offset: &'d [usize],
        /// Its size, one number per dimension; 0 makes an empty box.
        extent: &'d [usize],
    },
    /// Elements `offset .. offset + size` of the tensor flattened in row-major order (FSDP flat parameters).
    Flat {
        /// The first element.
        offset: usize,
        /// How many; may be 0.
        size: usize,
    },
}

/// Describes a piece of memory, step by step. The memory is row-major and contiguous unless
/// [`strides`](Self::strides) says otherwise.
///
/// ```
/// use ckpt::{Dtype, Region, TensorDesc};
/// let whole = TensorDesc::of::<f32>(&[128, 64]);
/// let rows = TensorDesc::new(Dtype::BF16, &[128, 64]).region(Region::Box { offset: &[32, 0], extent: &[32, 64] });
/// assert_ne!(whole.dtype(), rows.dtype());
/// ```
#[derive(Clone, Debug)]
pub struct TensorDesc {
    raw: sys::ckpt_tensor_desc,
    /// What the library cannot take; the call that gets the descriptor reports it.
    fault: Option<String>,
}

impl TensorDesc {
    /// A whole tensor of this dtype and shape; an empty shape is a scalar.
    #[must_use]
    pub fn new(dtype: Dtype, shape: &[usize]) -> Self {
        let mut desc = TensorDesc { raw: sized!(ckpt_tensor_desc), fault: None };
        desc.raw.dtype = dtype.0;
        desc.raw.ndim = i32::try_from(shape.len()).unwrap_or(i32::MAX);
        if shape.len() > MAX_NDIM {
            desc.fault = Some(format!("a shape of {} dimensions, at most {MAX_NDIM}", shape.len()));
            return desc;
        }
        desc.raw.shape = desc.numbers("shape", shape);
        desc
    }

    /// A whole tensor of elements `E`.
    #[must_use]
    pub fn of<E: Element>(shape: &[usize]) -> Self {
        TensorDesc::new(E::DTYPE, shape)
    }

    /// The memory is this region of the tensor.
    #[must_use]
    pub fn region(mut self, region: Region<'_>) -> Self {
        match region {
            Region::Whole => self.raw.region_kind = sys::CKPT_REGION_WHOLE,
            Region::Box { offset, extent } => {
                self.raw.region_kind = sys::CKPT_REGION_BOX;
                self.raw.offset = self.numbers("offset", offset);
                self.raw.extent = self.numbers("extent", extent);
            }
            Region::Flat { offset, size } => {
                self.raw.region_kind = sys::CKPT_REGION_FLAT;
                self.raw.flat_offset = self.number("flat offset", offset);
                self.raw.flat_size = self.number("flat size", size);
            }
        }
        self
    }

    /// Strides of the memory in elements; 0 repeats. Not with [`Region::Flat`].
    #[must_use]
    pub fn strides(mut self, strides: &[usize]) -> Self {
        self.raw.flags |= sys::CKPT_TENSOR_STRIDED as u32;
        self.raw.strides = self.numbers("strides", strides);
        self
    }

    /// Save only: this rank is member `index` of replica group `group`, whose `count` ranks hold the same region. They
    /// assign its bytes among themselves. By default all ranks hold a whole tensor, and this rank alone holds a box or
    /// flat range.
    #[must_use]
    pub fn replica(mut self, group: u64, index: u32, count: u32) -> Self {
        self.raw.replica_group = group;
        self.raw.replica_index = index;
        self.raw.replica_count = count;
        self
    }

    /// Save only: the values of the replica group's first member count, and those of the others may differ.
    #[must_use]
    pub fn first_replica(mut self) -> Self {
        self.raw.flags |= sys::CKPT_TENSOR_FIRST_REPLICA as u32;
        self
    }

    /// Load only: convert `f32`, `bf16` and `f16` into each other, to nearest even, where dtypes differ.
    #[must_use]
    pub fn convert(mut self) -> Self {
        self.raw.flags |= sys::CKPT_TENSOR_CONVERT as u32;
        self
    }

    /// Alias only: the view begins at this element of the flattened target.
    #[must_use]
    pub fn view_offset(mut self, offset: usize) -> Self {
        self.raw.flat_offset = self.number("view offset", offset);
        self
    }

    /// The dtype of the memory.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        Dtype(self.raw.dtype)
    }

    /// Memory of a CUDA device: the stream behind whose work it is copied, by DLPack's numbers
    /// (1 or 0 the legacy default stream, 2 that of the thread, -1 none, else a `cudaStream_t`).
    #[must_use]
    pub fn stream(mut self, stream: i64) -> Self {
        self.raw.stream = stream;
        self
    }

    pub(crate) fn raw(&self) -> Result<&sys::ckpt_tensor_desc> {
        match &self.fault {
            None => Ok(&self.raw),
            Some(fault) => Err(Error::invalid(fault.clone())),
        }
    }

    fn number(&mut self, what: &str, value: usize) -> i64 {
        i64::try_from(value).unwrap_or_else(|_| {
            self.fault = Some(format!("{what} {value} is above 2^63-1"));
            0
        })
    }

    fn numbers(&mut self, what: &str, values: &[usize]) -> [i64; MAX_NDIM] {
        let mut out = [0; MAX_NDIM];
        if i32::try_from(values.len()) != Ok(self.raw.ndim) {
            self.fault = Some(format!("{what} has {} numbers for {} dimensions", values.len(), self.raw.ndim));
            return out;
        }
        for (to, &from) in out.iter_mut().zip(values) {
            *to = self.number(what, from);
        }
        out
    }
}

/// Extents, offsets or strides, one per dimension, in place.
#[derive(Clone, Copy, Default)]
pub(crate) struct Dims {
    count: usize,
    at: [usize; MAX_NDIM],
}

impl Dims {
    /// From an array of the library; its numbers are not negative.
    pub(crate) fn new(ndim: i32, from: &[i64; MAX_NDIM]) -> Self {
        let mut dims = Dims { count: usize::try_from(ndim).unwrap_or(0).min(MAX_NDIM), at: [0; MAX_NDIM] };
        for (to, &from) in dims.at.iter_mut().zip(from).take(dims.count) {
            *to = usize::try_from(from).unwrap_or(0);
        }
        dims
    }

    pub(crate) fn get(&self) -> &[usize] {
        &self.at[..self.count]
    }
}

ckpt_sys::each_device!(numbers! {
    /// Where memory is, as in DLPack.
    DeviceKind
});

/// A device, for memory given by pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its kind.
    pub kind: DeviceKind,
    /// Which of its kind.
    pub id: i32,
}

impl Device {
    /// The host.
    pub const CPU: Device = Device { kind: DeviceKind::CPU, id: 0 };
}
