//! Work in the background.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ckpt_sys as sys;

use crate::error::{check, Error, Result, Status};
use crate::handle::{sized, Handle};
use crate::memory::{Buffers, Keep};
use crate::numbers::numbers;
use crate::report::Report;

ckpt_sys::each_job!(numbers! {
    /// How far a job is. A job only moves to higher states. `COMMITTED` and what follows are final.
    JobState
});

/// A save, load or verification in the background, or a call that blocks ([`Job::new`]). Threads may share it.
///
/// A save belongs to its [`Session`](crate::Session): dropping or forgetting its job loses nothing, and the session
/// tells a failure. Dropping the job of other work cancels it if it still runs, and blocks until the engine no longer
/// touches the caller's memory.
#[derive(Debug)]
pub struct Job {
    pub(crate) raw: Arc<RawJob>,
}

/// The job and the memory that it keeps. A scope holds one too.
#[derive(Debug)]
pub(crate) struct RawJob {
    /// The first field, so it is dropped first: that blocks until the engine is quiet, and the memory goes after it.
    handle: Handle<sys::ckpt_job>,
    /// From this state on the engine does not touch the caller's memory.
    quiet_at: JobState,
    kept: Mutex<Vec<Keep>>,
    buffers: Mutex<Buffers>,
    /// The id of a save; `None` for other work, which ends with its job.
    save: Option<String>,
    /// Somebody learned the failure, or asked for it by a cancel; of one that ended well, what there is to warn of.
    told: AtomicBool,
}

impl RawJob {
    pub(crate) fn handle(&self) -> *const sys::ckpt_job {
        self.handle.get()
    }

    fn state(&self) -> JobState {
        // SAFETY: the handle is alive.
        JobState(unsafe { sys::ckpt_job_state(self.handle.get()) })
    }

    pub(crate) fn cancel(&self) {
        self.told.store(true, Ordering::Relaxed);
        // SAFETY: the handle is alive.
        unsafe { sys::ckpt_job_cancel(self.handle.get()) }
    }

    /// `milliseconds` below 0: no limit.
    fn wait(&self, state: JobState, milliseconds: i64) -> Result<()> {
        // SAFETY: the handle is alive.
        let result = check(|err| unsafe { sys::ckpt_job_wait(self.handle.get(), state.0, milliseconds, err) });
        self.let_go();
        let committed = self.save.is_some() && self.state() == JobState::COMMITTED;
        if result.is_ok() && committed && !self.told.swap(true, Ordering::Relaxed) {
            Report::print_anew(self.report());
        }
        result
    }

    fn report(&self) -> Result<Report> {
        // SAFETY: the handle is alive.
        Report::make(|out, err| unsafe { sys::ckpt_job_report(self.handle.get(), out, err) })
    }

    /// Of a save that may have ended: its failure, if nobody was told of it. `wait`: waits for the end.
    pub(crate) fn untold(&self, wait: bool) -> Option<Error> {
        let error = self.wait(JobState::COMMITTED, if wait { -1 } else { 0 }).err()?;
        // In a forked child the work is the parent's.
        let open = !self.has_ended() || error.status() == Status::FORKED;
        if open || self.told.swap(true, Ordering::Relaxed) {
            return None;
        }
        let id = self.save.as_deref().unwrap_or_default();
        Some(error.prefixed(&format!("the save {id:?} in the background failed: ")))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state() >= JobState::COMMITTED
    }

