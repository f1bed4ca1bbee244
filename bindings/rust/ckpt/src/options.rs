//! Named settings for calls.

use std::ffi::CStr;
use std::sync::Arc;

use ckpt_sys as sys;

use crate::error::{check, Error, Result};
use crate::handle::{c_text, lent, sized, Handle};
use crate::job::{Job, RawJob};
use crate::numbers::numbers;

/// Named settings for a call: `Options::new().set("keep_last", 3).set("compression", "auto")`.
///
/// A call reads its own options and ignores the others: "Options: those used by `save`" are those of [`options`] whose
/// `used_by` has that word; `ckpt help options` prints them. It returns [`INVALID`](crate::Status::INVALID) for an
/// unknown name or a value out of range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: Vec<(String, OptionValue)>,
    /// The first value out of range; the call that gets the options fails with it.
    fault: Option<String>,
    job: Option<CallJob>,
}

/// The job of a call; equal to itself only.
#[derive(Clone, Debug)]
struct CallJob(Arc<RawJob>);

impl PartialEq for CallJob {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for CallJob {}

/// The value of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionValue {
    /// A number.
    Int(i64),
    /// A text, also for a number.
    Str(String),
}

macro_rules! option_values {
    ($($type:ty => $kind:ident)*) => {$(
        impl From<$type> for OptionValue {
            fn from(value: $type) -> Self {
                OptionValue::$kind(value.into())
            }
        }
    )*};
}
// The only integer type, so that literals get it: if `i32` were one too, `5 << 30` would be 1 GiB.
option_values! { i64 => Int bool => Int &str => Str String => Str }

impl Options {
    /// No settings: the defaults of every call.
    #[must_use]
    pub const fn new() -> Self {
        Options { values: Vec::new(), fault: None, job: None }
    }

    /// Sets an option to an `i64` (the type that a literal gets), a text, or a `bool` (0 or 1).
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.values.push((key.into(), value.into()));
        self
    }

    /// Sets an option to a size or count: `.set_u64("staging_bytes", size_of_val(weights) as u64)`. Above `i64::MAX` it
    /// is out of range.
    #[must_use]
    pub fn set_u64(mut self, key: impl Into<String>, value: u64) -> Self {
        let key = key.into();
        if let Ok(value) = i64::try_from(value) {
            return self.set(key, value);
        }
        self.fault.get_or_insert_with(|| format!("option {key}: expected at most {}, found {value}", i64::MAX));
        self
    }

    /// Lets other threads watch and cancel the call that gets the options:
    /// [`Session::open_rank`](crate::Session::open_rank), `prune`, `repair` and `import` of a [`Store`](crate::Store),
    /// `diff`, `copy` and `export` of a [`Reader`](crate::Reader). Other calls refuse them. A job serves one call.
    #[must_use]
    pub fn job(mut self, job: &Job) -> Self {
        self.job = Some(CallJob(Arc::clone(&job.raw)));
        self
    }

    /// The number that an option was set to, also by a text.
    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        match &self.values.iter().rev().find(|(own, _)| own == key)?.1 {
            OptionValue::Int(value) => Some(*value),
            OptionValue::Str(text) => text.parse().ok(),
        }
    }

    /// The C object for one call; `None` means the defaults.
    pub(crate) fn bag(&self) -> Result<Bag> {
        if let Some(fault) = &self.fault {
            return Err(Error::invalid(fault.clone()));
        }
        if self.values.is_empty() && self.job.is_none() {
            return Ok(Bag(None));
        }
        // SAFETY: `make` passes places for both outputs.
        let mut bag = Handle::make(|out, err| unsafe { sys::ckpt_options_new(out, err) })?;
        for (key, value) in &self.values {
            let key = c_text(key)?;
            match value {
                OptionValue::Int(value) => {
                    // SAFETY: the bag is ours alone; texts live until the call returns.
                    check(|err| unsafe { sys::ckpt_options_set_int(bag.get_mut(), key.as_ptr(), *value, err) })?;
                }
                OptionValue::Str(value) => {
                    let value = c_text(value)?;
                    // SAFETY: as above.
                    check(|err| unsafe {
                        sys::ckpt_options_set_str(bag.get_mut(), key.as_ptr(), value.as_ptr(), err)
                    })?;
                }
            }
        }
        if let Some(CallJob(job)) = &self.job {
            // SAFETY: the bag is ours alone, and the job is alive.
            check(|err| unsafe { sys::ckpt_options_set_job(bag.get_mut(), job.handle(), err) })?;
        }
        Ok(Bag(Some(bag)))
    }
}

pub(crate) struct Bag(Option<Handle<sys::ckpt_options>>);

impl Bag {
    pub(crate) fn get(&self) -> *const sys::ckpt_options {
        self.0.as_ref().map_or(std::ptr::null(), Handle::get)
    }
}

ckpt_sys::each_option!(numbers! {
    /// Which values an option takes.
    OptionKind
});

/// One option that the library knows.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OptionInfo {
    /// `"keep_last"`.
    pub key: &'static str,
    /// Number or text.
    pub kind: OptionKind,
    /// The smallest number.
    pub min: i64,
    /// The largest number.
    pub max: i64,
    /// The default, as text.
    pub fallback: &'static str,
    /// Of a text: `"error|replace|keep"`; empty if any text is valid.
    pub choices: &'static str,
    /// The calls that read it, such as `"session save"`.
    pub used_by: &'static str,
    /// One sentence.
    pub help: &'static str,
}

/// All options that the library knows.
pub fn options() -> impl ExactSizeIterator<Item = Result<OptionInfo>> {
    // SAFETY: takes nothing.
    let count = unsafe { sys::ckpt_option_count() };
    (0..count).map(|index| {
        let mut info = sized!(ckpt_option_info);
        // SAFETY: `info` is ours and has its size set; the texts of the list are static.
        unsafe {
            check(|err| sys::ckpt_option_at(index, &mut info, err))?;
            Ok(OptionInfo {
                key: lent(info.key)?,
                kind: OptionKind(info.kind),
                min: info.min,
                max: info.max,
                fallback: lent(info.fallback)?,
                choices: lent(info.choices)?,
                used_by: lent(info.used_by)?,
                help: lent(info.help)?,
            })
        }
    })
}

/// The version of the loaded library, `"0.1.0"`, which may be newer than this crate.
#[must_use]
pub fn version() -> &'static str {
    // SAFETY: static text.
    unsafe { CStr::from_ptr(sys::ckpt_version_string()) }.to_str().unwrap_or_default()
}

/// The same as a number: major * 1000000 + minor * 1000 + patch.
#[must_use]
pub fn version_number() -> u32 {
    // SAFETY: takes nothing.
    unsafe { sys::ckpt_version_number() }.try_into().unwrap_or(0)
}
