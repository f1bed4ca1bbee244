//! job.* and report.*: work in the background, and what it found.

use std::time::Duration;

use ckpt::{Job, JobState, Report, Status};

use crate::call::{name_of, named, Call};
use crate::objects::{failed, wrong, JobObject, Outcome, Runner};
use crate::Command;

fn job<'r>(runner: &'r Runner, call: &Call) -> Outcome<&'r Job> {
    Ok(runner.get::<JobObject>(call, 0)?.get())
}

fn wait(runner: &mut Runner, call: &Call) -> Outcome {
    let (job, state) = (job(runner, call)?, named(JobState, call.text(1)?)?);
    let timeout = call.key_number("timeout_ms")?.and_then(|timeout| u64::try_from(timeout).ok());
    let Some(milliseconds) = timeout else { return Ok(job.wait(state)?) };
    match job.wait_timeout(state, Duration::from_millis(milliseconds))? {
        true => Ok(()),
        false => failed(Status::TIMEOUT, "the time passed; the job goes on", None),
    }
}

fn state(runner: &mut Runner, call: &Call) -> Outcome {
    let found = name_of(job(runner, call)?.state());
    if call.words[1..].iter().any(|word| word == found.as_bytes()) {
        return Ok(());
    }
    wrong(format!("expected another state, found {found}"))
}

fn stats(runner: &mut Runner, call: &Call) -> Outcome {
    let stats = job(runner, call)?.stats()?;
    call.expect("state", name_of(stats.state))?;
    let numbers = [
        ("bytes_total", stats.bytes_total),
        ("bytes_done", stats.bytes_done),
        ("bytes_read", stats.bytes_read),
        ("bytes_written", stats.bytes_written),
        ("bytes_requested", stats.bytes_requested),
        ("chunk_count", stats.chunk_count),
        ("run_count", stats.run_count),
        ("io_count", stats.io_count),
        ("staging_peak_bytes", stats.staging_peak_bytes),
        ("stage_us", stats.stage_us),
        ("write_us", stats.write_us),
        ("commit_us", stats.commit_us),
        ("total_us", stats.total_us),
        ("direct_io", stats.direct_io.into()),
        ("threads", stats.threads.into()),
        ("arena_us", stats.arena_us),
        ("io_engine", stats.io_engine.0 as u64),
        ("recycled", stats.recycled.into()),
        ("get_count", stats.get_count),
        ("put_count", stats.put_count),
        ("list_count", stats.list_count),
        ("delete_count", stats.delete_count),
        ("retry_count", stats.retry_count),
        ("bytes_sent", stats.bytes_sent),
        ("bytes_received", stats.bytes_received),
    ];
    numbers.into_iter().try_for_each(|(key, found)| call.expect(key, found))
}

fn report(runner: &mut Runner, call: &Call) -> Outcome {
    let report = runner.get::<Report>(call, 0)?;
    if report.len() == call.number::<usize>(1)? {
        return Ok(());
    }
    let texts: Vec<String> = report.iter().filter_map(|finding| Some(finding.ok()?.text().into_owned())).collect();
    wrong(format!("expected {} findings, found {}: {}", call.text(1)?, report.len(), texts.join("; ")))
}

fn report_at(runner: &mut Runner, call: &Call) -> Outcome {
    let found = runner.get::<Report>(call, 0)?.get(call.number(1)?)?;
    let (first, last) = found.elements().map_or((-1, -1), |(first, last)| (first as i64, last as i64));
    call.expect("kind", name_of(found.kind()))?;
    call.expect("status", found.status().name())?;
    call.expect("name", found.name().unwrap_or_default())?;
    call.expect("part", found.part().unwrap_or_default())?;
    call.expect("offset", found.offset())?;
    call.expect("size", found.size())?;
    call.expect("first_element", first)?;
    call.expect("last_element", last)?;
    call.expect("count", found.count())?;
    call.expect_float("max_abs", found.max_abs())?;
    call.expect_float("max_rel", found.max_rel())
}

pub const COMMANDS: &[Command] = &[
    ("job.new", |r, c| r.put(c, 0, JobObject::Other(Job::new()?))),
    ("job.wait", wait),
    ("job.state", state),
    ("job.cancel", |r, c| {
        job(r, c)?.cancel();
        Ok(())
    }),
    ("job.stats", stats),
    ("job.report", |r, c| r.put(c, 1, job(r, c)?.report()?)),
    ("report", report),
    ("report.at", report_at),
];
