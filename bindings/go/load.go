package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"context"
	"unsafe"
)

// Load is many requests that are planned and read together: make it, add, then Run or Start it once, Close it.
type Load struct {
	h      owned[*C.ckpt_load]
	memory *memory
}

// NewLoad begins a load. Options: verify, strict, object_policy, threads, staging_bytes.
func NewLoad(reader *Reader, options Options) (*Load, error) {
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

// AddTensor asks for a region of a tensor or alias in `data`; resharding is asking for another box than was saved. The
// shape must be the tensor's and the dtype its dtype (or Convert set): ErrMismatch. A name that the checkpoint lacks is
// reported by Run, by option strict. A stride of 0 is ErrInvalid; where other strides make elements of the memory
// overlap, which one stays is undefined. `data` is pinned and is the engine's from Run or Start until the end. Where it
// is the memory of Go bools, that only 0 and 1 come into it is the caller's affair, since no load checks it.
func (l *Load) AddTensor(name string, tensor Tensor, data []byte) error {
	return l.AddMemory(name, tensor, unsafe.Pointer(unsafe.SliceData(data)), uint64(len(data)), CPU, 0)
}

// AddMemory is AddTensor for memory that is not a Go slice: from C, mapped, of a device. It must live until the load
// has ended. Errors: as AddTensor, and ErrUnsupported (the device).
func (l *Load) AddMemory(name string, tensor Tensor, data unsafe.Pointer, bytes uint64, device DeviceType,
	deviceID int32) error {
	load, err := l.h.enterAlone()
	if err != nil {
		return err
	}
	defer l.h.leaveAlone()
	var in arguments
	text := in.text(name)
	desc, err := tensor.desc(name)
	if in.err != nil || err != nil {
		return firstOf(in.err, err)
	}
	l.memory.keep(data)
	var cerr *C.ckpt_error
	status := C.ckpt_go_load_add_tensor(load, text, desc, (*C.uint8_t)(data), C.uint64_t(bytes), C.int32_t(device),
		C.int32_t(deviceID), &cerr)
	return fail(status, cerr)
}

// AddObject asks for the shared object `name` or `rank`'s own; [Reader.Object] tells its size. Where `rank` has none
// because the world was another size, option object_policy decides: "error" (ErrNotFound) or "rank0" (its bytes).
// `data` is pinned like a tensor's.
func (l *Load) AddObject(name string, rank uint32, data []byte) error {
	load, err := l.h.enterAlone()
	if err != nil {
		return err
	}
	defer l.h.leaveAlone()
	var in arguments
	text := in.text(name)
	if in.err != nil {
		return in.err
	}
	pointer := unsafe.Pointer(unsafe.SliceData(data))
	l.memory.keep(pointer)
	var cerr *C.ckpt_error
	status := C.ckpt_go_load_add_object(load, text, C.uint32_t(rank), (*C.uint8_t)(pointer), C.uint64_t(len(data)), &cerr)
	return fail(status, cerr)
}

// Run reads all that was asked for. nil proves that every requested byte was written and (verify=1) checked. All
// structural errors (ErrNotFound, ErrMismatch, ErrIncomplete, …) come before the first byte of memory changes; after
// ErrCorrupt, ErrIO, ErrGone and ErrCancelled the memory's content is undefined. A cancelled context cancels the load:
// the error is then ErrCancelled and the context's own. A load whose context was done before is not begun. After Run
// the memory is the caller's again.
func (l *Load) Run(ctx context.Context) error {
	if ctx.Done() != nil {
		if _, err := l.h.hold(); err != nil { // until the job has ended: Close waits for it
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
		return fail(status, cerr) // pinned until Close: what had not begun may be run again
	}
	l.memory.release()
	return nil
}

// Start loads in the background. The memory is the caller's again when the job has ended. A cancelled context cancels
// the job; one that is done already is ErrCancelled here. The Load may be closed at once.
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
	return newJob(ctx, out, l.memory.take()), nil
}

// Report gives names that were asked for and are missing, and names that were not asked for, whatever `strict` is.
func (l *Load) Report() (Report, error) {
	load, err := l.h.enter()
	if err != nil {
		return Report{}, err
	}
	defer l.h.leave()
	var out *C.ckpt_report
	var cerr *C.ckpt_error
	status := C.ckpt_load_report(load, &out, &cerr)
	return takeReport(out, fail(status, cerr))
}

// Close ends the handle and returns when no call is inside any more: it waits for a Run, until that is done or its
// context is. A load that was started goes on; its job decides when the memory is the caller's. The error is always
// nil.
func (l *Load) Close() error {
	l.h.endAndWait()
	return nil
}
