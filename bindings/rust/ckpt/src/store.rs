//! Stores, and the checkpoints in them.

use std::fmt;
use std::path::Path;

use ckpt_sys as sys;

use crate::error::{check, Result};
use crate::handle::{c_path, c_text, sized, Handle, Items};
use crate::numbers::{getters, numbers, text_of};
use crate::options::Options;
use crate::report::Report;

/// A directory that holds checkpoints (`/data/run7`, `file:///data/run7`), a prefix in a bucket of an object store
/// (`s3://bucket/run7`), or a store in this process's memory
/// (`mem:NAME`; all handles of a NAME share it, and it ends with the last of them).
#[derive(Debug)]
pub struct Store {
    pub(crate) handle: Handle<sys::ckpt_store>,
}

impl Store {
    /// Opens a store; creates nothing.
    pub fn open(uri: impl AsRef<Path>) -> Result<Self> {
        Store::open_with(uri, &Options::new())
    }

    /// A directory, `s3://bucket/prefix`, `mem:NAME`, or `https://host/dir`, which is read-only and whose checkpoints
    /// are opened by their ids. Options: those used by `store`.
    pub fn open_with(uri: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let (uri, bag) = (c_path(uri)?, options.bag()?);
        // SAFETY: texts and options live until the call returns.
        let handle = Handle::make(|out, err| unsafe { sys::ckpt_store_open(out, uri.as_ptr(), bag.get(), err) })?;
        Ok(Store { handle })
    }

    /// A snapshot of all checkpoints and attempts, oldest first: by run, then token and sequence.
    pub fn list(&self) -> Result<Checkpoints> {
        // SAFETY: `make` passes places for both outputs.
        let handle = Handle::make(|out, err| unsafe { sys::ckpt_store_list(self.handle.get(), out, err) })?;
        Ok(Checkpoints { handle })
    }

    /// A snapshot of all runs, by name: those that a session has opened and those that have checkpoints.
    pub fn runs(&self) -> Result<Vec<RunInfo>> {
        // SAFETY: `make` passes places for both outputs.
        let runs = Handle::make(|out, err| unsafe { sys::ckpt_store_runs(self.handle.get(), out, err) })?;
        // SAFETY: the handle is alive.
        let count = unsafe { sys::ckpt_runs_count(runs.get()) };
        (0..count).map(|index| RunInfo::at(&runs, index)).collect()
    }

    /// Resolves a selector to one committed checkpoint: `latest`, `label:L` or just `L` (the newest of label L),
    /// `name:N` (see [`Store::name`]), `step:N`, or an id. Resolve on one rank and give every rank the id: a later call
    /// may find a newer checkpoint.
    pub fn find(&self, selector: &str) -> Result<CheckpointInfo> {
        self.find_with(selector, &Options::new())
    }

    /// Newer checkpoints that cannot be loaded are passed over and counted in [`CheckpointInfo::passed_over`]. With
    /// `on_damaged=error` the error is what is wrong with the newest. Options: those used by `find`.
    pub fn find_with(&self, selector: &str, options: &Options) -> Result<CheckpointInfo> {
        let (selector, bag) = (c_text(selector)?, options.bag()?);
        CheckpointInfo::fill(|out, err| {
            // SAFETY: texts and options live until the call returns.
            unsafe { sys::ckpt_store_find(self.handle.get(), selector.as_ptr(), bag.get(), out, err) }
        })
    }

    /// Removes one checkpoint by its id. `CONFLICT` if a reader holds it, it is kept, or it is an open attempt of a
    /// living session.
    pub fn remove(&self, id: &str) -> Result<()> {
        let id = c_text(id)?;
        // SAFETY: the text lives until the call returns.
        check(|err| unsafe { sys::ckpt_store_remove(self.handle.get(), id.as_ptr(), err) })
    }

    /// With `keep` nothing of this store removes that checkpoint any more, neither retention nor [`Store::remove`],
    /// until a call without takes that back. `CONFLICT` if somebody has begun to remove it.
    pub fn keep(&self, id: &str, keep: bool) -> Result<()> {
        let id = c_text(id)?;
        // SAFETY: the text lives until the call returns.
        check(|err| unsafe { sys::ckpt_store_keep(self.handle.get(), id.as_ptr(), keep.into(), err) })
    }

