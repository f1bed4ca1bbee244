//! Numbers of the ABI as types. A newer library may return numbers that are not listed here, so they are no Rust enums.

/// Makes a newtype over `i32` with these constants, each from that of `ckpt_sys`.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $value:ident;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i32);

        impl $name {
            $($(#[$item_doc])* pub const $item: $name = $name(ckpt_sys::$value);)*
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $($name::$item => f.write_str(concat!(stringify!($name), "::", stringify!($item))),)*
                    $name(other) => write!(f, concat!(stringify!($name), "({})"), other),
                }
            }
        }
    };
}
pub(crate) use numbers;

/// Methods of a type for the plain fields of its record `raw`; `ckpt_sys::fields_of_…!` lists them.
macro_rules! getters {
    ([$($type:tt)*] { $($(#[$doc:meta])* $name:ident: $kind:ty;)* } { $($(#[$text_doc:meta])* $text:ident;)* }) => {
        impl $($type)* {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self) -> $kind {
                    self.raw.$name
                }
            )*
            $(
                $(#[$text_doc])*
                #[must_use]
                pub fn $text(&self) -> &str {
                    crate::numbers::text_of(&self.raw.$text)
                }
            )*
        }
    };
}
pub(crate) use getters;

/// Text in an array of a record, up to its NUL.
pub(crate) fn text_of(array: &[std::ffi::c_char]) -> &str {
    // SAFETY: c_char and u8 are both one byte of any value.
    let bytes = unsafe { std::slice::from_raw_parts(array.as_ptr().cast::<u8>(), array.len()) };
    let text = std::ffi::CStr::from_bytes_until_nul(bytes).map_or(bytes, |text| text.to_bytes());
    std::str::from_utf8(text).unwrap_or_default()
}
