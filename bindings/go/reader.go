package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"context"
	"iter"
	"unsafe"
)

// Reader is an immutable view of one committed checkpoint. While it is open, nothing removes the checkpoint.
type Reader struct{ h owned[*C.ckpt_reader] }

// OpenReader opens the checkpoint that `selector` names, as in [Store.Find]. It reads and checks the manifest, no
// tensor data. [Reader.Report] says which newer checkpoints were passed over. Options: those used by reader. Errors:
// ErrNotFound, ErrIncomplete, ErrCorrupt, ErrFormat, ErrRevision, ErrAborted, ErrGone, ErrIO.
func OpenReader(store *Store, selector string, options Options) (*Reader, error) {
	if store == nil {
		return nil, nilError("store")
	}
	return withOptions(&store.h, options, func(from *C.ckpt_store, bag *C.ckpt_options, in cTexts) (*Reader, error) {
		var out *C.ckpt_reader
		var cerr *C.ckpt_error
		if status := C.ckpt_reader_open(&out, from, in[0], bag, &cerr); status != C.CKPT_OK {
			return nil, fail(status, cerr)
		}
		made := &Reader{}
		own(made, &made.h, newHandle("reader", out, func(p *C.ckpt_reader) { C.ckpt_reader_free(p) }))
		return made, nil
	}, selector)
}

// Close releases the reader and always returns nil. An open [MappedTensor] keeps the checkpoint open.
func (r *Reader) Close() error {
	r.h.end()
	return nil
}

// Info describes the checkpoint.
func (r *Reader) Info() (CheckpointInfo, error) {
	return sharing(&r.h, func(reader *C.ckpt_reader, _ cTexts, cerr **C.ckpt_error) (CheckpointInfo, C.ckpt_status) {
		info := C.ckpt_checkpoint_info{struct_size: C.sizeof_ckpt_checkpoint_info}
		status := C.ckpt_reader_info(reader, &info, cerr)
		return makeCheckpointInfo(&info), status
	})
}

// Report has a finding FindingPassedOver for each newer checkpoint of the run that cannot be loaded, newest first, with
// its status: the progress that a trainer loses by going on from this one. It is empty for a checkpoint that was named
// by its ID.
func (r *Reader) Report() (Report, error) {
	return takeReport(sharing(&r.h, func(reader *C.ckpt_reader, _ cTexts, cerr **C.ckpt_error) (*C.ckpt_report,
		C.ckpt_status) {
		var out *C.ckpt_report
		status := C.ckpt_reader_report(reader, &out, cerr)
		return out, status
	}))
}

// Attr is an attribute of a checkpoint or a tensor.
type Attr struct{ Key, Value string }

// Attrs yields the attributes of the checkpoint in the order of their keys.
func (r *Reader) Attrs() iter.Seq2[Attr, error] { return r.attrs("") }

// TensorAttrs yields the attributes of a tensor in the order of their keys; none if there is no such tensor.
func (r *Reader) TensorAttrs(tensor string) iter.Seq2[Attr, error] {
	if tensor == "" {
		return func(yield func(Attr, error) bool) { yield(Attr{}, invalid("", "a tensor's name is empty")) }
	}
	return r.attrs(tensor)
}

func (r *Reader) attrs(tensor string) iter.Seq2[Attr, error] {
	return each(r, func(reader *C.ckpt_reader) uint64 {
		var in arguments
		of := in.optional(tensor)
		if in.err != nil {
			return 0
		}
		return uint64(C.ckpt_reader_attr_count(reader, of))
	}, func(reader *C.ckpt_reader, index C.uint64_t, cerr **C.ckpt_error) (Attr, C.ckpt_status) {
		var in arguments
		var key, value *C.char
		status := C.ckpt_reader_attr_at(reader, in.optional(tensor), index, &key, &value, cerr)
		return Attr{C.GoString(key), C.GoString(value)}, status
	})
}

