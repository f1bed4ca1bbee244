#!/usr/bin/env python3
"""bench/'s statistics, targets, tables and plot, on made-up runs; and that its driver times and combines processes."""

import importlib
import json
import sys
import tempfile
import unittest
import xml.dom.minidom
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
figures, gpu_table, plot, process, report, run, s3 = map(
    importlib.import_module, "figures gpu_table plot process report run s3".split()
)


def sample(seconds, **more):
    return {"t_total": seconds, "t_return": seconds, "cpu_s": 0.1, "peak_above_base": 1 << 20, "read_bytes": 0, **more}


def row(name, kind, *seconds, **more):
    return {"name": name, "kind": kind, "samples": [sample(s, **more) for s in seconds]}


def section(key, limit, *rows, **more):
    return {
        "key": key,
        "title": key,
        "bytes": 10**9,
        "limit": limit,
        "value": "t_total",
        "rate": True,
        "rounds": 3,
        "rows": list(rows),
        **more,
    }


def made_up_run(*made_up):
    machine = {
        "date": "2026-01-01",
        "cpu": "C <&>",
        "cores": 2,
        "memory_gib": 23,
        "kernel": "6",
        "filesystem": "ext4",
        "load_average": 0,
    }
    return {
        "machine": machine,
        "commit": "abc",
        "scale": 1,
        "seconds": 60,
        "peers": {"torch": "2"},
        "cold": True,
        "raw_ways": {"limit-write": "2 threads x 4 MiB", "limit-read": "2 threads x 4 MiB"},
        "sections": list(made_up),
    }


SAVE = section(
    "llama-save",
    "raw O_DIRECT",
    row("ckpt", "ckpt", 1.0, 9.0, 1.0),
    row("raw O_DIRECT", "raw", 0.98, 0.5, 1.2),
    row("dcp", "peer", 2.0, 2.0),
    row("slow", "peer", 3.0),
    {"name": "absent", "kind": "peer", "samples": [], "error": "no | module"},
)


def verdict(run_of, what):
    return next(v for v in figures.verdicts(run_of) if v.what == what)


class Figures(unittest.TestCase):
    def test_the_median_counts_not_the_mean(self):
        self.assertEqual(figures.seconds(SAVE, SAVE["rows"][0]), 1.0)

    def test_the_fraction_is_the_limits_median_by_the_rows(self):
        self.assertAlmostEqual(figures.fraction(SAVE, SAVE["rows"][0]), 0.98)

    def test_the_best_peer_is_the_fastest_that_worked(self):
        self.assertEqual(figures.best_peer(SAVE), ("dcp", 2.0))
        self.assertEqual(figures.best_peer(SAVE, ["slow"]), ("slow", 3.0))
        self.assertIsNone(figures.best_peer(SAVE, ["absent"]))

    def test_a_target_is_met_at_its_bound_and_missed_below(self):
        self.assertTrue(verdict(made_up_run(SAVE), "durable save into new files").met)
        slower = section("llama-save", "raw O_DIRECT", row("ckpt", "ckpt", 1.0), row("raw O_DIRECT", "raw", 0.94))
        self.assertFalse(verdict(made_up_run(slower), "durable save into new files").met)

    def test_a_stall_counts_what_the_caller_waits_for(self):
        rows = [row("memcpy + XXH3, 2 threads", "raw", 1.0), row("ckpt, later save", "ckpt", 5.0)]
        rows[1]["samples"][0]["t_return"] = 1.05
        stall = section("async", "memcpy + XXH3, 2 threads", *rows, value="t_return")
        self.assertTrue(verdict(made_up_run(stall), "stall of a later background save").met)

    def test_time_beyond_one_fsync_leaves_the_fsync_out(self):
        rows = row("ckpt", "ckpt", 0.055), row("one fsync", "raw", 0.01)
        small = made_up_run(section("small-20000-save", "one fsync", *rows))
        self.assertTrue(verdict(small, "20,000 tensors of 1 KiB, beyond one fsync").met)
        rows[1]["samples"][0]["t_total"] = 0.001
        self.assertFalse(verdict(small, "20,000 tensors of 1 KiB, beyond one fsync").met)

    def test_one_tensor_may_read_two_chunks_more_than_asked(self):
        for read, met in ((10 << 20, True), ((10 << 20) + 1, False)):
            one = section("one", "x", row("ckpt, verified", "ckpt", 1.0, bytes_requested=8 << 20, job_bytes_read=read))
            self.assertEqual(verdict(made_up_run(one), "one tensor: bytes read").met, met)

    def test_what_was_not_measured_has_no_verdict(self):
        self.assertEqual(figures.verdicts(made_up_run()), [])
        self.assertNotIn("open and list 10,000 names", [v.what for v in figures.verdicts(made_up_run(SAVE))])