    /// From now on that checkpoint of the run has the name, and no other one: `name:N` selects it. `None`: none has it.
    /// A name keeps no checkpoint: [`Store::keep`] does.
    pub fn name(&self, run: &str, name: &str, id: Option<&str>) -> Result<()> {
        let (run, name, id) = (c_text(run)?, c_text(name)?, c_text(id.unwrap_or(""))?);
        // SAFETY: the texts live until the call returns.
        check(|err| unsafe { sys::ckpt_store_name(self.handle.get(), run.as_ptr(), name.as_ptr(), id.as_ptr(), err) })
    }

    /// Applies a retention policy to the numbered checkpoints of one run, whose label has their step in it
    /// (`step-100`); others (`best`) stay. The report lists what was removed, and what
    /// was kept and why; with `dry_run`, what would be. Options: those used by `prune`.
    pub fn prune(&self, options: &Options) -> Result<Report> {
        let bag = options.bag()?;
        // SAFETY: options live until the call returns.
        Report::make(|out, err| unsafe { sys::ckpt_store_prune(self.handle.get(), bag.get(), out, err) })
    }

    /// Rebuilds a lost or damaged manifest of directory `id` from its parts. By default a dry run.
    /// Options: those used by `repair`.
    pub fn repair(&self, id: &str, options: &Options) -> Result<Report> {
        let (id, bag) = (c_text(id)?, options.bag()?);
        // SAFETY: text and options live until the call returns.
        Report::make(|out, err| unsafe { sys::ckpt_store_repair(self.handle.get(), id.as_ptr(), bag.get(), out, err) })
    }

    /// Saves a PyTorch `.pt`, a DCP or hfai directory, a safetensors file or a Hugging Face set as a checkpoint of its
    /// own run (default `import`). Runs no code. If somebody truncates the file meanwhile, SIGBUS can end the process.
    /// `path` may be the address of a file on a web server, or of a file or directory of `s3://`. Imports into one run
    /// take turns. Options: those used by `import`.
    pub fn import(
        &self,
        path: impl AsRef<Path>,
        label: &str,
        step: Option<u64>,
        options: &Options,
    ) -> Result<CheckpointInfo> {
        let (path, label, step) = (c_path(path)?, c_text(label)?, step_number(step)?);
        let bag = options.bag()?;
        CheckpointInfo::fill(|out, err| {
            // SAFETY: texts and options live until the call returns.
            unsafe { sys::ckpt_import(self.handle.get(), path.as_ptr(), label.as_ptr(), step, bag.get(), out, err) }
        })
    }
}

/// The step as the ABI takes it: -1 for none.
pub(crate) fn step_number(step: Option<u64>) -> Result<i64> {
    let Some(step) = step else { return Ok(-1) };
    i64::try_from(step).map_err(|_| crate::Error::invalid(format!("step {step} is above 2^63-1")))
}

/// A snapshot of what a store holds, oldest first.
#[derive(Debug)]
pub struct Checkpoints {
    handle: Handle<sys::ckpt_list>,
}

impl Checkpoints {
    /// How many there are, attempts included.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: the handle is alive.
        unsafe { sys::ckpt_list_count(self.handle.get()) }
    }

    /// Whether the store is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them, by its position.
    pub fn get(&self, index: usize) -> Result<CheckpointInfo> {
        // SAFETY: the handle is alive; an index past the end is an error.
        CheckpointInfo::fill(|out, err| unsafe { sys::ckpt_list_at(self.handle.get(), index, out, err) })
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> Items<'_, Self, Result<CheckpointInfo>> {
        Items::new(self, self.len() as u64, |list, index| list.get(index as usize))
    }
}