    /// Releases shared memory once the job is staged.
    fn let_go(&self) {
        if self.is_quiet() {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// Whether the engine is done with the caller's memory.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state() >= self.quiet_at
    }

    /// Blocks until the engine is done with the caller's memory.
    pub(crate) fn wait_quiet(&self) {
        loop {
            let result = self.wait(self.quiet_at, -1);
            // In a forked child no thread of the engine runs, and the memory is a copy.
            let forked = result.is_err_and(|error| error.status() == Status::FORKED);
            if forked || self.is_quiet() {
                return;
            }
        }
    }

    /// The buffers of a load that has ended.
    pub(crate) fn take_buffers(&self) -> Buffers {
        std::mem::take(&mut *self.buffers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Job {
    /// A job for one call that blocks, given by [`Options::job`](crate::Options::job): other threads can watch the call
    /// and cancel it. Dropping the job cancels the call.
    ///
    /// ```
    /// # let store = ckpt::Store::open("mem:job")?;
    /// # let session = ckpt::Session::open(&store)?;
    /// let job = ckpt::Job::new()?;
    /// job.cancel(); // from any thread
    /// let refused = store.prune(&ckpt::Options::new().set("keep_last", 1).job(&job)).unwrap_err();
    /// assert_eq!(refused.status(), ckpt::Status::CANCELLED);
    /// # Ok::<_, ckpt::Error>(())
    /// ```
    pub fn new() -> Result<Self> {
        Job::start(None, JobState::DONE, &mut Vec::new(), &mut Buffers::default(), |out, err| {
            // SAFETY: `make` passes places for both outputs.
            unsafe { sys::ckpt_job_new(out, err) }
        })
    }

    /// `call` starts the work; `save` is the id if it is a save. The job keeps `kept` until it is staged, and
    /// `buffers` until they are taken or it is dropped.
    pub(crate) fn start(
        save: Option<&str>,
        quiet_at: JobState,
        kept: &mut Vec<Keep>,
        buffers: &mut Buffers,
        call: impl FnOnce(*mut *mut sys::ckpt_job, *mut *mut sys::ckpt_error) -> sys::ckpt_status,
    ) -> Result<Self> {
        let handle = Handle::make(call)?;
        let (kept, buffers) = (Mutex::new(std::mem::take(kept)), Mutex::new(std::mem::take(buffers)));
        let (save, told) = (save.map(str::to_owned), AtomicBool::new(false));
        Ok(Job { raw: Arc::new(RawJob { handle, quiet_at, kept, buffers, save, told }) })
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> JobState {
        self.raw.let_go();
        self.raw.state()
    }

    /// Waits until the engine is done with a save's memory. A failure is left for who asks later.
    pub(crate) fn until_staged(&self) {
        let _ = self.raw.wait(JobState::STAGED, -1);
    }

    /// Blocks until the job has reached `state` or ended. Returns the error of a job that failed before it reached it.
    pub fn wait(&self, state: JobState) -> Result<()> {
        let result = self.raw.wait(state, -1);
        self.tell(&result);
        result
    }

    /// Notes that the caller learns a failure.
    fn tell(&self, result: &Result<()>) {
        if result.is_err() && self.raw.has_ended() {
            self.raw.told.store(true, Ordering::Relaxed);
        }
    }

    /// [`wait`](Self::wait) with a time limit: `false` means that the time passed and the job goes on.
    pub fn wait_timeout(&self, state: JobState, time: Duration) -> Result<bool> {
        let milliseconds = i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
        let result = self.raw.wait(state, milliseconds);
        self.tell(&result);
        match result {
            Ok(()) => Ok(true),
            Err(error) if error.status() != Status::TIMEOUT => Err(error),
            // Either this wait's time passed, or the job failed with TIMEOUT.
            Err(_) if self.raw.state() < JobState::COMMITTED => Ok(false),
            Err(_) => self.raw.wait(state, -1).map(|()| true),
        }
    }

    /// Waits until a save is staged: the memory may change again.
    pub fn wait_staged(&self) -> Result<()> {
        self.wait(JobState::STAGED)
    }

    /// Waits until a save is committed: durable, complete, for all ranks.
    pub fn wait_committed(&self) -> Result<()> {
        self.wait(JobState::COMMITTED)
    }

    /// Waits until a load or a verification is finished.
    pub fn wait_done(&self) -> Result<()> {
        self.wait(JobState::DONE)
    }

    /// Asks the job to stop, and returns at once. A save that is not committed yet will not be.
    pub fn cancel(&self) {
        self.raw.cancel();
    }

    /// Progress and costs so far.
    pub fn stats(&self) -> Result<JobStats> {
        let mut raw = sized!(ckpt_job_stats);
        // SAFETY: the handle is alive; `raw` is ours and has its size set.
        check(|err| unsafe { sys::ckpt_job_stats_get(self.raw.handle.get(), &mut raw, err) })?;
        Ok(JobStats::of(&raw))
    }

    /// What a verify job found, or what retention did after a save on rank 0. `INVALID` before the job has ended,
    /// `UNSUPPORTED` for loads.
    pub fn report(&self) -> Result<Report> {
        self.raw.report()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // If a scope holds the job too, the end of the scope waits; otherwise freeing the handle does.
        if self.raw.save.is_none() {
            self.raw.cancel();
        }
    }
}

/// A load in the background. Dereferences to its [`Job`].
#[derive(Debug)]
#[must_use = "dropping a job cancels it: the content of the memory is then undefined"]
pub struct LoadJob {
    job: Job,
}

impl LoadJob {
    pub(crate) fn new(job: Job) -> Self {
        LoadJob { job }
    }

    /// Gives back the memory that the load holds, even if the load failed; `None` while the job runs.
    #[must_use]
    pub fn take_buffers(&self) -> Option<Buffers> {
        (self.job.state() >= JobState::DONE).then(|| self.job.raw.take_buffers())
    }

    /// Cancels a job that still runs, waits until the engine is done, and gives back the memory that the load holds.
    #[must_use]
    pub fn into_buffers(self) -> Buffers {
        self.job.cancel();
        self.job.raw.wait_quiet();
        self.job.raw.take_buffers()
    }

    /// Waits for the end and gives back the memory, with every requested byte in it. If the load failed, the memory is
    /// dropped; to keep it, call [`wait_done`](Job::wait_done) and [`into_buffers`](Self::into_buffers).
    pub fn finish(self) -> Result<Buffers> {
        self.job.wait_done()?;
        Ok(self.into_buffers())
    }
}

impl std::ops::Deref for LoadJob {
    type Target = Job;

    fn deref(&self) -> &Job {
        &self.job
    }
}

ckpt_sys::each_io!(numbers! {
    /// What kept transfers in flight.
    IoEngine
});

macro_rules! stats {
    ({ $($(#[$doc:meta])* $name:ident: $type:ty;)* } {}) => {
        /// Progress and costs of a job.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub struct JobStats {
            /// How far it is.
            pub state: JobState,
            /// What kept transfers in flight.
            pub io_engine: IoEngine,
            /// Whether the page cache was bypassed.
            pub direct_io: bool,
            /// Save: whether the part was written over a recycled file.
            pub recycled: bool,
            $($(#[$doc])* pub $name: $type,)*
        }

        impl JobStats {
            fn of(raw: &sys::ckpt_job_stats) -> Self {
                let (state, io_engine) = (JobState(raw.state), IoEngine(raw.io_engine as i32));
                let (direct_io, recycled) = (raw.direct_io != 0, raw.recycled != 0);
                JobStats { state, io_engine, direct_io, recycled, $($name: raw.$name,)* }
            }
        }
    };
}
ckpt_sys::fields_of_ckpt_job_stats!(stats! {});