class Tables(unittest.TestCase):
    def test_every_row_is_there_the_fastest_first(self):
        text = report.section_text(SAVE)
        places = [text.index(name) for name in ("| raw O_DIRECT", "| **ckpt**", "| dcp", "| slow", "| absent")]
        self.assertEqual(places, sorted(places))

    def test_a_row_that_did_not_work_says_why_without_breaking_the_table(self):
        line = next(line for line in report.section_text(SAVE).splitlines() if "absent" in line)
        self.assertIn("did not work: no / module", line)
        header = next(line for line in report.section_text(SAVE).splitlines() if "median" in line)
        self.assertEqual(line.count("|"), header.count("|"))

    def test_a_document_gets_one_row_of_medians_for_each_section(self):
        peers = [row(name, "peer", seconds) for name, seconds in (("c", 4.0), ("b", 5.0), ("d", 3.0), ("a", 9.0))]
        rows = [*SAVE["rows"], *peers]
        ways = section("ways", None, row("2 threads", "raw", 1.0))
        text = report.short_report(made_up_run(section("llama-save", "raw O_DIRECT", *rows), ways))
        self.assertIn("| llama-save, 0.93 GiB | raw O_DIRECT 980 ms; ckpt 1.00 s (0.98); dcp 2.00 s (0.49); slow 3.00 s"
                      " (0.33); d 3.00 s (0.33); absent did not work |", text)
        self.assertNotIn("ways", text)
        self.assertIn("| durable save into new files |", text)

    def test_what_people_wrote_around_the_markers_stays(self):
        text = f"before\n{report.MARKERS[0]}\nold\n{report.MARKERS[1]}\nafter\n"
        new = report.between_markers(text, "new")
        self.assertEqual(new, f"before\n{report.MARKERS[0]}\nnew\n{report.MARKERS[1]}\nafter\n")
        self.assertEqual(report.between_markers(new, "new"), new)
        self.assertRaises(SystemExit, report.between_markers, "no markers", "new")

    def test_the_documents_have_markers(self):
        for page, marks in (("RESULTS.md", report.MARKERS), ("S3.md", report.S3_MARKERS)):
            report.between_markers((BENCH / page).read_text(), "", marks)

    def test_the_plot_is_well_formed_and_has_every_bar(self):
        picture = plot.draw(made_up_run(SAVE))
        document = xml.dom.minidom.parseString(picture)
        bars = [r for r in document.getElementsByTagName("rect") if r.getAttribute("height") == str(plot.BAR)]
        self.assertEqual(len(bars), 4)

    def test_the_plot_shows_sections_that_the_driver_measures(self):
        for key in plot.SHOWN:
            self.assertIn(key, KEYS)