// each makes an iterator from a reader's count and at functions. It holds the reader for one step at a time, so the
// loop may close the reader: then the next step is an error.
func each[T any](r *Reader, count func(*C.ckpt_reader) uint64,
	at func(*C.ckpt_reader, C.uint64_t, **C.ckpt_error) (T, C.ckpt_status)) iter.Seq2[T, error] {
	step := func(index uint64) (value T, more bool, err error) {
		more = true
		value, err = sharing(&r.h, func(reader *C.ckpt_reader, _ cTexts, cerr **C.ckpt_error) (T, C.ckpt_status) {
			if more = index < count(reader); !more {
				return value, C.CKPT_OK
			}
			return at(reader, C.uint64_t(index), cerr)
		})
		return value, more, err
	}
	return func(yield func(T, error) bool) {
		for index := uint64(0); ; index++ {
			value, more, err := step(index)
			if !more || !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// Attr returns one attribute of the checkpoint, and whether it exists.
func (r *Reader) Attr(key string) (string, bool, error) { return r.attr("", key) }

// TensorAttr returns one attribute of a tensor, and whether it exists.
func (r *Reader) TensorAttr(tensor, key string) (string, bool, error) {
	if tensor == "" {
		return "", false, invalid("", "a tensor's name is empty")
	}
	return r.attr(tensor, key)
}

func (r *Reader) attr(tensor, key string) (string, bool, error) {
	known := false
	text, err := sharing(&r.h, func(reader *C.ckpt_reader, in cTexts, _ **C.ckpt_error) (string, C.ckpt_status) {
		value := C.ckpt_reader_attr(reader, in.orNull(0), in[1])
		known = value != nil
		return C.GoString(value), C.CKPT_OK
	}, tensor, key)
	return text, known, err
}

// ReadObject loads the shared object `name`, or `rank`'s own, into a new slice. Errors: ErrNotFound, and those of
// Load.Run.
func (r *Reader) ReadObject(ctx context.Context, name string, rank uint32) ([]byte, error) {
	info, err := r.Object(name, rank)
	if err != nil {
		return nil, err
	}
	load, err := NewLoad(r, nil)
	if err != nil {
		return nil, err
	}
	defer load.Close()
	data := make([]byte, info.Size)
	if err := load.AddObject(name, rank, data); err != nil {
		return nil, err
	}
	if err := load.Run(ctx); err != nil {
		return nil, err
	}
	return data, nil
}

// Map returns a view of a whole tensor without a copy. It verifies the checksums first unless verify=0. A mapped file
// on a failing disk can end the process with SIGBUS; a Load cannot. Nor is a store mapped where locks are not seen by
// other machines, unless map_unlocked=1. Options: those used by map. Errors: ErrNotFound, ErrUnsupported (the bytes are
// not stored raw and in one piece, or no lock keeps them), ErrCorrupt, ErrGone, ErrIO.
func (r *Reader) Map(tensor string, options Options) (*MappedTensor, error) {
	return withOptions(&r.h, options, func(reader *C.ckpt_reader, bag *C.ckpt_options, in cTexts) (*MappedTensor, error) {
		var data unsafe.Pointer
		var size C.uint64_t
		var cerr *C.ckpt_error
		if status := C.ckpt_reader_map(reader, in[0], bag, &data, &size, &cerr); status != C.CKPT_OK {
			return nil, fail(status, cerr)
		}
		return newMapped(r.h.handle, data, uint64(size)), nil
	}, tensor)
}

// Verify checks the checkpoint in the background: verify_mode "full" reads every byte of every part, "quick" only
// sizes, headers, trailers and indexes, "sample" every sample_n-th chunk, beginning with number sample_k. Damage does
// not end the job: it ends well, and [Job.Report] lists every damage. An empty report means a sound checkpoint.
// Cancelling the context cancels the job; if it is done already, Verify returns ErrCancelled. Options: those used by
// verify. Errors of the job: ErrIO, ErrGone, ErrCancelled.
func (r *Reader) Verify(ctx context.Context, options Options) (*Job, error) {
	return withOptions(&r.h, options, func(reader *C.ckpt_reader, bag *C.ckpt_options, _ cTexts) (*Job, error) {
		if err := beforehand(ctx, "verification"); err != nil {
			return nil, err
		}
		var out *C.ckpt_job
		var cerr *C.ckpt_error
		if status := C.ckpt_reader_verify(reader, bag, &out, &cerr); status != C.CKPT_OK {
			return nil, fail(status, cerr)
		}
		return newJob(ctx, out, newMemory(), nil), nil
	})
}

// Diff compares two checkpoints: names, dtypes, shapes, objects and attributes, then (values=1) the elements. An empty
// report means equal content. The context cancels it. Options: those used by diff. Errors: ErrCorrupt, ErrIO, ErrGone,
// ErrCancelled.
func (r *Reader) Diff(ctx context.Context, other *Reader, options Options) (Report, error) {
	if other == nil {
		return Report{}, nilError("other reader")
	}
	b, err := other.h.enter()
	if err != nil {
		return Report{}, err
	}
	defer other.h.leave()
	return withContextAndOptions(ctx, &r.h, options, func(a *C.ckpt_reader, bag *C.ckpt_options,
		_ cTexts) (Report, error) {
		var out *C.ckpt_report
		var cerr *C.ckpt_error
		status := C.ckpt_reader_diff(a, b, bag, &out, &cerr)
		return takeReport(out, fail(status, cerr))
	})
}

// Copy makes the same checkpoint in another store, byte for byte, and checks every byte on its way. An unfinished copy
// is no checkpoint; the next call goes on with it. One that is there already is fine. The report says what was there,
// and whether the copy is foreign in that store. The context cancels it. Options: those used by copy. Errors: ErrExists
// (another checkpoint has its name there), ErrCorrupt, ErrFormat, ErrIncomplete, ErrGone, ErrMismatch, ErrConflict,
// ErrAborted, ErrCommitUnknown (copy again), ErrNoSpace, ErrIO, ErrCancelled.
func (r *Reader) Copy(ctx context.Context, to *Store, options Options) (Report, error) {
	if to == nil {
		return Report{}, nilError("store")
	}
	target, err := to.h.enter()
	if err != nil {
		return Report{}, err
	}
	defer to.h.leave()
	return withContextAndOptions(ctx, &r.h, options, func(reader *C.ckpt_reader, bag *C.ckpt_options,
		_ cTexts) (Report, error) {
		var out *C.ckpt_report
		var cerr *C.ckpt_error
		status := C.ckpt_reader_copy(reader, target, bag, &out, &cerr)
		return takeReport(out, fail(status, cerr))
	})
}

// Export writes the checkpoint to `path`, which must not exist, as option format says (auto: by the ending of
// `path`): "safetensors", "pt" (its main tree, for torch.load(weights_only=True)), "hfai", "dcp", "composer", "olmo",
// "olmo-safetensors", "torchtune", "meta" or "recis". It leaves out what the format cannot hold. The context cancels
// it; then nothing is at `path`.
// Options: those used by export. Errors: ErrExists, ErrNotFound (at), ErrUnsupported (a dtype, or an object's class, in
// detail "found"), ErrMismatch, ErrFormat, ErrInvalid, ErrCorrupt, ErrCancelled, ErrIO, ErrNoSpace.
func (r *Reader) Export(ctx context.Context, path string, options Options) error {
	call := func(reader *C.ckpt_reader, bag *C.ckpt_options, in cTexts) (struct{}, error) {
		var cerr *C.ckpt_error
		status := C.ckpt_export(reader, in[0], bag, &cerr)
		return struct{}{}, fail(status, cerr)
	}
	_, err := withContextAndOptions(ctx, &r.h, options, call, path)
	return err
}

// Tree reads the tree of object `name`. "" is the main tree or, if the checkpoint has none, a dict of all tensors by
// their names, so that every checkpoint has a tree. Errors: ErrNotFound, ErrCorrupt, ErrFormat, ErrRevision, ErrIO,
// ErrIncomplete (it names a tensor that the checkpoint lacks), ErrMismatch (the trees of two ranks contradict).
func (r *Reader) Tree(name string) (*Tree, error) {
	out, err := sharing(&r.h, func(reader *C.ckpt_reader, in cTexts, cerr **C.ckpt_error) (*C.ckpt_tree, C.ckpt_status) {
		var out *C.ckpt_tree
		status := C.ckpt_reader_tree(reader, in.orNull(0), &out, cerr)
		return out, status
	}, name)
	return newTree(out, err)
}

// TreeOfRank is Tree, but a [PerRankValue] holds only what `rank` saved; what rank 0 saved, if there were fewer ranks.
func (r *Reader) TreeOfRank(name string, rank uint32) (*Tree, error) {
	out, err := sharing(&r.h, func(reader *C.ckpt_reader, in cTexts, cerr **C.ckpt_error) (*C.ckpt_tree, C.ckpt_status) {
		var out *C.ckpt_tree
		status := C.ckpt_reader_tree_of_rank(reader, in.orNull(0), C.uint32_t(rank), &out, cerr)
		return out, status
	}, name)
	return newTree(out, err)
}
