package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"context"
	"errors"
	"sync/atomic"
)

// JobState says how far a job is. A job only moves to higher states; JobCommitted and those above it are final.
type JobState int32

// Job is work in the background. One that becomes unreachable without Close runs until it ends or its context does. A
// save belongs to its session, whatever becomes of its Job.
type Job struct {
	h    owned[*C.ckpt_job]
	save *keptSave // nil for other work
	*progress
}

// progress is what a job's watcher reports. It is not part of the Job, so that the Job can be collected meanwhile.
type progress struct {
	ctx                    context.Context // cancelling it cancels the job
	staged, written, ended chan struct{}   // closed when the job gets there, or ends before
	last                   atomic.Int32    // the state at the end
	reasons                []error         // the context's errors if it was done by then; read only after ended is closed
	failed                 *Error          // nil if it ended well; the same
}

// passed is a closed channel: the moment has come.
var passed = func() chan struct{} {
	made := make(chan struct{})
	close(made)
	return made
}()

// newJob takes over the C object and the memory that its work uses. `save` is not nil for a save.
func newJob(ctx context.Context, ptr *C.ckpt_job, pinned *memory, save *keptSave) *Job {
	h := newHandle("job", ptr, func(p *C.ckpt_job) { C.ckpt_job_free(p) })
	p := &progress{
		ctx: ctx, staged: make(chan struct{}), written: make(chan struct{}), ended: make(chan struct{}),
	}
	made := &Job{progress: p, save: save}
	begun, cancel := context.WithCancel(ctx)
	if save != nil {
		save.work, save.cancel = p, cancel
	}
	h.uses += 2 // for the watcher and the context, which may outlive the Job; nobody else knows the handle yet
	if ctx.Err() != nil {
		C.ckpt_job_cancel(ptr)
	}
	stop := context.AfterFunc(begun, func() {
		C.ckpt_job_cancel(ptr)
		h.drop()
	})
	go func() {
		p.watch(ptr, pinned, save != nil)
		if stop() { // otherwise the function above drops it
			h.drop()
		}
		cancel()
		h.drop()
	}()
	own(made, &made.h, h)
	return made
}

// watch follows the job to its end and gives the memory back as soon as the engine is done with it.
func (p *progress) watch(ptr *C.ckpt_job, pinned *memory, ofSave bool) {
	C.ckpt_job_wait(ptr, C.CKPT_JOB_STAGED, -1, nil) // a load is never staged: this waits for its end
	pinned.release()
	close(p.staged)
	C.ckpt_job_wait(ptr, C.CKPT_JOB_WRITTEN, -1, nil)
	close(p.written)
	C.ckpt_job_wait(ptr, C.CKPT_JOB_FAILED, -1, nil) // above COMMITTED and DONE: this returns at any end
	p.last.Store(int32(C.ckpt_job_state(ptr)))
	p.reasons = reasonsOf(p.ctx)
	var cerr *C.ckpt_error
	status := C.ckpt_job_wait(ptr, C.CKPT_JOB_COMMITTED, 0, &cerr)
	errors.As(fail(status, cerr), &p.failed)
	if ofSave && p.failed == nil {
		warnOfAnew(reportOf(ptr))
	}
	close(p.ended)
}

// State says how far the job is; of a closed job, how it ended.
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

// Staged is closed when the memory is the caller's again: when a save is staged, when a load has ended, or when the job
// failed before that.
func (j *Job) Staged() <-chan struct{} { return j.channel(JobStaged) }

// Done is closed when the job has ended, well or not; Wait then returns the outcome at once.
func (j *Job) Done() <-chan struct{} { return j.channel(JobFailed) }

func (j *Job) channel(state JobState) <-chan struct{} {
	if j.progress == nil { // the zero Job counts as closed
		return passed
	}
	return j.reached(state)
}

// Wait waits until the job's state is at least `state` or final. It returns nil if the state was reached, and otherwise
// the error of the job that failed or was cancelled. If `ctx` ends first, the job goes on, and the error is ErrTimeout
// and the context's. (Only the context given to Start cancels the job: see [Save.Run].)
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
		if status != C.CKPT_TIMEOUT || ended { // ended: TIMEOUT is then the save's own, for ranks that did not come
			if over(job) {
				<-j.ended
				blame(j.reasons, err)
				j.tell(err)
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

// tell notes that the caller learns the failure of a save, or wants it.
func (j *Job) tell(err error) {
	if j.save != nil && err != nil {
		j.save.told.Store(true)
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

// Cancel asks the job to stop, and returns at once; it may be called more than once. A save that is not committed yet
// will not be.
func (j *Job) Cancel() {
	if job, err := j.h.enter(); err == nil {
		j.tell(Status(C.CKPT_CANCELLED))
		C.ckpt_job_cancel(job)
		j.h.leave()
	}
}

// IOEngine says what kept a job's transfers in flight.
type IOEngine uint32

// Stats returns the counts so far.
func (j *Job) Stats() (JobStats, error) {
	return sharing(&j.h, func(job *C.ckpt_job, _ cTexts, cerr **C.ckpt_error) (JobStats, C.ckpt_status) {
		s := C.ckpt_job_stats{struct_size: C.sizeof_ckpt_job_stats}
		status := C.ckpt_job_stats_get(job, &s, cerr)
		return makeJobStats(&s), status
	})
}

// Report returns what a verify job found, or what retention did after a save on rank 0. Errors: ErrInvalid (the job has
// not ended), ErrUnsupported (a load).
func (j *Job) Report() (Report, error) {
	job, err := j.h.enter()
	if err != nil {
		return Report{}, err
	}
	defer j.h.leave()
	return reportOf(job)
}

func reportOf(job *C.ckpt_job) (Report, error) {
	var out *C.ckpt_report
	var cerr *C.ckpt_error
	status := C.ckpt_job_report(job, &out, &cerr)
	return takeReport(out, fail(status, cerr))
}

// Close returns when the engine no longer touches the caller's memory: when a save is staged; it goes on and belongs to
// its session. A load or verification that still runs is cancelled. Close always returns nil.
func (j *Job) Close() error {
	if j.progress == nil {
		return nil
	}
	if j.save != nil {
		<-j.staged
		select {
		case <-j.ended:
			j.h.endAndWait()
		default:
			j.h.end()
		}
		return nil
	}
	j.Cancel()
	<-j.ended
	j.h.endAndWait()
	return nil
}

// runJob makes a Run of a Start.
func runJob(job *Job, err error) error {
	if err != nil {
		return err
	}
	defer job.Close()
	return job.Wait(context.Background(), JobFailed)
}
