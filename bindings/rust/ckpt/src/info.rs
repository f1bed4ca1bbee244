//! What a reader says about tensors, objects and parts.

use std::fmt;

use ckpt_sys as sys;

use crate::dtype::Dtype;
use crate::error::{check, Result};
use crate::handle::{lent, lent_or_none, sized};
use crate::numbers::{getters, numbers, text_of};
use crate::tensor::Dims;

ckpt_sys::each_object!(numbers! {
    /// Whether an object belongs to all ranks or to one.
    ObjectScope
});

type Err = *mut *mut sys::ckpt_error;

/// A tensor or alias; its names are borrowed from the reader.
#[derive(Clone, Copy)]
pub struct TensorInfo<'a> {
    raw: sys::ckpt_tensor_info,
    shape: Dims,
    name: &'a str,
    alias_of: Option<&'a str>,
}

impl<'a> TensorInfo<'a> {
    /// # Safety
    /// `call` fills the record with texts that live for 'a.
    pub(crate) unsafe fn fill(call: impl FnOnce(*mut sys::ckpt_tensor_info, Err) -> sys::ckpt_status) -> Result<Self> {
        let mut raw = sized!(ckpt_tensor_info);
        check(|err| call(&mut raw, err))?;
        // SAFETY: as the caller says.
        let (name, alias_of) = unsafe { (lent(raw.name)?, lent_or_none(raw.alias_of)?) };
        Ok(TensorInfo { raw, shape: Dims::new(raw.ndim, &raw.shape), name, alias_of })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The dtype of its elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        Dtype(self.raw.dtype)
    }

    /// Its shape in elements; empty for a scalar.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.shape.get()
    }

    /// The target, if it is an alias.
    #[must_use]
    pub fn alias_of(&self) -> Option<&'a str> {
        self.alias_of
    }
}
ckpt_sys::fields_of_ckpt_tensor_info!(getters! { [TensorInfo<'_>] });

impl fmt::Debug for TensorInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}{:?}", self.name, self.dtype(), self.shape())
    }
}

/// How an alias views its flattened target, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AliasInfo {
    /// The target's dtype.
    pub dtype: Dtype,
    /// The view's shape.
    pub shape: Vec<usize>,
    /// The view's strides.
    pub strides: Vec<usize>,
    /// The view's first element in the target.
    pub offset: u64,
}

impl AliasInfo {
    pub(crate) fn of(raw: &sys::ckpt_tensor_desc) -> Self {
        AliasInfo {
            dtype: Dtype(raw.dtype),
            shape: Dims::new(raw.ndim, &raw.shape).get().to_vec(),
            strides: Dims::new(raw.ndim, &raw.strides).get().to_vec(),
            offset: raw.flat_offset.try_into().unwrap_or(0),
        }
    }
}

/// The region of its tensor that a segment holds, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentRegion {
    /// A box.
    Box {
        /// Its first element in each dimension.
        offset: Vec<usize>,
        /// Its size in each dimension.
        extent: Vec<usize>,
    },
    /// A range of the flattened tensor.
    Flat {
        /// The first element.
        offset: u64,
        /// How many.
        size: u64,
    },
}

/// Where some of a tensor's bytes lie, for tools.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// The index of the part.
    pub part: u32,
    /// The region of the tensor.
    pub region: SegmentRegion,
    /// 0 raw, 1 LZ4.
    pub codec: i32,
    /// 0 none, 1 byte shuffle, 2 bit planes.
    pub filter: i32,
    /// The number of its chunks.
    pub chunk_count: u32,
    /// Where the first chunk begins in the part, in bytes.
    pub part_offset: u64,
    /// Bytes in the part.
    pub stored_bytes: u64,
}

impl SegmentInfo {
    pub(crate) fn of(raw: &sys::ckpt_segment_info) -> Self {
        let region = if raw.ndim < 0 {
            let number = |value: i64| value.try_into().unwrap_or(0);
            SegmentRegion::Flat { offset: number(raw.flat_offset), size: number(raw.flat_size) }
        } else {
            let dims = |values| Dims::new(raw.ndim, values).get().to_vec();
            SegmentRegion::Box { offset: dims(&raw.offset), extent: dims(&raw.extent) }
        };
        SegmentInfo {
            part: raw.part,
            region,
            codec: raw.codec,
            filter: raw.filter,
            chunk_count: raw.chunk_count,
            part_offset: raw.part_offset,
            stored_bytes: raw.stored_bytes,
        }
    }
}

/// An object; its texts are borrowed from the reader.
#[derive(Clone, Copy, Debug)]
pub struct ObjectInfo<'a> {
    scope: ObjectScope,
    rank: u32,
    size: u64,
    name: &'a str,
    media_type: &'a str,
}

impl<'a> ObjectInfo<'a> {
    /// # Safety
    /// `call` fills the record with texts that live for 'a.
    pub(crate) unsafe fn fill(call: impl FnOnce(*mut sys::ckpt_object_info, Err) -> sys::ckpt_status) -> Result<Self> {
        let mut raw = sized!(ckpt_object_info);
        check(|err| call(&mut raw, err))?;
        // SAFETY: as the caller says.
        let (name, media_type) = unsafe { (lent(raw.name)?, lent(raw.media_type)?) };
        Ok(ObjectInfo { scope: ObjectScope(raw.scope), rank: raw.rank, size: raw.size, name, media_type })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Its media type, such as `application/json`.
    #[must_use]
    pub fn media_type(&self) -> &'a str {
        self.media_type
    }

    /// Whether it belongs to all ranks or to one.
    #[must_use]
    pub fn scope(&self) -> ObjectScope {
        self.scope
    }

    /// The rank that it belongs to; `None` for a shared object.
    #[must_use]
    pub fn rank(&self) -> Option<u32> {
        (self.scope != ObjectScope::SHARED).then_some(self.rank)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// A part file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartInfo {
    /// `PART_003`.
    pub name: String,
    /// The rank that wrote it.
    pub rank: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// The save that wrote it.
    pub save_id: String,
}

impl PartInfo {
    pub(crate) fn of(raw: &sys::ckpt_part_info) -> Self {
        PartInfo {
            name: text_of(&raw.name).to_owned(),
            rank: raw.rank,
            bytes: raw.bytes,
            save_id: text_of(&raw.save_id).to_owned(),
        }
    }
}
