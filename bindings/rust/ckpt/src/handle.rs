//! What every handle is made of: the owner of one C object, and the texts and lists borrowed from it.

use std::ffi::{c_char, CStr, CString};
use std::iter::FusedIterator;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use ckpt_sys as sys;

use crate::error::{check, Error, Result, Status};

/// An opaque C type with a function that frees it.
///
/// # Safety
/// `FREE` may free a pointer from the library on any thread. Several threads may call functions that take `*const Self`
/// at once.
pub(crate) unsafe trait Opaque {
    const FREE: unsafe extern "C" fn(*mut Self);
}

macro_rules! opaque {
    ($($type:ident $free:ident)*) => {
        // SAFETY: ckpt.h, "Threads" and "Ownership".
        $(unsafe impl Opaque for sys::$type {
            const FREE: unsafe extern "C" fn(*mut Self) = sys::$free;
        })*
    };
}
opaque! {
    ckpt_options ckpt_options_free
    ckpt_store ckpt_store_free
    ckpt_list ckpt_list_free
    ckpt_runs ckpt_runs_free
    ckpt_report ckpt_report_free
    ckpt_session ckpt_session_free
    ckpt_save ckpt_save_free
    ckpt_reader ckpt_reader_free
    ckpt_load ckpt_load_free
    ckpt_share ckpt_share_free
    ckpt_keeper ckpt_keeper_free
    ckpt_job ckpt_job_free
    ckpt_tree ckpt_tree_free
    ckpt_file ckpt_file_free
}

/// Owns one C object.
pub(crate) struct Handle<T: Opaque>(NonNull<T>);

// SAFETY: the library has no thread-locals; objects may move between threads and be freed on any.
unsafe impl<T: Opaque> Send for Handle<T> {}
// SAFETY: a shared reference reaches only `*const T`, whose functions may run concurrently.
unsafe impl<T: Opaque> Sync for Handle<T> {}

impl<T: Opaque> Handle<T> {
    /// Runs a call that makes an object: `call(&mut out, &mut err)`.
    pub(crate) fn make(call: impl FnOnce(*mut *mut T, *mut *mut sys::ckpt_error) -> sys::ckpt_status) -> Result<Self> {
        Handle::make_or_none(call)?.ok_or_else(|| Error::new(Status::INTERNAL, "the library gave no object"))
    }

    /// The same of a call that may succeed and make nothing.
    pub(crate) fn make_or_none(
        call: impl FnOnce(*mut *mut T, *mut *mut sys::ckpt_error) -> sys::ckpt_status,
    ) -> Result<Option<Self>> {
        let mut out = std::ptr::null_mut();
        check(|err| call(&mut out, err))?;
        Ok(NonNull::new(out).map(Handle))
    }

    pub(crate) fn get(&self) -> *const T {
        self.0.as_ptr()
    }

    /// For functions that need the object alone.
    pub(crate) fn get_mut(&mut self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Opaque> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:p}", self.0)
    }
}

impl<T: Opaque> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the library, and only this frees it.
        unsafe { T::FREE(self.0.as_ptr()) }
    }
}

/// A zeroed record of the ABI with its size set.
macro_rules! sized {
    ($type:ident) => {
        ckpt_sys::$type { struct_size: size_of::<ckpt_sys::$type>() as u32, ..Default::default() }
    };
}
pub(crate) use sized;

pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("{text:?} holds a NUL")))
}

/// Texts for a list of C; [`pointers`] is that list.
pub(crate) fn c_texts<'t>(texts: impl Iterator<Item = &'t str>) -> Result<Vec<CString>> {
    texts.map(c_text).collect()
}

pub(crate) fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

pub(crate) fn c_text_or_null(text: Option<&str>) -> Result<Option<CString>> {
    text.map(c_text).transpose()
}

pub(crate) fn or_null(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())
}

pub(crate) fn c_path(path: impl AsRef<Path>) -> Result<CString> {
    let path = path.as_ref();
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::invalid(format!("path {path:?} holds a NUL")))
}

/// Text borrowed from the library; `None` for NULL.
///
/// # Safety
/// `text` is NULL, or NUL-terminated and alive for `'a`.
pub(crate) unsafe fn lent_or_none<'a>(text: *const c_char) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Error::new(Status::FORMAT, format!("{text:?} is not UTF-8")))
}

/// # Safety
/// As of [`lent_or_none`].
pub(crate) unsafe fn lent<'a>(text: *const c_char) -> Result<&'a str> {
    // SAFETY: as the caller says.
    Ok(unsafe { lent_or_none(text) }?.unwrap_or_default())
}

/// Bytes borrowed from the library; empty for NULL.
///
/// # Safety
/// `data` is NULL, or points to `size` readable bytes that live and do not change for `'a`.
pub(crate) unsafe fn lent_bytes<'a>(data: *const u8, size: u64) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(data, size as usize) }
}

/// Iterates over what an object holds by index: tensors, objects, findings, nodes.
pub struct Items<'a, S: ?Sized, T> {
    source: &'a S,
    at: fn(&'a S, u64) -> T,
    next: u64,
    end: u64,
}

impl<'a, S: ?Sized, T> Items<'a, S, T> {
    pub(crate) fn new(source: &'a S, count: u64, at: fn(&'a S, u64) -> T) -> Self {
        Items { source, at, next: 0, end: count }
    }
}

impl<S: ?Sized, T> Iterator for Items<'_, S, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.next == self.end {
            return None;
        }
        self.next += 1;
        Some((self.at)(self.source, self.next - 1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (left, Some(left))
    }
}

impl<S: ?Sized, T> DoubleEndedIterator for Items<'_, S, T> {
    fn next_back(&mut self) -> Option<T> {
        if self.next == self.end {
            return None;
        }
        self.end -= 1;
        Some((self.at)(self.source, self.end))
    }
}

impl<S: ?Sized, T> ExactSizeIterator for Items<'_, S, T> {}
impl<S: ?Sized, T> FusedIterator for Items<'_, S, T> {}
