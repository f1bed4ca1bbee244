package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"context"
	"unsafe"
)

// Save is one rank's share of one checkpoint: make it, add to it, Run or Start it once, Close it. Every rank of the
// session does the same for the same label.
type Save struct {
	h      owned[*C.ckpt_save]
	memory *memory
	id     string
	label  string
	alone  bool   // no other rank waits for this one
	saves  *saves // the session's
}

// NewSave makes a save. `label` is 1-200 of [A-Za-z0-9._=+-] without a leading dot; `step` is any number >= 0, or -1
// for none. All ranks pass the same. Options: those used by save. Errors: ErrInvalid, ErrMismatch, and that of an
// earlier save of the session that failed in the background and of which nobody was told; the other ranks' saves then
// end with ErrAborted.
func NewSave(session *Session, label string, step int64, options Options) (*Save, error) {
	if session == nil {
		return nil, nilError("session")
	}
	return withOptions(&session.h, options, func(from *C.ckpt_session, bag *C.ckpt_options, in cTexts) (*Save, error) {
		var out *C.ckpt_save
		var cerr *C.ckpt_error
		if status := C.ckpt_save_new(&out, from, in[0], C.int64_t(step), bag, &cerr); status != C.CKPT_OK {
			return nil, fail(status, cerr)
		}
		return session.begun(out, label)
	}, label)
}

// begun takes over a save of the session.
func (s *Session) begun(save *C.ckpt_save, label string) (*Save, error) {
	pinned := newMemory()
	made := &Save{
		memory: pinned, id: C.GoString(C.ckpt_save_id(save)), label: label, alone: s.world == 1, saves: s.saves,
	}
	own(made, &made.h, newHandle("save", save, func(p *C.ckpt_save) {
		C.ckpt_save_free(p)
		pinned.release()
	}))
	if earlier := s.saves.failure(); earlier != nil {
		made.GiveUp(earlier.Error())
		made.Close()
		return nil, earlier
	}
	return made, nil
}

// ID returns the id that the checkpoint will have once it is committed.
func (s *Save) ID() string { return s.id }

// AddTensor adds this rank's region of tensor `name` (1-4096 bytes of UTF-8 without control characters, no ".." path
// element). `data` is pinned, not copied; do not change it from Run or Start until the save is staged. Use [AddSlice]
// for slices of other types. Errors: ErrInvalid (also for a region that reaches past `data`), ErrExists (the name was
// added before).
func (s *Save) AddTensor(name string, tensor Tensor, data []byte) error {
	return s.AddMemory(name, tensor, unsafe.Pointer(unsafe.SliceData(data)), uint64(len(data)), CPU, 0)
}

