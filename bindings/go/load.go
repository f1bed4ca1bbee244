package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"context"
	"unsafe"
)

// Load is many requests that are planned and read together: make it, add to it, Run or Start it once, Close it.
type Load struct {
	h      owned[*C.ckpt_load]
	memory *memory
}

// NewLoad makes a load. Options: those used by load.
func NewLoad(reader *Reader, options Options) (*Load, error) {
	if reader == nil {
		return nil, nilError("reader")
	}
	return withOptions(&reader.h, options, func(from *C.ckpt_reader, bag *C.ckpt_options, _ cTexts) (*Load, error) {
		var out *C.ckpt_load
		var cerr *C.ckpt_error
		if status := C.ckpt_load_new(&out, from, bag, &cerr); status != C.CKPT_OK {
			return nil, fail(status, cerr)
		}
		pinned := newMemory()
		made := &Load{memory: pinned}
		own(made, &made.h, newHandle("load", out, func(p *C.ckpt_load) {
			C.ckpt_load_free(p)
			pinned.release()
		}))
		return made, nil
	})
}

// AddTensor asks for a region of a tensor or alias, to be read into `data`. It may be another region than was saved:
// that is all there is to resharding. The shape must be the tensor's shape and the dtype its dtype (or Convert set):
// ErrMismatch. Option strict says what Run does about a name that the checkpoint lacks. A stride of 0 is ErrInvalid
// here; memory that overlaps itself or that of another request, unless the same bytes come to it, when the load runs.
// `data` is pinned; do not touch it from Run or Start until the load has ended. If it is the memory of Go bools, the
// caller must make sure that the tensor holds only 0 and 1: no load checks that.
func (l *Load) AddTensor(name string, tensor Tensor, data []byte) error {
	return l.AddMemory(name, tensor, unsafe.Pointer(unsafe.SliceData(data)), uint64(len(data)), CPU, 0)
}

// AddMemory is AddTensor for memory that is not a Go slice: from C, of a mapped file, on a device. The memory must live
// until the load has ended. Errors: those of AddTensor, and ErrUnsupported (the device).
func (l *Load) AddMemory(name string, tensor Tensor, data unsafe.Pointer, bytes uint64, device DeviceType,
	deviceID int32) error {
	desc, err := tensor.desc(name)
	if err != nil {
		return err
	}
	return changing(&l.h, func(load *C.ckpt_load, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		l.memory.keep(data)
		return C.ckpt_go_load_add_tensor(load, in[0], desc, (*C.uint8_t)(data), C.uint64_t(bytes), C.int32_t(device),
			C.int32_t(deviceID), cerr)
	}, name)
}

// AddObject asks for the shared object `name`, or for `rank`'s own; [Reader.Object] tells its size. If `rank` has none
// because the world had another size, option object_policy decides: "error" (ErrNotFound) or "rank0" (rank 0's bytes).
// `data` is pinned like a tensor's.
func (l *Load) AddObject(name string, rank uint32, data []byte) error {
	return changing(&l.h, func(load *C.ckpt_load, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		to := (*C.uint8_t)(unsafe.SliceData(data))
		l.memory.keep(unsafe.Pointer(to))
		return C.ckpt_go_load_add_object(load, in[0], C.uint32_t(rank), to, C.uint64_t(len(data)), cerr)
	}, name)
}

// Run reads everything that was asked for. nil proves that every requested byte was written and (verify=1) checked. All
// structural errors (ErrNotFound, ErrMismatch, ErrIncomplete, …) come before the first byte of memory changes; after
// ErrCorrupt, ErrIO, ErrGone and ErrCancelled the content of the memory is undefined. Cancelling the context cancels
// the load: the error is then ErrCancelled and the context's. If the context is done already, the load does not begin.
// When Run returns, the memory is the caller's again.
func (l *Load) Run(ctx context.Context) error {
	if ctx.Done() != nil {
		if _, err := l.h.hold(); err != nil { // until the job has ended, so that Close waits for it
			return err
		}
		defer l.h.drop()
		return runJob(l.Start(ctx))
	}
	load, err := l.h.enterAlone()
	if err != nil {
		return err
	}
	defer l.h.leaveAlone()
	var cerr *C.ckpt_error
	if status := C.ckpt_load_run(load, &cerr); status != C.CKPT_OK {
		return fail(status, cerr) // pinned until Close: a load that did not begin may be run again
	}
	l.memory.release()
	return nil
}

// Start loads in the background. The memory is the caller's again when the job has ended. Cancelling the context
// cancels the job; if it is done already, Start returns ErrCancelled. The Load may be closed at once.
func (l *Load) Start(ctx context.Context) (*Job, error) {
	load, err := l.h.enterAlone()
	if err != nil {
		return nil, err
	}
	defer l.h.leaveAlone()
	if err := beforehand(ctx, "load"); err != nil {
		return nil, err
	}
	var out *C.ckpt_job
	var cerr *C.ckpt_error
	if status := C.ckpt_load_start(load, &out, &cerr); status != C.CKPT_OK {
		return nil, fail(status, cerr)
	}
	return newJob(ctx, out, l.memory.take(), nil), nil
}

// Report lists the names that were asked for and are missing, and those not asked for, whatever `strict` is.
func (l *Load) Report() (Report, error) {
	return takeReport(sharing(&l.h, func(load *C.ckpt_load, _ cTexts, cerr **C.ckpt_error) (*C.ckpt_report,
		C.ckpt_status) {
		var out *C.ckpt_report
		status := C.ckpt_load_report(load, &out, cerr)
		return out, status
	}))
}

// Close releases the load. It waits until no other call uses the load, so also for a Run, which ends when it is done or
// its context is. A load that was started goes on; its Job says when the memory is the caller's again. Close always
// returns nil.
func (l *Load) Close() error {
	l.h.endAndWait()
	return nil
}
