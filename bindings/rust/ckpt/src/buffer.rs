//! Memory to load into, from the library.

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};

use ckpt_sys as sys;

use crate::error::{check, Result};

/// Zeroed memory to load into: on huge pages, and made by several threads, because a load into new memory of another
/// kind takes longer. Bytes, for any dtype.
///
/// ```
/// # let store = ckpt::Store::open("mem:buffer")?;
/// # let session = ckpt::Session::open(&store)?;
/// # let mut save = ckpt::Save::new(&session, "step-1", Some(1))?;
/// # save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[2]), &[1f32, 2.0])?;
/// # save.run()?;
/// # let reader = ckpt::Reader::open(&store, "latest")?;
/// let mut buffer = ckpt::Buffer::new(8)?;
/// let mut load = ckpt::Load::new(&reader)?;
/// load.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[2]), &mut buffer[..])?;
/// load.run()?;
/// assert_eq!(buffer[..4], 1f32.to_le_bytes());
/// # Ok::<_, ckpt::Error>(())
/// ```
#[derive(Debug)]
pub struct Buffer {
    data: *mut c_void,
    bytes: usize,
}

// SAFETY: it owns plain memory, which any thread may free; shared references only read it.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `NOMEM` if there is not that much.
    pub fn new(bytes: usize) -> Result<Self> {
        let mut data = std::ptr::null_mut();
        // SAFETY: `data` is a place for the output.
        check(|err| unsafe { sys::ckpt_buffer_alloc(&mut data, bytes as u64, err) })?;
        Ok(Buffer { data, bytes })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the library gave `bytes` initialised bytes, not null, which live as long as self.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the memory came from the library with this size, and only this frees it.
        unsafe { sys::ckpt_buffer_free(self.data, self.bytes as u64) }
    }
}