// AddMemory is AddTensor for memory that is not a Go slice: from C, of a mapped file, on a device. The memory must live
// until the save is staged. Errors: those of AddTensor, and ErrUnsupported (the device).
func (s *Save) AddMemory(name string, tensor Tensor, data unsafe.Pointer, bytes uint64, device DeviceType,
	deviceID int32) error {
	desc, err := tensor.desc(name)
	if err != nil {
		return err
	}
	return changing(&s.h, func(save *C.ckpt_save, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		s.memory.keep(data)
		return C.ckpt_go_save_add_tensor(save, in[0], desc, (*C.uint8_t)(data), C.uint64_t(bytes), C.int32_t(device),
			C.int32_t(deviceID), cerr)
	}, name)
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// ObjectScope says whether an object belongs to all ranks or to one.
type ObjectScope int32

// AddObject adds named bytes, such as "application/json" trainer state or a data loader's position, and copies them at
// once. The mediaType may be "". Errors: ErrInvalid, ErrExists.
func (s *Save) AddObject(name, mediaType string, scope ObjectScope, data []byte) error {
	return changing(&s.h, func(save *C.ckpt_save, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		from, size := (*C.uint8_t)(unsafe.SliceData(data)), C.uint64_t(len(data))
		return C.ckpt_go_save_add_object(save, in[0], in[1], C.int32_t(scope), from, size, cerr)
	}, name, mediaType)
}

// AddAlias adds a second name for the whole of tensor `target` (tied weights). Any ranks may add it.
// Errors: ErrInvalid, ErrExists.
func (s *Save) AddAlias(name, target string) error { return s.alias(name, target, nil) }

// AddAliasView adds a name for a view of tensor `target`: Shape, Strides and FlatOffset describe the view in elements
// of the flattened target. Ranks that add it must agree. Errors: ErrInvalid, ErrExists.
func (s *Save) AddAliasView(name, target string, view Tensor) error {
	return s.alias(name, target, &view)
}

func (s *Save) alias(name, target string, view *Tensor) error {
	var desc *C.ckpt_tensor_desc
	if view != nil {
		var err error
		if desc, err = view.desc(name); err != nil {
			return err
		}
	}
	return changing(&s.h, func(save *C.ckpt_save, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_save_add_alias(save, in[0], in[1], desc, cerr)
	}, name, target)
}

// AddTree adds this rank's tree under `name`; "" is the main tree. The checkpoint's tree is that of all ranks together;
// what several ranks have at one place must be equal (ErrMismatch), and what is each rank's own is a [PerRankValue].
// Add its tensors with AddTensor.
func (s *Save) AddTree(name string, tree *Tree) error {
	if tree == nil {
		return nilError("tree")
	}
	from, err := tree.h.enter()
	if err != nil {
		return err
	}
	defer tree.h.leave()
	return changing(&s.h, func(save *C.ckpt_save, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_save_add_tree(save, in.orNull(0), from, cerr)
	}, name)
}

// SetAttr sets an attribute of the checkpoint; only rank 0's are written. The key is 1-255 bytes, the value UTF-8 up to
// 1 MiB. Setting a key again replaces its value.
func (s *Save) SetAttr(key, value string) error { return s.setAttr("", key, value) }

// SetTensorAttr sets an attribute of a tensor that this rank adds.
func (s *Save) SetTensorAttr(tensor, key, value string) error {
	if tensor == "" {
		return invalid("", "a tensor's name is empty")
	}
	return s.setAttr(tensor, key, value)
}

func (s *Save) setAttr(tensor, key, value string) error {
	return changing(&s.h, func(save *C.ckpt_save, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_save_set_attr(save, in.orNull(0), in[1], in[2], cerr)
	}, tensor, key, value)
}

// Run saves, and returns when the outcome is known (with wait=0 on ranks other than 0: when this rank's part is
// durable). On rank 0 nil means that the checkpoint is durable, complete and committed; on other ranks that it is
// committed. When Run returns, with an error or without, the memory is the caller's again.
//
// Cancelling the context gives up the save on all ranks. The error is then ErrCancelled, or ErrAborted if another
// cancelled rank came first, and in both cases also the context's error. If the commit came before the cancellation,
// Run returns nil. If the context is done already, a save of one rank does not begin; a save of several ranks begins
// and is cancelled at once, which tells the other ranks.
//
// Errors: ErrExists (on_existing=error), ErrNotFound (an attribute's tensor), ErrMismatch, ErrIncomplete, ErrFenced,
// ErrAborted, ErrTimeout, ErrCancelled, ErrCommitUnknown, ErrConflict, ErrIO, ErrNoSpace. After any of them but
// ErrCommitUnknown nothing was committed.
func (s *Save) Run(ctx context.Context) error {
	if ctx.Done() != nil {
		if _, err := s.h.hold(); err != nil { // until the job has ended, so that Close waits for it
			return err
		}
		defer s.h.drop()
		return runJob(s.StartInPlace(ctx))
	}
	save, err := s.h.enterAlone()
	if err != nil {
		return err
	}
	defer s.h.leaveAlone()
	var cerr *C.ckpt_error
	if status := C.ckpt_save_run(save, &cerr); status != C.CKPT_OK {
		return fail(status, cerr) // pinned until Close: a save that did not begin may be run again
	}
	s.memory.release()
	warnOfAnew(reportOfSave(save))
	return nil
}

// GiveUp is for a rank that cannot save, instead of Run or Start: the other ranks' saves end at once with ErrAborted
// and the reason. Errors: ErrInvalid once the save has been run or started.
func (s *Save) GiveUp(reason string) error {
	return changing(&s.h, func(save *C.ckpt_save, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_save_give_up(save, in[0], cerr)
	}, reason)
}

// Start saves in the background and returns when the save is staged: the memory may change again. The save belongs to
// the session, so the Job may be dropped, and the Save may be closed at once. A failure, also before it was staged,
// is that of the Job's Wait; if nobody waits, that of the session's next NewSave or of its Close. Cancelling the
// context cancels the job until it has ended; for a context that is done already see Run.
func (s *Save) Start(ctx context.Context) (*Job, error) {
	job, err := s.start(ctx, func(save *C.ckpt_save, out **C.ckpt_job, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_save_start(save, out, cerr)
	})
	if err == nil {
		<-job.staged
	}
	return job, err
}

// StartInPlace is Start without a copy, and returns at once: like Run, it writes straight from the caller's memory,
// which must not change until the job is JobStaged: once all data has been written.
func (s *Save) StartInPlace(ctx context.Context) (*Job, error) {
	return s.start(ctx, func(save *C.ckpt_save, out **C.ckpt_job, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_save_start_in_place(save, out, cerr)
	})
}

func (s *Save) start(ctx context.Context,
	call func(save *C.ckpt_save, out **C.ckpt_job, cerr **C.ckpt_error) C.ckpt_status) (*Job, error) {
	save, err := s.h.enterAlone()
	if err != nil {
		return nil, err
	}
	defer s.h.leaveAlone()
	if err := beforehand(ctx, "save"); err != nil && s.alone {
		return nil, err
	}
	var out *C.ckpt_job
	var cerr *C.ckpt_error
	if status := call(save, &out, &cerr); status != C.CKPT_OK {
		return nil, fail(status, cerr)
	}
	kept := &keptSave{label: s.label}
	made := newJob(ctx, out, s.memory.take(), kept)
	s.saves.add(kept)
	return made, nil
}

// Report tells, once the save has ended, what retention did after it on rank 0: what it removed, and what it could not
// remove and why; before that FindingAnew, of which slog has warned too, if the save does not go on from what its run
// has. It is empty on other ranks. Errors: ErrInvalid before the end.
func (s *Save) Report() (Report, error) {
	save, err := s.h.enter()
	if err != nil {
		return Report{}, err
	}
	defer s.h.leave()
	return reportOfSave(save)
}

func reportOfSave(save *C.ckpt_save) (Report, error) {
	var out *C.ckpt_report
	var cerr *C.ckpt_error
	status := C.ckpt_save_report(save, &out, &cerr)
	return takeReport(out, fail(status, cerr))
}

// Close releases the save. It waits until no other call uses the save, so also for a Run, which ends when it is done or
// its context is. A save that was started goes on; its Job says when the memory is the caller's again. Close always
// returns nil.
func (s *Save) Close() error {
	s.h.endAndWait()
	return nil
}
