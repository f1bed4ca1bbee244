//! Reports: what verify, diff, load, open, prune and repair found.

use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;

use ckpt_sys as sys;

use crate::error::{check, Result, Status};
use crate::handle::{lent_or_none, sized, Handle, Items};
use crate::numbers::{getters, numbers};

/// A list of findings, perhaps empty.
#[derive(Debug)]
pub struct Report {
    handle: Handle<sys::ckpt_report>,
}

impl Report {
    pub(crate) fn make(
        call: impl FnOnce(*mut *mut sys::ckpt_report, *mut *mut sys::ckpt_error) -> sys::ckpt_status,
    ) -> Result<Self> {
        Ok(Report { handle: Handle::make(call)? })
    }

    /// Prints that a save, which was committed, does not go on from what its run has: a trainer that forgot to load
    /// asks for no report.
    pub(crate) fn print_anew(report: Result<Self>) {
        let Ok(report) = report else { return };
        for finding in report.iter().flatten().filter(|one| one.kind() == FindingKind::ANEW) {
            eprintln!("ckpt: {finding}");
        }
    }

    /// How many findings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: the handle is alive.
        unsafe { sys::ckpt_report_count(self.handle.get()) }
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One finding.
    pub fn get(&self, index: usize) -> Result<Finding<'_>> {
        let mut raw = sized!(ckpt_finding);
        // SAFETY: `raw` is ours and has its size set; its texts live as long as the report.
        unsafe {
            check(|err| sys::ckpt_report_at(self.handle.get(), index, &mut raw, err))?;
            let text = if raw.text.is_null() { &[] } else { CStr::from_ptr(raw.text).to_bytes() };
            let (name, part) = (lent_or_none(raw.name)?, lent_or_none(raw.part)?);
            Ok(Finding { raw, text, name, part, report: PhantomData })
        }
    }

    /// All findings.
    pub fn iter(&self) -> Items<'_, Self, Result<Finding<'_>>> {
        Items::new(self, self.len() as u64, |report, index| report.get(index as usize))
    }
}

impl<'a> IntoIterator for &'a Report {
    type Item = Result<Finding<'a>>;
    type IntoIter = Items<'a, Report, Result<Finding<'a>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

ckpt_sys::each_finding!(numbers! {
    /// What a finding is about.
    FindingKind
});

/// One finding; its texts are borrowed from the report.
#[derive(Clone, Copy)]
pub struct Finding<'a> {
    raw: sys::ckpt_finding,
    /// Any bytes: it may name a path.
    text: &'a [u8],
    name: Option<&'a str>,
    part: Option<&'a str>,
    report: PhantomData<&'a Report>,
}

impl<'a> Finding<'a> {
    /// What it is about.
    #[must_use]
    pub fn kind(&self) -> FindingKind {
        FindingKind(self.raw.kind)
    }

    /// `CORRUPT`, `FORMAT`, `INCOMPLETE`, … for an error; else `OK`.
    #[must_use]
    pub fn status(&self) -> Status {
        Status(self.raw.status)
    }

    /// One line for people. U+FFFD replaces what is not UTF-8 in a path.
    #[must_use]
    pub fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }

    /// The tensor, object or checkpoint.
    #[must_use]
    pub fn name(&self) -> Option<&'a str> {
        self.name
    }

    /// The part file.
    #[must_use]
    pub fn part(&self) -> Option<&'a str> {
        self.part
    }

    /// The first and the last element, inclusive, in the flattened tensor.
    #[must_use]
    pub fn elements(&self) -> Option<(u64, u64)> {
        Some((self.raw.first_element.try_into().ok()?, self.raw.last_element.try_into().ok()?))
    }
}
ckpt_sys::fields_of_ckpt_finding!(getters! { [Finding<'_>] });

impl fmt::Debug for Finding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finding")
            .field("kind", &self.kind())
            .field("status", &self.status())
            .field("text", &self.text())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Finding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
