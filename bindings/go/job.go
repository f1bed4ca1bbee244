package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"context"
	"sync/atomic"
	"time"
)

// JobState is how far a job is. States only ever grow.
type JobState int32

// The states of jobs. JobCommitted and JobDone, JobFailed and JobCancelled are ends.
const (
	JobRunning   JobState = C.CKPT_JOB_RUNNING
	JobStaged    JobState = C.CKPT_JOB_STAGED    // save: the caller's memory is the caller's again
	JobWritten   JobState = C.CKPT_JOB_WRITTEN   // save: this rank's part is durable
	JobCommitted JobState = C.CKPT_JOB_COMMITTED // save: committed for all ranks (with wait=0: this rank is done)
	JobDone      JobState = C.CKPT_JOB_DONE      // load, verify: finished
	JobFailed    JobState = C.CKPT_JOB_FAILED
	JobCancelled JobState = C.CKPT_JOB_CANCELLED
)

// String is the state as ckpt.h spells it, "STAGED".
func (s JobState) String() string {
	return nameOf("JobState", int32(s), map[int32]string{
		C.CKPT_JOB_RUNNING: "RUNNING", C.CKPT_JOB_STAGED: "STAGED", C.CKPT_JOB_WRITTEN: "WRITTEN",
		C.CKPT_JOB_COMMITTED: "COMMITTED", C.CKPT_JOB_DONE: "DONE", C.CKPT_JOB_FAILED: "FAILED",
		C.CKPT_JOB_CANCELLED: "CANCELLED",
	})
}

// Job is work in the background. One that becomes unreachable without Close goes on to its end, or its context's.
type Job struct {
	h owned[*C.ckpt_job]
	*progress
}

// progress is what a job's watcher tells, apart from the Job so that this one can be collected meanwhile.
type progress struct {
	ctx                    context.Context // whose cancellation cancels the job
	staged, written, ended chan struct{}   // closed when the job is there, or has ended otherwise
	last                   atomic.Int32    // the state at the end
	reasons                []error         // of the context, where it was done by then; to be read once ended is closed
}

// passed is the channel of a moment that has come.
var passed = func() chan struct{} {
	made := make(chan struct{})
	close(made)
	return made
}()

// newJob takes over the C object and the memory that its work uses.
func newJob(ctx context.Context, ptr *C.ckpt_job, pinned *memory) *Job {
	h := newHandle("job", ptr, func(p *C.ckpt_job) { C.ckpt_job_free(p) })
	p := &progress{
		ctx: ctx, staged: make(chan struct{}), written: make(chan struct{}), ended: make(chan struct{}),
	}
	made := &Job{progress: p}
	h.uses += 2 // the watcher's and the context's, for a Job that nobody holds any more; no other knows the handle yet
	if ctx.Err() != nil {
		C.ckpt_job_cancel(ptr)
	}
	stop := context.AfterFunc(ctx, func() {
		C.ckpt_job_cancel(ptr)
		h.drop()
	})
	go func() {
		p.watch(ptr, pinned)
		if stop() { // else the function above drops it
			h.drop()
		}
		h.drop()
	}()
	own(made, &made.h, h)
	return made
}

// watch follows the job to its end and gives the memory back as soon as the engine is done with it.
func (p *progress) watch(ptr *C.ckpt_job, pinned *memory) {
	C.ckpt_job_wait(ptr, C.CKPT_JOB_STAGED, -1, nil) // a load has no such state: it is there when it has ended
	pinned.release()
	close(p.staged)
	C.ckpt_job_wait(ptr, C.CKPT_JOB_WRITTEN, -1, nil)
	close(p.written)
	C.ckpt_job_wait(ptr, C.CKPT_JOB_FAILED, -1, nil) // beyond all good ends: returns at any of them
	p.last.Store(int32(C.ckpt_job_state(ptr)))
	p.reasons = reasonsOf(p.ctx)
	close(p.ended)
}

// State is how far the job is; of a closed job its end.
func (j *Job) State() JobState {
	job, err := j.h.enter()
	if err != nil {
		if j.progress == nil {
			return JobFailed
		}
		<-j.ended
		return JobState(j.last.Load())
	}
	defer j.h.leave()
	return JobState(C.ckpt_job_state(job))
}

// Staged is closed when the caller's memory is the caller's again: of a save once it is staged, of a load at its end,
// and when the job failed before that.
func (j *Job) Staged() <-chan struct{} { return j.channel(JobStaged) }

// Done is closed when the job has ended in whatever way; Wait then tells the outcome at once.
func (j *Job) Done() <-chan struct{} { return j.channel(JobFailed) }

func (j *Job) channel(state JobState) <-chan struct{} {
	if j.progress == nil { // the zero Job is a closed one
		return passed
	}
	return j.reached(state)
}

