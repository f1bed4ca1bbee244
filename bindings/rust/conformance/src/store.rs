//! store.*, session.*, job.* and report.*: what a store holds, how ranks find each other, work in the background.

use std::time::Duration;

use ckpt::{CheckpointInfo, Job, JobState, Report, Session, Status, Store};

use crate::call::{name_of, named, nothing, word, words, Call, Reply};
use crate::objects::{failed, refused, JobObject, Outcome, Runner};
use crate::{record, Command};

fn store<'r>(runner: &'r Runner, call: &Call) -> Outcome<&'r Store> {
    runner.get(call, 0)
}

pub fn checkpoint(info: &CheckpointInfo) -> Outcome<Reply> {
    let step = info.step().map_or("-1".to_owned(), |step| step.to_string());
    Ok(record!(info: id label run world_size part_count tensor_count object_count flags revision attempt token sequence
        bytes passed_over; step = step, state = name_of(info.state())))
}

fn states(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let mut found = Vec::new();
    for info in &store(runner, call)?.list()? {
        let info = info?;
        found.push(format!("{}:{}", info.id(), name_of(info.state())));
    }
    words(found)
}

fn runs(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    words(store(runner, call)?.runs()?.into_iter().map(|run| {
        let step = run.newest_step.map_or("-1".to_owned(), |step| step.to_string());
        let (id, label) = (run.newest_id.unwrap_or_default(), run.newest_label.unwrap_or_default());
        format!("{}:{}:{}:{step}:{id}:{label}", run.name, run.token, run.checkpoint_count)
    }))
}

/// -1 is none; Rust's types cannot express lower numbers.
pub fn step(call: &Call) -> Outcome<Option<u64>> {
    match call.number(3)? {
        -1 => Ok(None),
        step => u64::try_from(step).map(Some).or_else(|_| refused(&format!("step {step}"), None)),
    }
}

fn import(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let settings = runner.settings(call)?;
    checkpoint(&store(runner, call)?.import(call.text(1)?, call.text(2)?, step(call)?, &settings)?)
}

fn session_open(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (store, settings) = (runner.get::<Store>(call, 1)?, runner.settings(call)?);
    let session = Session::open_rank(store, call.number(2)?, call.number(3)?, call.key_text("string")?, &settings)?;
    runner.put(call, 0, session)
}

// ---- jobs and reports ----

fn job<'r>(runner: &'r Runner, call: &Call) -> Outcome<&'r Job> {
    Ok(runner.get::<JobObject>(call, 0)?.get())
}

fn wait(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (job, state) = (job(runner, call)?, named(JobState, call.text(1)?)?);
    let timeout = call.key_number("timeout_ms")?.and_then(|timeout| u64::try_from(timeout).ok());
    let Some(milliseconds) = timeout else { return nothing(job.wait(state)?) };
    match job.wait_timeout(state, Duration::from_millis(milliseconds))? {
        true => nothing(()),
        false => failed(Status::TIMEOUT, "the time passed; the job goes on", None),
    }
}

fn stats(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let stats = job(runner, call)?.stats()?;
    Ok(record!(.stats: bytes_total bytes_done bytes_read bytes_written bytes_requested chunk_count run_count io_count
        staging_peak_bytes stage_us write_us commit_us total_us threads arena_us get_count put_count list_count
        delete_count retry_count bytes_sent bytes_received; state = name_of(stats.state),
        direct_io = u8::from(stats.direct_io), recycled = u8::from(stats.recycled), io_engine = stats.io_engine.0))
}

fn report_at(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let found = runner.get::<Report>(call, 0)?.get(call.number(1)?)?;
    let (first, last) = found.elements().map_or((-1, -1), |(first, last)| (first as i64, last as i64));
    Ok(record!(found: offset size count max_abs max_rel; kind = name_of(found.kind()), status = found.status().name(),
        name = found.name().unwrap_or_default(), part = found.part().unwrap_or_default(), first_element = first,
        last_element = last))
}

pub const COMMANDS: &[Command] = &[
    ("store.open", |r, c| r.put(c, 0, Store::open_with(c.text(1)?, &c.settings()?)?)),
    ("store.states", states),
    ("store.runs", runs),
    ("store.find", |r, c| checkpoint(&store(r, c)?.find_with(c.text(1)?, &c.settings()?)?)),
    ("store.remove", |r, c| nothing(store(r, c)?.remove(c.text(1)?)?)),
    ("store.keep", |r, c| nothing(store(r, c)?.keep(c.text(1)?, c.text(2)? == "1")?)),
    ("store.name", |r, c| {
        nothing(store(r, c)?.name(c.text(1)?, c.text(2)?, Some(c.text(3)?).filter(|id| !id.is_empty()))?)
    }),
    ("store.prune", |r, c| r.put(c, 1, store(r, c)?.prune(&r.settings(c)?)?)),
    ("store.repair", |r, c| r.put(c, 2, store(r, c)?.repair(c.text(1)?, &r.settings(c)?)?)),
    ("store.import", import),
    ("session.open", session_open),
    ("session.mirror", |r, c| r.put(c, 1, JobObject::Other(r.get::<Session>(c, 0)?.mirror()?))),
    ("session.string", |r, c| word(r.get::<Session>(c, 0)?.string()?)),
    ("job.new", |r, c| r.put(c, 0, JobObject::Other(Job::new()?))),
    ("job.wait", wait),
    ("job.state", |r, c| word(name_of(job(r, c)?.state()))),
    ("job.cancel", |r, c| {
        job(r, c)?.cancel();
        nothing(())
    }),
    ("job.stats", stats),
    ("job.report", |r, c| r.put(c, 1, job(r, c)?.report()?)),
    ("report", |r, c| word(r.get::<Report>(c, 0)?.len())),
    ("report.at", report_at),
];
