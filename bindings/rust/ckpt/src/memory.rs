//! Memory that a save or a load keeps.

use std::alloc::{alloc_zeroed, Layout};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::dtype::{check_element, AnyBits, Dtype, Element};
use crate::error::{Error, Result, Status};

/// What keeps memory alive.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

/// Memory that a save shares instead of borrowing it: it stays alive and unchanged until the save is staged.
///
/// Made without a copy from a `Vec`, a boxed slice, an `Arc<Vec<_>>`, an `Arc<[_]>` or [any owner](Self::from_owner). A
/// trainer that keeps its weights in an `Arc<Vec<f32>>` changes them with [`Arc::make_mut`], which copies them only if
/// a save still shares them. The save releases them when a wait, or a call of the job's `state`, finds it staged.
#[derive(Clone)]
pub struct SharedMemory {
    pub(crate) keep: Keep,
    data: *const u8,
    bytes: usize,
    dtype: fn(Dtype) -> Result<()>,
}

// SAFETY: `keep` owns what the pointer points to; it is Send and Sync, and only read.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Memory of any owner: a mapped file, a buffer of another crate. The owner is dropped when the save releases it,
    /// on any thread.
    ///
    /// ```
    /// struct Pinned(Box<[f32; 4]>);
    /// impl AsRef<[f32]> for Pinned {
    ///     fn as_ref(&self) -> &[f32] {
    ///         &self.0[..]
    ///     }
    /// }
    /// let memory = ckpt::SharedMemory::from_owner::<f32, _>(Pinned(Box::new([1.0; 4])));
    /// assert_eq!(memory.len(), 16);
    /// ```
    pub fn from_owner<E: Element, O: AsRef<[E]> + Send + Sync + 'static>(owner: O) -> Self {
        // Moved first: the slice may lie in the owner itself.
        let owner = Arc::new(owner);
        // SAFETY (of reading it later): the slice is a shared borrow of the owner, taken once. Nobody else can reach
        // the owner: it does not move, is never borrowed mutably and is dropped with `keep`, so the borrow may last
        // until then. Sync lets the engine's threads read through it, Send lets any thread drop it.
        let slice: &[E] = (*owner).as_ref();
        let (data, bytes) = (slice.as_ptr().cast(), size_of_val(slice));
        SharedMemory { keep: owner, data, bytes, dtype: check_element::<E> }
    }

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

    pub(crate) fn dtype(&self) -> fn(Dtype) -> Result<()> {
        self.dtype
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

/// Zeros to load into. A checkpoint says how many, so too many are `NOMEM` instead of an abort as with `vec!`.
/// Untouched pages cost nothing, as with `vec!`; with `try_reserve` and `resize` they would.
pub(crate) fn zeros<E: AnyBits>(count: usize) -> Result<Vec<E>> {
    let layout = Layout::array::<E>(count).map_err(|_| no_memory::<E>(count))?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(no_memory::<E>(count));
    }
    // SAFETY: allocated just now with the layout of a vector; zeros are elements, as any bits are.
    Ok(unsafe { Vec::from_raw_parts(memory.cast(), count, count) })
}

pub(crate) fn no_memory<E: AnyBits>(count: usize) -> Error {
    Error::new(Status::NOMEM, format!("no memory for {count} elements of {}", E::DTYPE))
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

// SAFETY: the pointer points into the vector, which this owns.
unsafe impl Send for Held {}
// SAFETY: a shared reference only reads plain elements, and only while no job has them.
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
                // SAFETY: within the vector, as just checked.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_given_or_there_is_no_memory_for_them() {
        assert_eq!(zeros::<f64>(3).unwrap(), [0.0; 3]);
        assert!(zeros::<f64>(0).unwrap().is_empty());
        for count in [isize::MAX as usize / 8, usize::MAX] {
            assert_eq!(zeros::<f64>(count).unwrap_err().status(), Status::NOMEM);
        }
    }
}

/// Names memory of `E` that a load holds, in requests and to take it back.
#[derive(Debug)]
pub struct Slot<E> {
    pub(crate) load: u64,
    pub(crate) index: usize,
    pub(crate) element: PhantomData<fn() -> E>,
}

impl<E> Clone for Slot<E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Slot<E> {}

impl<E> Slot<E> {
    /// The same memory without its type, which the memory itself checks.
    pub(crate) fn bytes(self) -> Slot<u8> {
        Slot { load: self.load, index: self.index, element: PhantomData }
    }
}

/// Memory that a load held.
#[derive(Debug)]
pub struct Buffers {
    /// A number for each load, so that slots of other loads are refused.
    pub(crate) load: u64,
    pub(crate) held: Vec<Option<Held>>,
}

impl Default for Buffers {
    fn default() -> Self {
        static LOADS: AtomicU64 = AtomicU64::new(0);
        Buffers { load: LOADS.fetch_add(1, Ordering::Relaxed), held: Vec::new() }
    }
}

impl Buffers {
    /// Takes the memory of a slot; `None` if it was taken before, or belongs to another load.
    #[must_use]
    pub fn take<E: AnyBits>(&mut self, slot: Slot<E>) -> Option<Vec<E>> {
        if slot.load != self.load {
            return None;
        }
        self.held.get_mut(slot.index)?.take()?.into_vec()
    }

    pub(crate) fn look<E: AnyBits>(&self, slot: Slot<E>) -> Option<&[E]> {
        if slot.load != self.load {
            return None;
        }
        self.held.get(slot.index)?.as_ref()?.look()
    }

    pub(crate) fn part<E: AnyBits>(
        &self,
        slot: Slot<E>,
        dtype: Option<Dtype>,
        range: impl RangeBounds<usize>,
    ) -> Result<(*mut u8, usize)> {
        match self.held.get(slot.index) {
            Some(Some(held)) if slot.load == self.load => held.part(dtype, range),
            _ => Err(Error::invalid("the slot belongs to another load, or the load was started")),
        }
    }
}