// Wait waits until the job's state is at least `state`, or it has ended. It returns nil when the state was reached, and
// the error of a job that failed or was cancelled. When the context ends first, the job goes on: the error is
// ErrTimeout and the context's own. (The context given to Start is the one that cancels: see [Save.Run].)
func (j *Job) Wait(ctx context.Context, state JobState) error {
	job, err := j.h.enter()
	if err != nil {
		return err
	}
	defer j.h.leave()
	select {
	case <-j.reached(state):
	case <-ctx.Done():
	}
	for {
		ended := over(job)
		var cerr *C.ckpt_error
		status := C.ckpt_job_wait(job, C.int32_t(state), 0, &cerr)
		err = fail(status, cerr)
		if status != C.CKPT_TIMEOUT || ended { // also the TIMEOUT of a save whose ranks did not come
			if over(job) {
				<-j.ended
				blame(j.reasons, err)
			}
			return err
		}
		if !over(job) {
			return &Error{
				Status: ErrTimeout, Message: "the job did not reach " + state.String() + " in time; it goes on",
				causes: reasonsOf(ctx),
			}
		}
	}
}

func over(job *C.ckpt_job) bool { return C.ckpt_job_state(job) >= C.CKPT_JOB_COMMITTED }

// reached is closed no later than the state is reached or the job has ended.
func (p *progress) reached(state JobState) <-chan struct{} {
	switch {
	case state <= JobRunning:
		return passed
	case state == JobStaged:
		return p.staged
	case state == JobWritten:
		return p.written
	}
	return p.ended
}

// Cancel asks the job to stop; it returns at once and may be called often. A save that is not yet committed will not
// be.
func (j *Job) Cancel() {
	if job, err := j.h.enter(); err == nil {
		C.ckpt_job_cancel(job)
		j.h.leave()
	}
}

// JobStats are counts of a job's work. Times are to the microsecond.
type JobStats struct {
	State                                       JobState
	BytesTotal, BytesDone                       uint64 // of work; the total is 0 until the work is planned
	BytesRead, BytesWritten                     uint64 // from and to the store, whole I/O requests
	BytesRequested                              uint64 // load: what the requests cover
	ChunkCount                                  uint64 // chunks encoded or decoded
	RunCount                                    uint64 // load: contiguous runs in storage that the requests touch
	IOCount                                     uint64 // I/O requests made
	StagingPeakBytes                            uint64
	StageTime, WriteTime, CommitTime, TotalTime time.Duration // save: until staged, until written, until committed
	ArenaTime                                   time.Duration // save: of StageTime, making the staging memory
	DirectIO                                    bool          // the page cache was bypassed
	Threads                                     uint32
	IOEngine                                    IOEngine
	Recycled                                    bool // save: the part was written into a retired file
}

// IOEngine is what kept a job's transfers in flight.
type IOEngine uint32

// The I/O engines.
const (
	IOBlocking IOEngine = C.CKPT_IO_BLOCKING
	IOThreads  IOEngine = C.CKPT_IO_THREADS
	IOURing    IOEngine = C.CKPT_IO_URING
)

// Stats may be asked for at any time while the job is open.
func (j *Job) Stats() (JobStats, error) {
	job, err := j.h.enter()
	if err != nil {
		return JobStats{}, err
	}
	defer j.h.leave()
	s := C.ckpt_job_stats{struct_size: C.sizeof_ckpt_job_stats}
	var cerr *C.ckpt_error
	if status := C.ckpt_job_stats_get(job, &s, &cerr); status != C.CKPT_OK {
		return JobStats{}, fail(status, cerr)
	}
	us := func(count C.uint64_t) time.Duration { return time.Duration(count) * time.Microsecond }
	return JobStats{
		State: JobState(s.state), BytesTotal: uint64(s.bytes_total), BytesDone: uint64(s.bytes_done),
		BytesRead: uint64(s.bytes_read), BytesWritten: uint64(s.bytes_written),
		BytesRequested: uint64(s.bytes_requested), ChunkCount: uint64(s.chunk_count), RunCount: uint64(s.run_count),
		IOCount: uint64(s.io_count), StagingPeakBytes: uint64(s.staging_peak_bytes), StageTime: us(s.stage_us),
		WriteTime: us(s.write_us), CommitTime: us(s.commit_us), TotalTime: us(s.total_us), ArenaTime: us(s.arena_us),
		DirectIO: s.direct_io != 0, Threads: uint32(s.threads), IOEngine: IOEngine(s.io_engine),
		Recycled: s.recycled != 0,
	}, nil
}

// Report gives the findings of a verify job that has ended. Errors: ErrInvalid (it has not), ErrUnsupported (another
// job).
func (j *Job) Report() (Report, error) {
	job, err := j.h.enter()
	if err != nil {
		return Report{}, err
	}
	defer j.h.leave()
	var out *C.ckpt_report
	var cerr *C.ckpt_error
	status := C.ckpt_job_report(job, &out, &cerr)
	return takeReport(out, fail(status, cerr))
}

// Close cancels what still runs and returns when the engine no longer touches the caller's memory. Wait for the end
// first, or the save is lost. The error is always nil.
func (j *Job) Close() error {
	if j.progress == nil {
		return nil
	}
	j.Cancel()
	<-j.ended
	j.h.endAndWait()
	return nil
}

// runJob is Run by way of Start.
func runJob(job *Job, err error) error {
	if err != nil {
		return err
	}
	defer job.Close()
	return job.Wait(context.Background(), JobFailed)
}
