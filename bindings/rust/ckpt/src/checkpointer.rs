//! The loop of a training.

use crate::error::{Error, Result, Status};
use crate::job::Job;
use crate::keeper::{Keeper, Numbers, Todo};
use crate::options::Options;
use crate::reader::Reader;
use crate::save::Save;
use crate::session::Session;
use crate::store::Store;

/// How the ranks of a training talk: by MPI, NCCL, a socket. Every rank calls the same; one that cannot go on panics.
pub trait Ranks {
    /// This rank, and how many there are.
    fn rank(&self) -> (u32, u32);
    /// Replaces each number by the largest that any rank has there.
    fn max(&self, numbers: &mut [i64]);
    /// Rank 0 gives a text, the others `None`; all get the text.
    fn of_first(&self, text: Option<String>) -> String;
}

struct Alone;

impl Ranks for Alone {
    fn rank(&self) -> (u32, u32) {
        (0, 1)
    }
    fn max(&self, _: &mut [i64]) {}
    fn of_first(&self, text: Option<String>) -> String {
        text.unwrap_or_default()
    }
}

/// What a training starts from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Restored {
    /// The checkpoint.
    pub id: String,
    /// Its step; 0 if it has none.
    pub step: u64,
    /// The metrics that were told with it.
    pub metrics: Numbers,
    /// And the counters.
    pub counters: Numbers,
}

/// What became of a load. The worst of all ranks counts.
const FINE: i64 = 0;
const DAMAGED: i64 = 1;
const FAILED: i64 = 2;

fn how_bad(failure: &Error) -> i64 {
    match failure.status() {
        Status::GONE => DAMAGED, // as ckpt_keeper_pass_over says
        Status(of_the_bytes) if of_the_bytes / 10 == Status::CORRUPT.0 / 10 => DAMAGED,
        _ => FAILED,
    }
}

/// SIGINT and SIGTERM, which have these numbers everywhere.
const SIGNALS: [i32; 2] = [2, 15];

/// Saves a training as it goes on, keeps what the policy says, and restores the newest checkpoint that is sound.
///
/// ```
/// use ckpt::{Checkpointer, Options, Store, TensorDesc};
///
/// # let place = "mem:checkpointer";
/// let desc = TensorDesc::of::<f32>(&[1000]);
/// let mut weights = vec![0f32; 1000];
/// let store = Store::open(place)?;
/// let mut keeper = Checkpointer::new(&store, &Options::new().set("every", "5 steps").set("keep_last", 3))?;
/// let restored = keeper.restore(|reader| {
///     weights = reader.read("w")?;
///     Ok(())
/// })?;
/// for n in restored.map_or(1, |one| one.step + 1)..=20 {
///     weights.iter_mut().for_each(|w| *w += 0.5); // train
///     keeper.tell_metric("loss", 1.0 / n as f64)?;
///     keeper.step(n, |save| save.add_tensor("w", &desc, &weights))?;
///     if keeper.stopping().is_some() {
///         break; // after SIGTERM or SIGINT, or at the time limit: it is saved
///     }
/// }
/// keeper.close()?;
/// # Ok::<_, ckpt::Error>(())
/// ```
///
/// The closure of [`step`](Self::step) adds what is to be saved, and is called only if a save is due. Saves go on in
/// the background; a failure is told by the next one, by [`wait`](Self::wait) or by [`close`](Self::close). Warnings,
/// such as that a damaged checkpoint was passed over, are printed to stderr. Every rank makes a `Checkpointer` and
/// calls the same, with the same step.
pub struct Checkpointer<'s> {
    /// The first field: dropping it waits for its saves. `None` until the first save, since restoring takes a run from
    /// nobody.
    session: Option<Session>,
    saving: Option<Job>,
    /// Why the training should stop, once the last save is committed.
    stopping: Option<String>,
    keeper: Keeper,
    store: &'s Store,
    options: Options,
    ranks: Box<dyn Ranks + Send + 's>,
}

impl<'s> Checkpointer<'s> {
    /// Of a training with one rank. SIGTERM and SIGINT make a step save and stop; the second SIGINT ends the process.
    ///
    /// Options: those of [`Keeper::new`] but `ranks_agree`, of the session, of the saves and of opening a reader.
    pub fn new(store: &'s Store, options: &Options) -> Result<Self> {
        Checkpointer::of_ranks(store, options, Alone, &SIGNALS)
    }

