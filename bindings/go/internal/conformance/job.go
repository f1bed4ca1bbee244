package conformance

import (
	"context"
	"slices"
	"strings"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner){
	"job.new":    func(r *runner) { r.put(0, newCallContext()) },
	"job.wait":   runJobWait,
	"job.state":  runJobState,
	"job.cancel": func(r *runner) { get[canceller](r, 0).Cancel() },
	"job.stats":  runJobStats,
	"job.report": func(r *runner) { r.put(1, try(r.job().Report())) },
	"report":     runReport,
	"report.at":  runReportAt,
})

type canceller interface{ Cancel() }

// callContext is the job of a call: what calls that block take instead of one.
type callContext struct {
	context.Context
	cancel context.CancelFunc
}

func newCallContext() *callContext {
	ctx, cancel := context.WithCancel(context.Background())
	return &callContext{ctx, cancel}
}

func (c *callContext) Cancel() { c.cancel() }
func (c *callContext) Close() error {
	c.cancel()
	return nil
}

// context returns the context that key job names.
func (r *runner) context() context.Context {
	if job, given := r.value("job"); given {
		return getNamed[*callContext](r, job)
	}
	return context.Background()
}

func (r *runner) job() *ckpt.Job { return get[*ckpt.Job](r, 0) }

func runJobWait(r *runner) {
	ctx, state := context.Background(), parseName[ckpt.JobState](r, r.words[1])
	if timeout, given := r.list("timeout_ms"); given && timeout[0] >= 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(timeout[0])*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	must(r.job().Wait(ctx, state))
}

func runJobState(r *runner) {
	if found := r.job().State().String(); !slices.Contains(r.words[1:], found) {
		r.fail("expected one of %v, found %v", r.words[1:], found)
	}
}

func runJobStats(r *runner) {
	s := try(r.job().Stats())
	for key, found := range map[string]any{
		"state": s.State, "bytes_total": s.BytesTotal, "bytes_done": s.BytesDone, "bytes_read": s.BytesRead,
		"bytes_written": s.BytesWritten, "bytes_requested": s.BytesRequested, "chunk_count": s.ChunkCount,
		"run_count": s.RunCount, "io_count": s.IOCount, "staging_peak_bytes": s.StagingPeakBytes,
		"stage_us": s.StageTime.Microseconds(), "write_us": s.WriteTime.Microseconds(),
		"commit_us": s.CommitTime.Microseconds(), "total_us": s.TotalTime.Microseconds(),
		"arena_us": s.ArenaTime.Microseconds(), "direct_io": s.DirectIO, "threads": s.Threads,
		"io_engine": uint32(s.IOEngine), "recycled": s.Recycled, "get_count": s.GetCount, "put_count": s.PutCount,
		"list_count": s.ListCount, "delete_count": s.DeleteCount, "retry_count": s.RetryCount,
		"bytes_sent": s.BytesSent, "bytes_received": s.BytesReceived,
	} {
		r.expect(key, found)
	}
}

func runReport(r *runner) {
	report := get[ckpt.Report](r, 0)
	if uint64(report.Len()) != r.unsigned(1) {
		var texts []string
		for _, finding := range report.All() {
			texts = append(texts, finding.Text)
		}
		r.fail("expected %s findings, found %d: %s", r.words[1], report.Len(), strings.Join(texts, "; "))
	}
}

func runReportAt(r *runner) {
	report, index := get[ckpt.Report](r, 0), r.unsigned(1)
	if index >= uint64(report.Len()) {
		must(&ckpt.Error{Status: ckpt.ErrNotFound, Message: "there is no such finding"}) // At panics, as a slice
	}
	found := report.At(int(index))
	r.expect("kind", found.Kind)
	r.expect("status", found.Status.Name())
	r.expect("name", found.Name)
	r.expect("part", found.Part)
	r.expect("offset", found.Offset)
	r.expect("size", found.Size)
	r.expect("first_element", found.FirstElement)
	r.expect("last_element", found.LastElement)
	r.expect("count", found.Count)
	r.expectFloat("max_abs", found.MaxAbs)
	r.expectFloat("max_rel", found.MaxRel)
}
