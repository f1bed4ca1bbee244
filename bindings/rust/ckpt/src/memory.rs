//! Memory that a save or a load keeps.

use std::any::Any;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::dtype::{check_element, AnyBits, Dtype, Element};
use crate::error::{Error, Result};

/// What keeps memory alive.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

/// Memory that a save shares instead of borrowing it: it stays alive, and as it is, until the save is staged.
///
/// Made from a `Vec`, a boxed slice or an `Arc` of either; nothing is copied. A trainer that keeps its weights in an
/// `Arc<Vec<f32>>` changes them with [`Arc::make_mut`], which copies them only where a save still has them: it lets go
/// when a wait or a look at the job's state finds it staged.
#[derive(Clone)]
pub struct SharedMemory {
    pub(crate) keep: Keep,
    data: *const u8,
    bytes: usize,
    dtype: fn(Dtype) -> Result<()>,
}

// SAFETY: the pointer is to what `keep` owns, which is Send and Sync and is only read.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    pub(crate) fn data(&self) -> *const u8 {
        self.data
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(crate) fn check(&self, dtype: Dtype) -> Result<()> {
        (self.dtype)(dtype)
    }
}

impl<E: Element> From<Arc<Vec<E>>> for SharedMemory {
    fn from(memory: Arc<Vec<E>>) -> Self {
        let (data, bytes) = (memory.as_ptr().cast(), size_of_val(memory.as_slice()));
        SharedMemory { keep: memory, data, bytes, dtype: check_element::<E> }
    }
}

impl<E: Element> From<Arc<[E]>> for SharedMemory {
    fn from(memory: Arc<[E]>) -> Self {
        let (data, bytes) = (memory.as_ptr().cast(), size_of_val(&*memory));
        SharedMemory { keep: Arc::new(memory), data, bytes, dtype: check_element::<E> }
    }
}

impl<E: Element> From<Vec<E>> for SharedMemory {
    fn from(memory: Vec<E>) -> Self {
        Arc::new(memory).into()
    }
}

impl<E: Element> From<Box<[E]>> for SharedMemory {
    fn from(memory: Box<[E]>) -> Self {
        memory.into_vec().into()
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMemory({} bytes)", self.bytes)
    }
}

/// A vector that a load writes into.
pub(crate) struct Held {
    /// A `Vec` of elements. Not touched while the engine may write into it.
    vector: Box<dyn Any + Send>,
    data: *mut u8,
    len: usize,
    dtype: fn(Dtype) -> Result<()>,
    element_bytes: usize,
}

// SAFETY: the pointer is into the vector, which is owned here.
unsafe impl Send for Held {}
// SAFETY: a shared reference only reads plain elements, and only where no job has them.
unsafe impl Sync for Held {}

impl Held {
    pub(crate) fn new<E: AnyBits>(vector: Vec<E>) -> Self {
        let mut vector = Box::new(vector);
        let (data, len) = (vector.as_mut_ptr().cast(), vector.len());
        Held { vector, data, len, dtype: check_element::<E>, element_bytes: size_of::<E>() }
    }

    pub(crate) fn into_vec<E: AnyBits>(self) -> Option<Vec<E>> {
        self.vector.downcast().ok().map(|vector| *vector)
    }

    pub(crate) fn look<E: AnyBits>(&self) -> Option<&[E]> {
        self.vector.downcast_ref::<Vec<E>>().map(Vec::as_slice)
    }

    /// Pointer and bytes of a range of its elements.
    pub(crate) fn part(&self, dtype: Option<Dtype>, range: impl RangeBounds<usize>) -> Result<(*mut u8, usize)> {
        dtype.map_or(Ok(()), self.dtype)?;
        let first = match range.start_bound() {
            Bound::Included(&first) => Some(first),
            Bound::Excluded(&before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.checked_add(1),
            Bound::Excluded(&end) => Some(end),
            Bound::Unbounded => Some(self.len),
        };
        match (first, end) {
            (Some(first), Some(end)) if first <= end && end <= self.len => {
                // SAFETY: within the vector, as was just checked.
                Ok((unsafe { self.data.add(first * self.element_bytes) }, (end - first) * self.element_bytes))
            }
            _ => Err(Error::invalid(format!("the range reaches past the {} elements of the memory", self.len))),
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements", self.len)
    }
}