    /// Of a training whose ranks talk by `ranks`; these signals make a step save and stop, on whichever rank they come.
    pub fn of_ranks(
        store: &'s Store,
        options: &Options,
        ranks: impl Ranks + Send + 's,
        signals: &[i32],
    ) -> Result<Self> {
        if options.number("ranks_agree") == Some(0) {
            let words = "ranks_agree=0: the ranks of a Checkpointer talk; ranks that cannot agree use a Keeper each";
            return Err(Error::invalid(words));
        }
        let (rank, world_size) = ranks.rank();
        let mut keeper = Keeper::new(store, rank, world_size, options)?;
        signals.iter().try_for_each(|&signal| keeper.catch(signal))?;
        let (options, ranks) = (options.clone(), Box::new(ranks));
        Ok(Checkpointer { session: None, saving: None, stopping: None, keeper, store, options, ranks })
    }

    /// Restores the newest checkpoint by `load`, on all ranks the same; `None` if there is none yet. If a load finds it
    /// damaged, the one before is tried, and `load` called again: it must set all that it sets.
    pub fn restore(&mut self, load: impl FnMut(&Reader) -> Result<()>) -> Result<Option<Restored>> {
        self.restore_from("latest", load)
    }

    /// The same of another selector, as [`Keeper::find`] takes it; no other checkpoint is tried.
    pub fn restore_from(
        &mut self,
        selector: &str,
        mut load: impl FnMut(&Reader) -> Result<()>,
    ) -> Result<Option<Restored>> {
        self.wait()?;
        loop {
            let id = self.first(|keeper| Ok(keeper.find(selector)?.unwrap_or_default()))?;
            warn(&self.keeper);
            if id.is_empty() {
                return Ok(None);
            }
            let reader = Reader::open_with(self.store, &id, &self.options);
            let reader = reader.and_then(|reader| load(&reader).map(|()| reader));
            let mut worst = [reader.as_ref().map_or_else(how_bad, |_| FINE)];
            self.ranks.max(&mut worst);
            match reader {
                Ok(reader) if worst[0] == FINE => return self.go_on_from(id, &reader).map(Some),
                Ok(_) => {
                    let words = format!("another rank could not load {id}; see its error");
                    self.pass_over(&id, Error::new(Status::ABORTED, words), worst[0])?;
                }
                Err(failure) => self.pass_over(&id, failure, worst[0])?,
            }
        }
    }

    fn go_on_from(&mut self, id: String, reader: &Reader) -> Result<Restored> {
        // Rank 0 lists the store, and all get its failure; the others read nothing but the open reader.
        self.first(|keeper| keeper.restored(reader).map(|()| String::new()))?;
        if self.ranks.rank().0 != 0 {
            self.keeper.restored(reader)?;
        }
        warn(&self.keeper);
        let (metrics, counters) = (self.keeper.metrics(), self.keeper.counters());
        Ok(Restored { id, step: reader.info()?.step().unwrap_or_default(), metrics, counters })
    }

    /// If a rank failed by more than damage, no other checkpoint is tried.
    fn pass_over(&mut self, id: &str, failure: Error, worst: i64) -> Result<()> {
        let damage = Error::new(Status::CORRUPT, failure.message());
        let passed = worst == DAMAGED && self.first(|keeper| keeper.pass_over(&damage).map(|()| String::new())).is_ok();
        if !passed {
            return Err(failure);
        }
        if self.ranks.rank().0 == 0 {
            eprintln!("ckpt: passed over {id}: {failure}");
        }
        Ok(())
    }

    /// A metric of the next step, which is kept with its checkpoint and read by `keep_best`.
    pub fn tell_metric(&mut self, name: &str, value: f64) -> Result<()> {
        self.keeper.tell_metric(name, value)
    }

    /// A counter of the next step, such as `epoch` (those that are done), for `every` and for labels.
    pub fn tell_counter(&mut self, name: &str, value: f64) -> Result<()> {
        self.keeper.tell_counter(name, value)
    }

