//! Views of mapped memory.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::dtype::AnyBits;
use crate::error::{Error, Result, Status};
use crate::memory::no_memory;

/// Bytes of a mapped file, borrowed from the reader or file.
///
/// Whoever writes to the file changes these bytes, and whoever truncates it can end the process with SIGBUS. The bytes
/// of a Rust slice must not change, so to get a slice is `unsafe`, as in other crates that map files; to copy is not.
/// ckpt itself never writes to a mapped file.
#[derive(Clone, Copy)]
pub struct View<'a> {
    data: *const u8,
    len: usize,
    life: PhantomData<&'a [u8]>,
}

// SAFETY: bytes that are only read.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

impl<'a> View<'a> {
    /// # Safety
    /// `size` bytes at `data` stay mapped for 'a; `data` may be NULL if `size` is 0.
    pub(crate) unsafe fn new(data: *const u8, size: u64) -> Self {
        let data = if data.is_null() { NonNull::<u8>::dangling().as_ptr().cast_const() } else { data };
        View { data, len: size as usize, life: PhantomData }
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte; not always aligned.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.data
    }

    /// A copy. `NOMEM` if it does not fit in memory.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(self.len).map_err(|_| no_memory::<u8>(self.len))?;
        // SAFETY: the vector has room for `len` bytes and does not overlap a mapping; all of them are written first.
        unsafe {
            std::ptr::copy_nonoverlapping(self.data, copy.as_mut_ptr(), self.len);
            copy.set_len(self.len);
        }
        Ok(copy)
    }

    /// Copies into memory of the same size.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.len, "copy_to needs memory of the view's size");
        // SAFETY: both have that many bytes, and exclusive memory does not overlap a mapping.
        unsafe { std::ptr::copy_nonoverlapping(self.data, to.as_mut_ptr(), self.len) }
    }

    /// The bytes, without a copy.
    ///
    /// # Safety
    /// Nobody writes to the mapped file while the slice is in use.
    #[must_use]
    pub unsafe fn as_slice(&self) -> &'a [u8] {
        // SAFETY: mapped for 'a, and not written to, as the caller says.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }

    /// The elements, without a copy. `UNSUPPORTED` if the bytes are not aligned, or not a whole number of elements.
    ///
    /// # Safety
    /// As for [`as_slice`](Self::as_slice).
    pub unsafe fn as_slice_of<E: AnyBits>(&self) -> Result<&'a [E]> {
        if self.is_empty() {
            return Ok(&[]);
        }
        if !self.data.cast::<E>().is_aligned() || self.len % size_of::<E>() != 0 {
            return Err(Error::new(Status::UNSUPPORTED, format!("the view cannot be a slice of {}", E::DTYPE)));
        }
        // SAFETY: aligned, whole elements, and any bits are a value; the rest as for as_slice.
        Ok(unsafe { std::slice::from_raw_parts(self.data.cast(), self.len / size_of::<E>()) })
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_of_more_bytes_than_there_is_memory_for_is_not_copied() {
        // SAFETY: not so, but nothing reads them: there can be no memory to copy them to.
        let view = unsafe { View::new(std::ptr::null(), isize::MAX as u64) };
        assert_eq!(view.to_vec().unwrap_err().status(), Status::NOMEM);
    }
}
