//! The types of elements.

use std::ffi::CStr;
use std::fmt;

use ckpt_sys as sys;

use crate::error::{Error, Result, Status};
use crate::handle::c_text;
use crate::numbers::numbers;

ckpt_sys::each_dtype!(numbers! {
    /// The type of a tensor's elements: DLPack's type code * 256 + bits of one element. Elements below 8 bits are
    /// packed, lowest bits first. A dtype that the library does not know keeps its number.
    Dtype
});

impl Dtype {
    /// The dtype of DLPack's type `code` with `bits` bits per element.
    #[must_use]
    pub const fn new(code: u8, bits: u8) -> Self {
        Dtype(sys::CKPT_DTYPE(code as i32, bits as i32))
    }

    /// `"bf16"`; `"dtype"` for a code that the library does not know.
    #[must_use]
    pub fn name(self) -> &'static str {
        // SAFETY: takes a number; the text is static.
        unsafe { CStr::from_ptr(sys::ckpt_dtype_name(self.0)) }.to_str().unwrap_or("dtype")
    }

    /// Bits of one element; 0 if the number cannot be a dtype.
    #[must_use]
    pub fn bits(self) -> u32 {
        // SAFETY: takes a number.
        unsafe { sys::ckpt_dtype_bits(self.0) }.try_into().unwrap_or(0)
    }

    /// The dtype of this name; `None` if there is none.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let name = c_text(name).ok()?;
        // SAFETY: the text lives until the call returns.
        match unsafe { sys::ckpt_dtype_find(name.as_ptr()) } {
            -1 => None,
            number => Some(Dtype(number)),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "dtype" => write!(f, "dtype {:#06x}", self.0),
            name => f.write_str(name),
        }
    }
}

impl std::str::FromStr for Dtype {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Dtype::find(name).ok_or_else(|| Error::new(Status::INVALID, format!("no dtype is called {name:?}")))
    }
}

/// A Rust type that can be the element of a tensor; its memory can be saved.
///
/// # Safety
/// The type is plain data without padding, has the size that `DTYPE` says, and is in the byte order of the machine.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The dtype of its tensors.
    const DTYPE: Dtype;
}

/// An [`Element`] for which every pattern of bits is a value; a load can write into its memory.
///
/// `bool` is not one: another program's checkpoint may hold a byte that is neither 0 nor 1. Load a bool tensor as `u8`.
///
/// # Safety
/// Every pattern of bits is a value of the type.
pub unsafe trait AnyBits: Element {}

macro_rules! elements {
    ($($type:ty => $dtype:ident)*) => {$(
        // SAFETY: a primitive number of that width.
        unsafe impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
        }
        // SAFETY: every pattern of bits is a value of it.
        unsafe impl AnyBits for $type {}
    )*};
}
elements! {
    u8 => U8 u16 => U16 u32 => U32 u64 => U64 i8 => I8 i16 => I16 i32 => I32 i64 => I64 f32 => F32 f64 => F64
}
#[cfg(feature = "half")]
elements! { half::f16 => F16 half::bf16 => BF16 }

// SAFETY: one byte, 0 or 1.
unsafe impl Element for bool {
    const DTYPE: Dtype = Dtype::BOOL;
}

/// `u8` may be raw bytes of any dtype; other types must be what the descriptor says.
pub(crate) fn check_element<E: Element>(dtype: Dtype) -> Result<()> {
    if E::DTYPE == dtype || E::DTYPE == Dtype::U8 {
        return Ok(());
    }
    let message = format!("expected memory of {dtype}, found {}; to reinterpret it pass bytes", E::DTYPE);
    Err(Error::invalid(message).with("expected", dtype).with("found", E::DTYPE))
}

/// A whole tensor was asked for as elements `E`, and has others.
pub(crate) fn wrong_elements<E: Element>(tensor: &str, found: Dtype) -> Error {
    Error::new(Status::MISMATCH, format!("tensor {tensor:?}: expected {}, found {found}", E::DTYPE))
        .with("tensor", tensor)
        .with("expected", E::DTYPE)
        .with("found", found)
}

/// The same memory as bytes, for dtypes without a Rust type of their own.
#[must_use]
pub fn bytes_of<E: Element>(elements: &[E]) -> &[u8] {
    // SAFETY: an Element has no padding, so all its bytes are initialised.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The same memory as bytes to write into.
#[must_use]
pub fn bytes_of_mut<E: AnyBits>(elements: &mut [E]) -> &mut [u8] {
    // SAFETY: no padding, and every pattern of bits that is written is a value.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}
