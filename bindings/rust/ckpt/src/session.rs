//! Sessions: one start of all ranks of a run.

use std::sync::Arc;

use ckpt_sys as sys;

use crate::background::{end_and_print, Saves};

use crate::error::Result;
use crate::handle::{c_text_or_null, lent, or_null, Handle};
use crate::job::{Job, JobState};
use crate::load::Buffers;
use crate::options::Options;
use crate::store::Store;

/// One start of all ranks of a run. Exactly one session owns a run: opening a new one fences the older, whose open
/// attempts are closed and removed.
///
/// It owns the saves in its background. Dropping it waits for them, and prints a failure of which nobody was told;
/// [`close`](Self::close) returns it. A panic that drops it cancels them at once, so that other ranks do not wait.
#[derive(Debug)]
pub struct Session {
    /// The first field, so it is dropped before the handle.
    pub(crate) saves: Arc<Saves>,
    pub(crate) handle: Handle<sys::ckpt_session>,
}

impl Drop for Session {
    fn drop(&mut self) {
        end_and_print(&self.saves); // not only with the last save that shares it
    }
}

impl Session {
    /// The session of a trainer with one rank.
    pub fn open(store: &Store) -> Result<Self> {
        Session::open_rank(store, 0, 1, None, &Options::new())
    }

    /// The session of rank `rank` of `world_size`; every rank opens it once.
    ///
    /// Rank 0 passes `None` and sends its [`string`](Self::string) to the other ranks by any means; they pass it here.
    /// Or all ranks pass `None` and set option `rendezvous` to 1: then they meet through files in the store. The call
    /// waits for other ranks for at most `timeout_ms`.
    ///
    /// Options: `run`, `purpose`, `continue_from`, `timeout_ms`, `rendezvous`, `chunk_bytes`, `large_tensor_bytes`,
    /// `heartbeat_ms`, `arena_bytes`, `mirror_keep_last`, `incremental`.
    pub fn open_rank(
        store: &Store,
        rank: u32,
        world_size: u32,
        session_string: Option<&str>,
        options: &Options,
    ) -> Result<Self> {
        let (string, bag) = (c_text_or_null(session_string)?, options.bag()?);
        let handle = Handle::make(|out, err| {
            // SAFETY: texts and options live until the call returns; the session keeps the store alive.
            unsafe {
                sys::ckpt_session_open(out, store.handle.get(), rank, world_size, or_null(&string), bag.get(), err)
            }
        })?;
        Ok(Session { saves: Arc::default(), handle })
    }

    /// What the other ranks pass to [`open_rank`](Self::open_rank).
    pub fn string(&self) -> Result<&str> {
        // SAFETY: the text lives as long as the session.
        unsafe { lent(sys::ckpt_session_string(self.handle.get())) }
    }

    /// On rank 0 of a store with option `mirror`: a job that is done once the mirror has all that was committed before
    /// this call. It fails with the first failure from now on, while copying goes on, unless that was `FENCED`; its
    /// report names what will not be copied. Dropping the job ends the waiting, not the copying; dropping the session
    /// waits for what is still to be copied.
    pub fn mirror(&self) -> Result<Job> {
        // SAFETY: the job keeps what it follows alive.
        Job::start(None, JobState::DONE, &mut Vec::new(), &mut Buffers::default(), |out, err| unsafe {
            sys::ckpt_session_mirror(self.handle.get(), out, err)
        })
    }

    /// Waits for the saves in the background. Fails as the first that failed, if nobody was told of it by a wait or by
    /// [`Save::new`](crate::Save::new).
    pub fn close(self) -> Result<()> {
        self.saves.end()
    }
}
