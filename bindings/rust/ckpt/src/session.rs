//! Sessions: one start of all ranks of a run.

use ckpt_sys as sys;

use crate::error::Result;
use crate::handle::{c_text_or_null, lent, or_null, Handle};
use crate::options::Options;
use crate::store::Store;

/// One start of all ranks of a run. Exactly one session owns a run: opening a new one fences the older, whose open
/// attempts are closed and removed.
#[derive(Debug)]
pub struct Session {
    pub(crate) handle: Handle<sys::ckpt_session>,
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
    /// Options: `run`, `timeout_ms`, `rendezvous`, `chunk_bytes`, `large_tensor_bytes`, `arena_bytes`.
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
        Ok(Session { handle })
    }

    /// What the other ranks pass to [`open_rank`](Self::open_rank).
    pub fn string(&self) -> Result<&str> {
        // SAFETY: the text lives as long as the session.
        unsafe { lent(sys::ckpt_session_string(self.handle.get())) }
    }
}
