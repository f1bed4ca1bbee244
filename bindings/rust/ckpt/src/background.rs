//! Who owns a save in the background: its session, so that a job may be dropped or forgotten.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::job::RawJob;

/// The saves of one session that may still run. The session and its saves share it.
#[derive(Debug, Default)]
pub(crate) struct Saves(Mutex<Vec<Arc<RawJob>>>);

impl Saves {
    pub(crate) fn add(&self, job: &Arc<RawJob>) {
        self.running().push(Arc::clone(job));
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Vec<Arc<RawJob>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first failure of a save that has ended and of which nobody was told. Forgets all that have ended.
    pub(crate) fn failure(&self) -> Result<()> {
        let mut first: Option<Error> = None;
        self.running().retain(|job| {
            let ended = job.has_ended();
            if ended && first.is_none() {
                first = job.untold(false);
            }
            !ended
        });
        first.map_or(Ok(()), Err)
    }

    /// Waits for all. While a panic unwinds it cancels them, so that other ranks do not wait.
    pub(crate) fn end(&self) -> Result<()> {
        let jobs = std::mem::take(&mut *self.running());
        if std::thread::panicking() {
            jobs.iter().for_each(|job| job.cancel());
        }
        let failures: Vec<_> = jobs.iter().filter_map(|job| job.untold(true)).collect();
        failures.into_iter().next().map_or(Ok(()), Err)
    }
}

impl Drop for Saves {
    fn drop(&mut self) {
        end_and_print(self);
    }
}

/// For `drop`, which cannot return an error.
pub(crate) fn end_and_print(saves: &Saves) {
    if let Err(error) = saves.end() {
        eprintln!("ckpt: {error}");
    }
}
