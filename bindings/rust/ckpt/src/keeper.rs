//! Keepers: when a training saves, what is kept, and what it starts from.

use std::collections::BTreeMap;
use std::ffi::{c_char, CStr};

use ckpt_sys as sys;

use crate::error::{check, Error, Result};
use crate::handle::{c_text, c_text_or_null, or_null, Handle};
use crate::numbers::numbers;
use crate::options::Options;
use crate::reader::Reader;
use crate::save::Save;
use crate::session::Session;
use crate::store::{step_number, Store};

ckpt_sys::each_keeper_go_on!(numbers! {
    /// What all ranks do after a step.
    Todo
});

/// What a rank says of a step. The ranks combine them, each by its maximum.
pub type Votes = [i64; sys::CKPT_KEEPER_VOTES as usize];

/// Metrics or counters by name.
pub type Numbers = BTreeMap<String, f64>;

/// The policy and the history of a run: it says when to save, under which label and what stays, and what to start from.
/// The caller saves and loads. [`Checkpointer`](crate::Checkpointer) does these, too; a keeper is for loops that it
/// does not fit.
#[derive(Debug)]
pub struct Keeper {
    handle: Handle<sys::ckpt_keeper>,
}

/// Text of the library, copied; `None` for NULL.
///
/// # Safety
/// `text` is NULL, or NUL-terminated.
unsafe fn copied(text: *const c_char) -> Option<String> {
    // SAFETY: as the caller says.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl Keeper {
    /// Of rank `rank` of `world_size`; every rank makes one and calls the same, with the same steps. Does not touch the
    /// store.
    ///
    /// Options: those used by `keeper`.
    pub fn new(store: &Store, rank: u32, world_size: u32, options: &Options) -> Result<Self> {
        let bag = options.bag()?;
        let handle = Handle::make(|out, err| {
            // SAFETY: options live until the call returns; the keeper keeps the store alive.
            unsafe { sys::ckpt_keeper_new(out, store.handle.get(), rank, world_size, bag.get(), err) }
        })?;
        Ok(Keeper { handle })
    }

    /// What the last call should tell people: newer checkpoints that [`find`](Self::find) passed over, a step before
    /// the last one, later steps that the run has.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        // SAFETY: the handle is alive; the text is copied at once.
        unsafe { copied(sys::ckpt_keeper_warning(self.handle.get())) }
    }

    /// A counter of the next step (`epoch`: those that are done, `sample`, `token`, …), for `every` and for labels.
    pub fn tell_counter(&mut self, name: &str, value: f64) -> Result<()> {
        self.tell(sys::CKPT_KEEPER_COUNTER, name, value)
    }

    /// A metric of the next step, which is kept with its checkpoint and read by `keep_best`.
    pub fn tell_metric(&mut self, name: &str, value: f64) -> Result<()> {
        self.tell(sys::CKPT_KEEPER_METRIC, name, value)
    }

    fn tell(&mut self, kind: i32, name: &str, value: f64) -> Result<()> {
        let name = c_text(name)?;
        // SAFETY: the text lives until the call returns.
        check(|err| unsafe { sys::ckpt_keeper_tell(self.handle.get_mut(), kind, name.as_ptr(), value, err) })
    }

    /// Says that a step is done; `due`: a rule of the caller's own asks for a save.
    pub fn step(&mut self, step: u64, due: bool) -> Result<Votes> {
        let (step, mut votes) = (step_number(Some(step))?, Votes::default());
        // SAFETY: there is room for all votes.
        check(|err| unsafe {
            sys::ckpt_keeper_step(self.handle.get_mut(), step, due.into(), votes.as_mut_ptr(), err)
        })?;
        Ok(votes)
    }

    /// The same of a save that is made whatever `every` says.
    pub fn at_step(&mut self, step: u64) -> Result<()> {
        let step = step_number(Some(step))?;
        // SAFETY: NULL asks for no votes.
        check(|err| unsafe { sys::ckpt_keeper_step(self.handle.get_mut(), step, 0, std::ptr::null_mut(), err) })
    }

    /// Whether the ranks must combine their votes in each step, since one alone may want a save: by a clock, a
    /// counter other than the step, a time limit or a signal.
    #[must_use]
    pub fn needs_votes(&self) -> bool {
        // SAFETY: the handle is alive.
        unsafe { sys::ckpt_keeper_needs_votes(self.handle.get()) != 0 }
    }

    /// What all ranks do now, by the combined votes, or without them by the step, which is the same on all ranks.
    /// `INVALID` if the votes of some ranks are missing, `MISMATCH` if the ranks are at different steps.
    pub fn decide(&mut self, votes: Option<&Votes>) -> Result<Todo> {
        let (votes, mut what) = (votes.map_or(std::ptr::null(), |votes| votes.as_ptr()), 0);
        // SAFETY: the votes live until the call returns.
        check(|err| unsafe { sys::ckpt_keeper_decide(self.handle.get_mut(), votes, &mut what, err) })?;
        Ok(Todo(what))
    }

    /// The next step of all ranks saves and stops. `why`: a signal's number, or 1000 for the end of the job's time.
    pub fn stop(&self, why: i32) {
        // SAFETY: the handle is alive, and any thread may call this.
        unsafe { sys::ckpt_keeper_stop(self.handle.get().cast_mut(), why) }
    }

    /// From now on does that when the signal comes, after which the handler that was there is called. The default of
    /// SIGINT, which ends the process, gets the second one only.
    pub fn catch(&mut self, signal: i32) -> Result<()> {
        // SAFETY: the handle is alive.
        check(|err| unsafe { sys::ckpt_keeper_catch(self.handle.get_mut(), signal, err) })
    }

    /// `"SIGTERM"`, `"time limit"`, …, once that was decided.
    #[must_use]
    pub fn stopping(&self) -> Option<String> {
        // SAFETY: the handle is alive; the text is copied at once.
        unsafe { copied(sys::ckpt_keeper_stopping(self.handle.get())) }
    }

    /// How all ranks save the step that was told last, for [`save`](Self::save). Rank 0 makes it and sends it to the
    /// others. `label`: of the caller's own, which stays for ever; `None`: by option `label`.
    pub fn plan(&mut self, label: Option<&str>) -> Result<String> {
        let (label, mut plan) = (c_text_or_null(label)?, std::ptr::null());
        // SAFETY: the text lives until the call returns; the plan, which is text then, is copied at once.
        unsafe {
            check(|err| sys::ckpt_keeper_plan(self.handle.get_mut(), or_null(&label), &mut plan, err))?;
            Ok(copied(plan).unwrap_or_default())
        }
    }

    /// The save of a plan, to add to and to run or start; `None` if that is the newest checkpoint that this keeper has
    /// committed already. The keeper learns by itself what becomes of it. Options: those of [`Save::new_with`]; the
    /// plan's count before them.
    pub fn save<'a>(&mut self, session: &Session, plan: &str, options: &Options) -> Result<Option<Save<'a>>> {
        let (plan, bag) = (c_text(plan)?, options.bag()?);
        let made = Handle::make_or_none(|out, err| {
            // SAFETY: texts and options live until the call returns; the save keeps the session alive.
            unsafe {
                let keeper = self.handle.get_mut();
                sys::ckpt_keeper_begin(out, keeper, session.handle.get(), plan.as_ptr(), bag.get(), err)
            }
        })?;
        made.map(|handle| Save::of(session, handle)).transpose()
    }

    /// The id of the newest checkpoint that this keeper has committed.
    pub fn saved(&mut self) -> Option<String> {
        // SAFETY: the handle is alive; the text is copied at once.
        unsafe { copied(sys::ckpt_keeper_saved(self.handle.get_mut())) }
    }

    /// The id of the checkpoint to load: of `latest` (`None` if there is none yet), `best`, `best:val_loss:min`, or a
    /// selector of [`Store::find`]. Rank 0 asks and sends it to the others.
    pub fn find(&mut self, selector: &str) -> Result<Option<String>> {
        let (selector, mut id) = (c_text(selector)?, std::ptr::null());
        // SAFETY: the text lives until the call returns; the id is copied at once.
        unsafe {
            check(|err| sys::ckpt_keeper_find(self.handle.get_mut(), selector.as_ptr(), &mut id, err))?;
            Ok(copied(id))
        }
    }

    /// The load of what [`find`](Self::find) gave has failed. `Ok`: it is damaged, and the next `find` gives the one
    /// before. Else the same failure, also if anything but `latest` was asked for, or `on_damaged` is `error`.
    pub fn pass_over(&mut self, failure: &Error) -> Result<()> {
        let message = c_text(failure.message())?;
        let status = failure.status().0;
        // SAFETY: the text lives until the call returns.
        check(|err| unsafe { sys::ckpt_keeper_pass_over(self.handle.get_mut(), status, message.as_ptr(), err) })
    }

    /// The training goes on from this checkpoint. What the run has of later steps stays, until a save has its label.
    pub fn restored(&mut self, reader: &Reader) -> Result<()> {
        // SAFETY: both handles are alive.
        check(|err| unsafe { sys::ckpt_keeper_restored(self.handle.get_mut(), reader.handle.get(), err) })
    }

    /// The metrics that were told with what was [`restored`](Self::restored).
    #[must_use]
    pub fn metrics(&self) -> Numbers {
        self.numbers(sys::CKPT_KEEPER_METRIC)
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self) -> Numbers {
        self.numbers(sys::CKPT_KEEPER_COUNTER)
    }

    fn numbers(&self, kind: i32) -> Numbers {
        let at = |index| {
            let mut value = 0.0;
            // SAFETY: the handle is alive; the text is copied at once.
            let name = unsafe { copied(sys::ckpt_keeper_number_at(self.handle.get(), kind, index, &mut value)) };
            name.map(|name| (name, value))
        };
        (0..).map_while(at).collect()
    }
}
