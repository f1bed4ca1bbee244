package ckpt

// #include "ckpt_go.h"
import "C"

import "context"

// withContext makes a call that blocks, under a job of its own that the context cancels. `bag` may be nil; the call
// gets it with the job, or one with the job alone.
func withContext[R any](ctx context.Context, bag *C.ckpt_options,
	call func(bag *C.ckpt_options) (R, error)) (R, error) {
	if ctx.Done() == nil {
		return call(bag)
	}
	var none R
	var job *C.ckpt_job
	var cerr *C.ckpt_error
	if status := C.ckpt_job_new(&job, &cerr); status != C.CKPT_OK {
		return none, fail(status, cerr)
	}
	defer C.ckpt_job_free(job)
	if bag == nil {
		if status := C.ckpt_options_new(&bag, &cerr); status != C.CKPT_OK {
			return none, fail(status, cerr)
		}
		defer C.ckpt_options_free(bag)
	}
	if status := C.ckpt_options_set_job(bag, job, &cerr); status != C.CKPT_OK {
		return none, fail(status, cerr)
	}
	if ctx.Err() != nil { // the function below would come too late
		C.ckpt_job_cancel(job)
	}
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		C.ckpt_job_cancel(job)
		close(cancelled)
	})
	made, err := call(bag)
	if !stop() { // it uses the job now, or has used it
		<-cancelled
	}
	if err != nil {
		blame(reasonsOf(ctx), err)
	}
	return made, err
}
