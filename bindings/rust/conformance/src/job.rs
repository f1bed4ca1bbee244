//! job.* and report.*: work in the background, and what it found.

use std::time::Duration;

use ckpt::{FindingKind, JobState, Status};

use crate::line::{Command, Line, MORE, NOTHING, PAIRS};
use crate::notation::{name_of, parse_int, parse_name, parse_unsigned};
use crate::objects::{failed, wrong, Object, Outcome, Runner};

const STATES: [(&str, i32); 7] = [
    ("RUNNING", JobState::RUNNING.0),
    ("STAGED", JobState::STAGED.0),
    ("WRITTEN", JobState::WRITTEN.0),
    ("COMMITTED", JobState::COMMITTED.0),
    ("DONE", JobState::DONE.0),
    ("FAILED", JobState::FAILED.0),
    ("CANCELLED", JobState::CANCELLED.0),
];

fn wait(runner: &mut Runner, line: &Line) -> Outcome {
    let job = runner.job(&line.words[0])?.get();
    let state = JobState(parse_name(&STATES, line.name(1)?)?);
    let timeout = line.value_text("timeout_ms")?.map(parse_int).transpose()?;
    let Some(milliseconds) = timeout.and_then(|timeout| u64::try_from(timeout).ok()) else {
        return Ok(job.wait(state)?);
    };
    match job.wait_timeout(state, Duration::from_millis(milliseconds))? {
        true => Ok(()),
        false => failed(Status::TIMEOUT, "the time passed; the job goes on", None),
    }
}

fn state(runner: &mut Runner, line: &Line) -> Outcome {
    let found = runner.job(&line.words[0])?.get().state();
    for index in 1..line.words.len() {
        if parse_name(&STATES, line.name(index)?)? == found.0 {
            return Ok(());
        }
    }
    wrong(format!("expected state {} or what is named with it, found {}", line.name(1)?, name_of(&STATES, found.0)))
}

fn cancel(runner: &mut Runner, line: &Line) -> Outcome {
    runner.job(&line.words[0])?.get().cancel();
    Ok(())
}

/// `KEY=N`, or `KEY>=N`.
fn expect_number(line: &Line, key: &str, found: u64) -> Outcome {
    line.expect_unsigned(key, found)?;
    match line.value_text(&format!("{key}>"))? {
        Some(least) if found < parse_unsigned(least)? => wrong(format!("expected {key}>={least}, found {found}")),
        _ => Ok(()),
    }
}

fn stats(runner: &mut Runner, line: &Line) -> Outcome {
    let stats = runner.job(&line.words[0])?.get().stats()?;
    line.expect_name("state", &STATES, stats.state.0)?;
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
    ];
    numbers.into_iter().try_for_each(|(key, found)| expect_number(line, key, found))
}

fn report_of(runner: &mut Runner, line: &Line) -> Outcome {
    let report = runner.job(&line.words[0])?.get().report()?;
    runner.put(&line.words[1], Object::Report(report));
    Ok(())
}

const FINDINGS: [(&str, i32); 7] = [
    ("DAMAGED", FindingKind::DAMAGED.0),
    ("MISSING", FindingKind::MISSING.0),
    ("EXTRA", FindingKind::EXTRA.0),
    ("DIFFERENT", FindingKind::DIFFERENT.0),
    ("REMOVED", FindingKind::REMOVED.0),
    ("KEPT", FindingKind::KEPT.0),
    ("REPAIRED", FindingKind::REPAIRED.0),
];

fn report(runner: &mut Runner, line: &Line) -> Outcome {
    let report = runner.report(&line.words[0])?;
    if report.len() == parse_unsigned::<usize>(line.name(1)?)? {
        return Ok(());
    }
    let texts: Vec<String> = report.iter().filter_map(|finding| Some(finding.ok()?.text().into_owned())).collect();
    wrong(format!("expected {} findings, found {}: {}", line.name(1)?, report.len(), texts.join("; ")))
}

fn report_at(runner: &mut Runner, line: &Line) -> Outcome {
    let found = runner.report(&line.words[0])?.get(parse_unsigned(line.name(1)?)?)?;
    line.expect_name("kind", &FINDINGS, found.kind().0)?;
    line.expect_text("status", found.status().name())?;
    line.expect_text("name", found.name().unwrap_or_default())?;
    line.expect_text("part", found.part().unwrap_or_default())?;
    line.expect_unsigned("offset", found.offset())?;
    line.expect_unsigned("size", found.size())?;
    let (first, last) = found.elements().map_or((-1, -1), |(first, last)| (first as i64, last as i64));
    line.expect_int("first_element", first)?;
    line.expect_int("last_element", last)?;
    line.expect_unsigned("count", found.count())?;
    line.expect_float("max_abs", found.max_abs())?;
    line.expect_float("max_rel", found.max_rel())
}

pub const COMMANDS: &[Command] = &[
    Command { name: "job.wait", words: 2, takes: PAIRS, run: wait },
    Command { name: "job.state", words: 2, takes: MORE, run: state },
    Command { name: "job.cancel", words: 1, takes: NOTHING, run: cancel },
    Command { name: "job.stats", words: 1, takes: PAIRS, run: stats },
    Command { name: "job.report", words: 2, takes: NOTHING, run: report_of },
    Command { name: "report", words: 2, takes: NOTHING, run: report },
    Command { name: "report.at", words: 2, takes: PAIRS, run: report_at },
];
