package ckpt

// #include "ckpt_go.h"
import "C"

import "context"

// cTexts are the texts of a call as C takes them.
type cTexts []*C.char

// orNull returns NULL for empty text.
func (t cTexts) orNull(index int) *C.char {
	if *t[index] == 0 {
		return nil
	}
	return t[index]
}

func (a *arguments) texts(values []string) cTexts {
	var converted cTexts
	for _, value := range values {
		converted = append(converted, a.text(value))
	}
	return converted
}

// entered makes a call that shares the object of `h`, with texts converted for C.
func entered[P comparable, R any](h *owned[P], texts []string,
	call func(object P, in *arguments, text cTexts) (R, error)) (R, error) {
	var none R
	object, err := h.enter()
	if err != nil {
		return none, err
	}
	defer h.leave()
	var in arguments
	defer in.free()
	converted := in.texts(texts)
	if in.err != nil {
		return none, in.err
	}
	return call(object, &in, converted)
}

// sharing makes a call that shares the object of `h`, and returns what it found.
func sharing[P comparable, R any](h *owned[P],
	call func(object P, in cTexts, cerr **C.ckpt_error) (R, C.ckpt_status), texts ...string) (R, error) {
	return entered(h, texts, func(object P, _ *arguments, converted cTexts) (R, error) {
		var none R
		var cerr *C.ckpt_error
		found, status := call(object, converted, &cerr)
		if status != C.CKPT_OK {
			return none, fail(status, cerr)
		}
		return found, nil
	})
}

// changing makes a call that needs the object of `h` for itself.
func changing[P comparable](h *owned[P], call func(object P, in cTexts, cerr **C.ckpt_error) C.ckpt_status,
	texts ...string) error {
	object, err := h.enterAlone()
	if err != nil {
		return err
	}
	defer h.leaveAlone()
	var in arguments
	converted := in.texts(texts)
	if in.err != nil {
		return in.err
	}
	var cerr *C.ckpt_error
	status := call(object, converted, &cerr)
	return fail(status, cerr)
}

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
