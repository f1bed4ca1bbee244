//! Statuses and errors.

use std::ffi::CStr;
use std::fmt;

use ckpt_sys as sys;

use crate::numbers::numbers;

ckpt_sys::each_status!(numbers! {
    /// The result of a call. Statuses come in groups of ten: the call (10), the store (20), the bytes (30), the ranks
    /// (40), the machine (50), a defect of ckpt (60). A status of a newer library keeps its number.
    Status
});

impl Status {
    /// `"CORRUPT"` for [`Status::CORRUPT`]; `"UNKNOWN"` for a number that the library does not know.
    #[must_use]
    pub fn name(self) -> &'static str {
        // SAFETY: takes a number; the text is static.
        unsafe { CStr::from_ptr(sys::ckpt_status_name(self.0)) }.to_str().unwrap_or("UNKNOWN")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "UNKNOWN" => write!(f, "UNKNOWN {}", self.0),
            name => f.write_str(name),
        }
    }
}

/// What went wrong, where, and what was found there.
///
/// It is a copy, and keeps nothing of the library alive.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    status: Status,
    message: String,
    details: Vec<(String, String)>,
}

/// The result of every call that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Its status; never [`Status::OK`].
    #[must_use]
    pub fn status(&self) -> Status {
        self.inner.status
    }

    /// One line: what, where, expected, found.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// One fact by key: `path`, `part`, `tensor`, `rank`, `ranks`, `offset`, `expected` or `found`; of an answer of
    /// an object store `bucket`, `key`, `http_status`, `s3_code` or `request_id`.
    #[must_use]
    pub fn detail(&self, key: &str) -> Option<&str> {
        self.details().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// All facts that the error has.
    pub fn details(&self) -> impl Iterator<Item = (&str, &str)> {
        self.inner.details.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// An error of the caller's own, as closures of [`Checkpointer`](crate::Checkpointer) return it.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Error { inner: Box::new(Inner { status, message: message.into(), details: Vec::new() }) }
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.inner.details.push((key.to_owned(), value.to_string()));
        self
    }

    /// The same with words before its message.
    pub(crate) fn prefixed(mut self, words: &str) -> Self {
        self.inner.message.insert_str(0, words);
        self
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Error::new(Status::INVALID, message)
    }

    /// Copies and frees the error of a call.
    ///
    /// # Safety
    /// `err` is null or an error that nobody else owns.
    unsafe fn take(status: Status, err: *mut sys::ckpt_error) -> Self {
        // SAFETY: the texts live until the error is freed; NULL is allowed.
        unsafe {
            let text = |ptr| CStr::from_ptr(ptr).to_string_lossy().into_owned();
            let status = if err.is_null() { status } else { Status(sys::ckpt_error_status(err)) };
            let mut error = Error::new(status, text(sys::ckpt_error_message(err)));
            let mut value = std::ptr::null();
            for index in 0.. {
                let key = sys::ckpt_error_detail_at(err, index, &mut value);
                if key.is_null() {
                    break;
                }
                error.inner.details.push((text(key), text(value)));
            }
            if error.inner.message.is_empty() {
                error.inner.message = status.to_string();
            }
            sys::ckpt_error_free(err);
            error
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status(), self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Error");
        shown.field("status", &self.status()).field("message", &self.message());
        for (key, value) in self.details() {
            shown.field(key, &value);
        }
        shown.finish()
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error.status() {
            Status::NOT_FOUND | Status::GONE => ErrorKind::NotFound,
            Status::EXISTS => ErrorKind::AlreadyExists,
            Status::INVALID => ErrorKind::InvalidInput,
            Status::CORRUPT | Status::FORMAT => ErrorKind::InvalidData,
            Status::TIMEOUT => ErrorKind::TimedOut,
            Status::NOMEM => ErrorKind::OutOfMemory,
            Status::UNSUPPORTED | Status::REVISION => ErrorKind::Unsupported,
            _ => ErrorKind::Other,
        };
        std::io::Error::new(kind, error)
    }
}

/// Runs a call of the library that takes an error as its last argument.
pub(crate) fn check(call: impl FnOnce(*mut *mut sys::ckpt_error) -> sys::ckpt_status) -> Result<()> {
    let mut err = std::ptr::null_mut();
    match Status(call(&mut err)) {
        Status::OK => Ok(()),
        // SAFETY: on failure the call gave us the error to own.
        status => Err(unsafe { Error::take(status, err) }),
    }
}