    /// Says that a step is done. If a save is due, `add` adds what is to be saved, and the id is returned as soon as
    /// that is staged; after a signal, or at the time limit, only once it is committed, and
    /// [`stopping`](Self::stopping) says why. If that save fails, the next step tries it again.
    pub fn step<'a>(&mut self, step: u64, add: impl FnOnce(&mut Save<'a>) -> Result<()>) -> Result<Option<String>> {
        let (mut votes, voting) = (self.keeper.step(step, false)?, self.keeper.needs_votes());
        warn(&self.keeper);
        if voting {
            self.ranks.max(&mut votes);
        }
        let todo = self.keeper.decide(voting.then_some(&votes))?;
        let why = self.keeper.stopping().filter(|_| self.stopping.is_none());
        if todo == Todo::GO_ON && why.is_none() {
            return Ok(None);
        }
        if why.is_none() {
            return self.save_told(None, add).map(Some);
        }
        if let Err(earlier) = self.wait() {
            eprintln!("ckpt: {earlier}"); // this save matters more now
        }
        let id = self.save_told(None, add)?;
        self.wait()?;
        self.stopping = why;
        Ok(Some(id))
    }

    /// Saves now, in the background, and returns the id. A `label` of your own stays for ever. What was just saved is
    /// not saved again. After a signal, or at the time limit, it returns once the checkpoint is committed, and
    /// [`stopping`](Self::stopping) says why.
    pub fn save<'a>(
        &mut self,
        step: u64,
        label: Option<&str>,
        add: impl FnOnce(&mut Save<'a>) -> Result<()>,
    ) -> Result<String> {
        self.keeper.at_step(step)?;
        let id = self.save_told(label, add)?;
        if self.stopping.is_none() && self.keeper.stopping().is_some() {
            self.wait()?;
            self.stopping = self.keeper.stopping();
        }
        Ok(id)
    }

    fn save_told<'a>(&mut self, label: Option<&str>, add: impl FnOnce(&mut Save<'a>) -> Result<()>) -> Result<String> {
        self.wait()?;
        let plan = self.first(|keeper| {
            let made = keeper.plan(label);
            warn(keeper);
            made
        })?;
        self.open_session()?;
        let session = self.session.as_ref().expect("it is open");
        let Some(mut save) = self.keeper.save(session, &plan, &self.options)? else {
            return Ok(self.keeper.saved().unwrap_or_default());
        };
        if let Err(error) = add(&mut save) {
            save.give_up(&error.to_string())?; // so that the other ranks do not wait
            return Err(error);
        }
        let id = save.id()?.to_owned();
        self.saving = Some(save.stage()?);
        Ok(id)
    }

    fn open_session(&mut self) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        let (store, options, (rank, size)) = (self.store, self.options.clone(), self.ranks.rank());
        let mut opened = None;
        let string = self.first(|_| {
            let session = opened.insert(Session::open_rank(store, 0, size, None, &options)?);
            session.string().map(str::to_owned)
        })?;
        self.session = match opened {
            None => Some(Session::open_rank(store, rank, size, Some(&string), &options)?),
            opened => opened,
        };
        Ok(())
    }

    /// Waits until the save in the background is committed, and fails as it did.
    pub fn wait(&mut self) -> Result<()> {
        self.saving.take().map_or(Ok(()), |job| job.wait_committed())
    }

    /// Why the training should stop, once the last save is committed: `"SIGTERM"`, `"time limit"`.
    #[must_use]
    pub fn stopping(&self) -> Option<String> {
        self.stopping.clone()
    }

    /// The policy, for what is not here.
    pub fn keeper(&mut self) -> &mut Keeper {
        &mut self.keeper
    }

    /// Waits for the save in the background, fails as it did, and gives the signals back. Dropping does the same, and
    /// prints a failure.
    pub fn close(mut self) -> Result<()> {
        let waited = self.wait();
        waited.and(self.session.take().map_or(Ok(()), Session::close))
    }

    /// What rank 0 makes, on all ranks; or its failure.
    fn first(&mut self, make: impl FnOnce(&mut Keeper) -> Result<String>) -> Result<String> {
        let made = (self.ranks.rank().0 == 0).then(|| make(&mut self.keeper));
        let text = made.as_ref().map(|made| match made {
            Ok(text) => format!("+{text}"),
            Err(error) => format!("-{error}"),
        });
        let told = self.ranks.of_first(text);
        match (made, told.strip_prefix('+')) {
            (Some(made), _) => made,
            (None, Some(text)) => Ok(text.to_owned()),
            (None, None) => Err(Error::new(Status::ABORTED, format!("rank 0: {}", told.trim_start_matches('-')))),
        }
    }
}

fn warn(keeper: &Keeper) {
    if let Some(warning) = keeper.warning() {
        eprintln!("ckpt: {warning}");
    }
}

impl std::fmt::Debug for Checkpointer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpointer").field("session", &self.session).field("keeper", &self.keeper).finish()
    }
}
