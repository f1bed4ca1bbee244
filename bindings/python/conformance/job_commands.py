"""job.* and report*: work in the background, and what it found."""

from dataclasses import fields

import ckpt

from scenario import Failure, Line, Scenario, command, integer, name_of, number, unsigned


@command("job.wait", 2, "pairs")
def job_wait(scenario: Scenario, line: Line) -> None:
    job, state = scenario.get(line.words[0], ckpt.Job), name_of(ckpt.JobState)(line.words[1])
    job.wait(state, integer(line.pair("timeout_ms") or "-1"))


@command("job.state", 2, "more")
def job_state(scenario: Scenario, line: Line) -> None:
    found = scenario.get(line.words[0], ckpt.Job).state
    if found not in [name_of(ckpt.JobState)(word) for word in line.words[1:]]:
        raise Failure(f"expected {' or '.join(line.words[1:])}, found {found.name}")


@command("job.cancel", 1)
def job_cancel(scenario: Scenario, line: Line) -> None:
    scenario.get(line.words[0], ckpt.Job).cancel()


@command("job.stats", 1, "pairs")
def job_stats(scenario: Scenario, line: Line) -> None:
    stats = scenario.get(line.words[0], ckpt.Job).stats
    line.expect("state", stats.state, name_of(ckpt.JobState))
    for key in [field.name for field in fields(stats) if field.name != "state"]:
        found = int(getattr(stats, key))
        line.expect(key, found, unsigned)
        least = line.pair(key + ">")  # KEY>=N divides at the first "="
        if least is not None and found < unsigned(least):
            raise Failure(f"expected {key}>={least}, found {found}")


@command("job.report", 2)
def job_report(scenario: Scenario, line: Line) -> None:
    scenario.put(line.words[1], scenario.get(line.words[0], ckpt.Job).report())


@command("report", 2)
def report(scenario: Scenario, line: Line) -> None:
    found = scenario.get(line.words[0], ckpt.Report)
    if len(found) != unsigned(line.words[1]):
        raise Failure(f"expected {line.words[1]} findings, found {len(found)}: {found[0].text if found else ''}")


@command("report.at", 2, "pairs")
def report_at(scenario: Scenario, line: Line) -> None:
    finding = scenario.get(line.words[0], ckpt.Report)[unsigned(line.words[1])]
    line.expect("kind", finding.kind, name_of(ckpt.FindingKind))
    line.expect("status", finding.status.name)
    line.expect("name", finding.name or "")
    line.expect("part", finding.part or "")
    for key in ("offset", "size", "count"):
        line.expect(key, getattr(finding, key), unsigned)
    for key in ("first_element", "last_element"):
        line.expect(key, getattr(finding, key), integer)
    for key in ("max_abs", "max_rel"):
        line.expect(key, repr(getattr(finding, key)), number)