class Driver(unittest.TestCase):
    def test_of_several_ranks_the_slowest_counts_and_memory_adds_up(self):
        combined = process.combine([{"": sample(1.0)}, {"": sample(2.0)}])[""]
        self.assertEqual((combined["t_total"], combined["peak_above_base"]), (2.0, 2 << 20))

    def test_a_process_is_timed_only_after_go(self):
        worker = "print('READY', flush=True); input(); print('RESULT ' + '%s')" % json.dumps(sample(0.5))
        self.assertEqual(process.run([[sys.executable, "-c", worker]], 0, False)[""]["t_total"], 0.5)

    def test_a_process_that_fails_says_why(self):
        for program in (
            "import sys; sys.exit('no such library')",
            "print('READY', flush=True); input(); raise ValueError('x')",
        ):
            with self.assertRaisesRegex(process.Failed, "no such library|x"):
                process.run([[sys.executable, "-c", program]], 0, False)

    def test_the_fastest_way_becomes_the_limit(self):
        ways = section("limit-write", "", row("1 threads, 4 MiB", "raw", 2.0), row("4 threads, 8 MiB", "raw", 1.0))
        self.assertEqual(run.Bench.best_ways(None, [ways])["limit-write"], (4, 8))

    def test_every_limit_and_every_kept_folder_is_among_the_contenders(self):
        for made in PLAN:
            names = [contender.name for contender in made.contenders]
            self.assertEqual(len(names), len(set(names)), made.key)
            if made.limit:  # a lookup has none
                self.assertIn(made.limit, names, made.key)
            prepared = {keeper.name for keeper in made.prepare}
            self.assertLessEqual({c.keep for c in made.contenders if c.keep}, prepared, made.key)

    def test_every_target_names_a_contender_of_the_plan(self):
        for judge in figures.TARGETS:
            names = [contender.name for made in PLAN if made.key == judge.section for contender in made.contenders]
            self.assertTrue(any(judge.row == name or judge.row.startswith(name + ", ") for name in names), judge.row)


class Gpu(unittest.TestCase):
    MEASURED = {
        "mib": 2048,
        "d2h_s": 1.0,
        "stall_s": 1.09,
        "durable_s": 2.2,
        "host_durable_s": 2.0,
        "runs": 3,
        "load_s": 2.0,
        "host_load_s": 1.0,
        "h2d_s": 1.85,
        "peak_host_mib": 77,
        "exact": True,
        "fake": False,
    }

    def test_each_row_says_whether_its_goal_is_met(self):
        text = gpu_table.table([self.MEASURED], [("Device", "H100"), ("Not run", "32: no room")])
        rows = [line for line in text.splitlines() if line.startswith("| 2 GiB")]
        self.assertEqual([row.split("|")[-2].strip() for row in rows], ["met", "**not met**", "met"])
        self.assertEqual([row.split("|")[-3].strip() for row in rows], ["1.09", "1.10", "1.08"])
        self.assertIn("* Device: H100\n* Not run: 32: no room\n", text)

    def test_figures_of_the_fake_device_never_go_to_bench(self):
        before = {path: path.read_bytes() for path in BENCH.glob("*.md")}
        with tempfile.TemporaryDirectory() as folder:
            gpu_table.write([self.MEASURED | {"fake": True}], f"{folder}/table.md", [])
            self.assertIn("these figures mean nothing", Path(folder, "table.md").read_text())
            link = Path(folder, "link.md")
            link.symlink_to(BENCH / "GPU.md")
            for out in (BENCH / "GPU.md", BENCH / ".." / "bench" / "new.md", link):
                with self.assertRaisesRegex(ValueError, "fake device"):
                    gpu_table.write([self.MEASURED, self.MEASURED | {"fake": True}], out, [])
        self.assertEqual({path: path.read_bytes() for path in BENCH.glob("*.md")}, before)

    def test_there_is_no_table_of_nothing_or_of_wrong_bytes(self):
        for measured in ([], [self.MEASURED | {"exact": False}]):
            with self.assertRaises(ValueError):
                gpu_table.table(measured, [])


def make_plan():
    """The sections of a full run with peers, without measuring."""
    sys.argv = ["run.py", "--program", "x", "--json", "x", "--peers-python", "x"]
    bench = run.Bench(run.arguments())
    bench.size_of = lambda workload: 1 << 30
    return list(bench.plan({"limit-write": (2, 4), "limit-read": (2, 4)}))


def make_s3_plan():
    way = ["--threads", "4", "--block", "1"]
    return [made for key in s3.TITLES for made in s3.sections(key, 1, way, way, True, False)]


PLAN = make_plan() + make_s3_plan()
KEYS = [made.key for made in PLAN]

if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    unittest.main()