impl<'a> IntoIterator for &'a Checkpoints {
    type Item = Result<CheckpointInfo>;
    type IntoIter = Items<'a, Checkpoints, Result<CheckpointInfo>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// One run of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunInfo {
    /// Its name.
    pub name: String,
    /// The token of the session that owns it; 0 if there is no record of one.
    pub token: u64,
    /// How many committed checkpoints it has; foreign ones and copies do not count.
    pub checkpoint_count: u64,
    /// The id of the newest of these. Whether it can be loaded, [`Store::find`] tells.
    pub newest_id: Option<String>,
    /// The label of the newest.
    pub newest_label: Option<String>,
    /// The step of the newest.
    pub newest_step: Option<u64>,
}

impl RunInfo {
    fn at(runs: &Handle<sys::ckpt_runs>, index: usize) -> Result<Self> {
        let mut raw = sized!(ckpt_run_info);
        // SAFETY: `raw` is ours and has its size set.
        check(|err| unsafe { sys::ckpt_runs_at(runs.get(), index, &mut raw, err) })?;
        let text = |of| Some(text_of(of).to_owned()).filter(|text| !text.is_empty());
        Ok(RunInfo {
            name: text_of(&raw.name).to_owned(),
            token: raw.token,
            checkpoint_count: raw.checkpoint_count,
            newest_id: text(&raw.newest_id),
            newest_label: text(&raw.newest_label),
            newest_step: raw.newest_step.try_into().ok(),
        })
    }
}

ckpt_sys::each_checkpoint!(numbers! {
    /// What has become of a checkpoint.
    CheckpointState
});

/// Describes one checkpoint or attempt. A copy that keeps nothing alive.
#[derive(Clone, Copy)]
pub struct CheckpointInfo {
    raw: sys::ckpt_checkpoint_info,
}

impl CheckpointInfo {
    pub(crate) fn fill(
        call: impl FnOnce(*mut sys::ckpt_checkpoint_info, *mut *mut sys::ckpt_error) -> sys::ckpt_status,
    ) -> Result<Self> {
        let mut raw = sized!(ckpt_checkpoint_info);
        check(|err| call(&mut raw, err))?;
        Ok(CheckpointInfo { raw })
    }

    /// The step that the trainer gave; `None` for none.
    #[must_use]
    pub fn step(&self) -> Option<u64> {
        u64::try_from(self.raw.step).ok()
    }

    /// Whether it can be loaded.
    #[must_use]
    pub fn state(&self) -> CheckpointState {
        CheckpointState(self.raw.state)
    }

    /// The flags as bits; [`is_foreign`](Self::is_foreign), [`is_rebuilt`](Self::is_rebuilt) and
    /// [`is_copy`](Self::is_copy) read them.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.raw.flags
    }

    /// Written into another store and copied here; never `latest`.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.raw.flags & sys::CKPT_CHECKPOINT_FOREIGN as u32 != 0
    }

    /// Its manifest was rebuilt by force from an attempt that had not committed.
    #[must_use]
    pub fn is_rebuilt(&self) -> bool {
        self.raw.flags & sys::CKPT_CHECKPOINT_REBUILT as u32 != 0
    }

    /// Another directory holds the same save under its own name; never `latest`.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.raw.flags & sys::CKPT_CHECKPOINT_COPY as u32 != 0
    }

    /// The store's mirror has it too, whole.
    #[must_use]
    pub fn is_mirrored(&self) -> bool {
        self.raw.flags & sys::CKPT_CHECKPOINT_MIRRORED as u32 != 0
    }

    /// A copy of it in the store's mirror has begun.
    #[must_use]
    pub fn is_mirroring(&self) -> bool {
        self.raw.flags & sys::CKPT_CHECKPOINT_MIRRORING as u32 != 0
    }

    /// Only the store's mirror has it; loads read it there.
    #[must_use]
    pub fn is_mirror_only(&self) -> bool {
        self.raw.flags & sys::CKPT_CHECKPOINT_MIRROR_ONLY as u32 != 0
    }
}

ckpt_sys::fields_of_ckpt_checkpoint_info!(getters! { [CheckpointInfo] });

impl fmt::Debug for CheckpointInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointInfo")
            .field("id", &self.id())
            .field("step", &self.step())
            .field("state", &self.state())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
