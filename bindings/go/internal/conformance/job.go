package conformance

import (
	"context"
	"strings"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(
	command{"job.wait", 2, takesPairs, runJobWait},
	command{"job.state", 2, takesMore, runJobState},
	command{"job.cancel", 1, 0, runJobCancel},
	command{"job.stats", 1, takesPairs, runJobStats},
	command{"job.report", 2, 0, runJobReport},
	command{"report", 2, 0, runReport},
	command{"report.at", 2, takesPairs, runReportAt},
)

func runJobWait(r *runner, l *line) error {
	job, state := get[*ckpt.Job](r, l.words[0]), parseName[ckpt.JobState](r, l.words[1])
	ctx := context.Background()
	if text, given := l.value("timeout_ms"); given && r.parseInt(text) >= 0 {
		timeout := min(r.parseInt(text), int64(time.Duration(1<<63-1)/time.Millisecond)) // more is for ever, as in C
		limited, cancel := context.WithTimeout(ctx, time.Duration(timeout)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	return job.Wait(ctx, state)
}

func runJobState(r *runner, l *line) error {
	found, known := get[*ckpt.Job](r, l.words[0]).State(), false
	for _, name := range l.words[1:] {
		known = parseName[ckpt.JobState](r, name) == found || known
	}
	if !known {
		r.fail("expected one of %v, found %v", l.words[1:], found)
	}
	return nil
}

func runJobCancel(r *runner, l *line) error {
	get[*ckpt.Job](r, l.words[0]).Cancel()
	return nil
}

// expectCount is KEY=N, or KEY>=N.
func (r *runner) expectCount(l *line, key string, found uint64) {
	expectUnsigned(r, l, key, found)
	if wanted, given := l.value(key + ">"); given && found < r.parseUnsigned(wanted) {
		r.fail("expected %s>=%s, found %d", key, wanted, found)
	}
}

func runJobStats(r *runner, l *line) error {
	s, err := get[*ckpt.Job](r, l.words[0]).Stats()
	if err != nil {
		return err
	}
	expectName(r, l, "state", s.State)
	flag := map[bool]uint64{true: 1}
	for key, found := range map[string]uint64{
		"bytes_total": s.BytesTotal, "bytes_done": s.BytesDone, "bytes_read": s.BytesRead,
		"bytes_written": s.BytesWritten, "bytes_requested": s.BytesRequested, "chunk_count": s.ChunkCount,
		"run_count": s.RunCount, "io_count": s.IOCount, "staging_peak_bytes": s.StagingPeakBytes,
		"stage_us": uint64(s.StageTime.Microseconds()), "write_us": uint64(s.WriteTime.Microseconds()),
		"commit_us": uint64(s.CommitTime.Microseconds()), "total_us": uint64(s.TotalTime.Microseconds()),
		"arena_us": uint64(s.ArenaTime.Microseconds()), "direct_io": flag[s.DirectIO], "threads": uint64(s.Threads),
		"io_engine": uint64(s.IOEngine), "recycled": flag[s.Recycled],
	} {
		r.expectCount(l, key, found)
	}
	return nil
}

func runJobReport(r *runner, l *line) error {
	made, err := get[*ckpt.Job](r, l.words[0]).Report()
	return keep(r, l.words[1], made, err)
}

func runReport(r *runner, l *line) error {
	report := get[ckpt.Report](r, l.words[0])
	if uint64(report.Len()) != r.parseUnsigned(l.words[1]) {
		var texts []string
		for _, finding := range report.All() {
			texts = append(texts, finding.Text)
		}
		r.fail("expected %s findings, found %d: %s", l.words[1], report.Len(), strings.Join(texts, "; "))
	}
	return nil
}

func runReportAt(r *runner, l *line) error {
	report, index := get[ckpt.Report](r, l.words[0]), r.parseUnsigned(l.words[1])
	if index >= uint64(report.Len()) {
		return &ckpt.Error{Status: ckpt.ErrNotFound, Message: "there is no such finding"} // At panics, as a slice
	}
	found := report.At(int(index))
	expectName(r, l, "kind", found.Kind)
	r.expectText(l, "status", found.Status.Name())
	r.expectText(l, "name", found.Name)
	r.expectText(l, "part", found.Part)
	expectUnsigned(r, l, "offset", found.Offset)
	expectUnsigned(r, l, "size", found.Size)
	expectInt(r, l, "first_element", found.FirstElement)
	expectInt(r, l, "last_element", found.LastElement)
	expectUnsigned(r, l, "count", found.Count)
	r.expectFloat(l, "max_abs", found.MaxAbs)
	r.expectFloat(l, "max_rel", found.MaxRel)
	return nil
}
