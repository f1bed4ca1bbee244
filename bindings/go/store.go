package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"context"
	"iter"
)

// Store is a place that holds checkpoints. Opening creates nothing.
type Store struct{ h owned[*C.ckpt_store] }

// OpenStore opens a directory ("/data/run7", "file:///data/run7"), a prefix in a bucket of an object store
// ("s3://bucket/run7"), a directory that a web server shows ("https://host/run7"; read-only, and checkpoints are
// opened by their ids), or a store in this process's memory ("mem:NAME"; all handles of a NAME share it, and it ends
// with the last of them). It returns ErrUnsupported if the loaded library does
// not have the API of the headers; so do the functions that make a File or a Tree.
// Options: those used by store.
func OpenStore(uri string, options Options) (*Store, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	var in arguments
	defer in.free()
	name, bag := in.text(uri), in.options(options)
	if in.err != nil {
		return nil, in.err
	}
	var out *C.ckpt_store
	var cerr *C.ckpt_error
	if status := C.ckpt_store_open(&out, name, bag, &cerr); status != C.CKPT_OK {
		return nil, fail(status, cerr)
	}
	made := &Store{}
	own(made, &made.h, newHandle("store", out, func(p *C.ckpt_store) { C.ckpt_store_free(p) }))
	return made, nil
}

// Close releases the store and always returns nil.
func (s *Store) Close() error {
	s.h.end()
	return nil
}

// Checkpoints yields a snapshot of all checkpoints and attempts, oldest first: by run, then token, sequence.
// Errors: ErrNotFound, ErrIO.
func (s *Store) Checkpoints() iter.Seq2[CheckpointInfo, error] {
	return func(yield func(CheckpointInfo, error) bool) {
		list, err := s.list()
		if err != nil {
			yield(CheckpointInfo{}, err)
			return
		}
		defer C.ckpt_list_free(list)
		for i := range C.ckpt_list_count(list) {
			info := C.ckpt_checkpoint_info{struct_size: C.sizeof_ckpt_checkpoint_info}
			var cerr *C.ckpt_error
			status := C.ckpt_list_at(list, i, &info, &cerr)
			err := fail(status, cerr)
			if !yield(makeCheckpointInfo(&info), err) || err != nil {
				return
			}
		}
	}
}

func (s *Store) list() (*C.ckpt_list, error) {
	return sharing(&s.h, func(store *C.ckpt_store, _ cTexts, cerr **C.ckpt_error) (*C.ckpt_list, C.ckpt_status) {
		var list *C.ckpt_list
		status := C.ckpt_store_list(store, &list, cerr)
		return list, status
	})
}

// Runs returns a snapshot of all runs, by name: those that a session has opened and those that have checkpoints.
// Whether the newest checkpoint can be loaded, Find tells. Errors: ErrNotFound, ErrIO.
func (s *Store) Runs() ([]RunInfo, error) {
	store, err := s.h.enter()
	if err != nil {
		return nil, err
	}
	defer s.h.leave()
	var runs *C.ckpt_runs
	var cerr *C.ckpt_error
	if status := C.ckpt_store_runs(store, &runs, &cerr); status != C.CKPT_OK {
		return nil, fail(status, cerr)
	}
	defer C.ckpt_runs_free(runs)
	all := make([]RunInfo, C.ckpt_runs_count(runs))
	for i := range all {
		info := C.ckpt_run_info{struct_size: C.sizeof_ckpt_run_info}
		if status := C.ckpt_runs_at(runs, C.size_t(i), &info, &cerr); status != C.CKPT_OK {
			return nil, fail(status, cerr)
		}
		all[i] = makeRunInfo(&info)
	}
	return all, nil
}

// Find resolves a selector to one committed checkpoint: "latest" (the newest of the run that the options name, never a
// foreign one or a copy), "label:L" or just "L" (the newest of label L), "name:N" ([Store.Name]), "step:N", or an id.
// Resolve on one rank and give every rank the resulting ID: a later call may find a newer checkpoint. Newer checkpoints
// that cannot be loaded are passed over and counted in PassedOver. With on_damaged=error the error is what is wrong
// with the newest. Options: those used by find. Errors: ErrNotFound, ErrCorrupt, ErrFormat, ErrRevision, ErrIO.
func (s *Store) Find(selector string, options Options) (CheckpointInfo, error) {
	return withOptions(&s.h, options, func(store *C.ckpt_store, bag *C.ckpt_options, in cTexts) (CheckpointInfo, error) {
		info := C.ckpt_checkpoint_info{struct_size: C.sizeof_ckpt_checkpoint_info}
		var cerr *C.ckpt_error
		if status := C.ckpt_store_find(store, in[0], bag, &info, &cerr); status != C.CKPT_OK {
			return CheckpointInfo{}, fail(status, cerr)
		}
		return makeCheckpointInfo(&info), nil
	}, selector)
}

// Remove removes one checkpoint by its ID. Errors: ErrNotFound, ErrConflict (a reader holds it, it is kept, or it is
// an open attempt of a living session), ErrIO.
func (s *Store) Remove(id string) error {
	_, err := sharing(&s.h, func(store *C.ckpt_store, in cTexts, cerr **C.ckpt_error) (struct{}, C.ckpt_status) {
		return struct{}{}, C.ckpt_store_remove(store, in[0], cerr)
	}, id)
	return err
}

// Keep with keep set: nothing of this store removes that checkpoint any more, neither retention nor Remove, until it is
// called without. Errors: ErrNotFound, ErrConflict (somebody has begun to remove it), ErrIO.
func (s *Store) Keep(id string, keep bool) error {
	word := C.int32_t(0)
	if keep {
		word = 1
	}
	_, err := sharing(&s.h, func(store *C.ckpt_store, in cTexts, cerr **C.ckpt_error) (struct{}, C.ckpt_status) {
		return struct{}{}, C.ckpt_store_keep(store, in[0], word, cerr)
	}, id)
	return err
}

// Name gives a checkpoint of a run a name, which no other one has from now on: "name:N" selects it. With an empty id
// none has it. A name keeps no checkpoint: Keep does. Errors: ErrNotFound, ErrInvalid, ErrIO.
func (s *Store) Name(run, name, id string) error {
	_, err := sharing(&s.h, func(store *C.ckpt_store, in cTexts, cerr **C.ckpt_error) (struct{}, C.ckpt_status) {
		return struct{}{}, C.ckpt_store_name(store, in[0], in[1], in[2], cerr)
	}, run, name, id)
	return err
}

// Prune applies a retention policy to the numbered checkpoints of one run, whose label has their step in it
// ("step-100"); others ("best") stay. It keeps the newest keep_last, every step that keep_every divides, the labels in
// protect, whatever a reader holds, and always the newest one that is sound. The report lists what was removed, and
// what was kept and why; with dry_run, what would be. The context cancels it between two checkpoints. Options: those
// used by prune. Errors: ErrInvalid (keep_every or protect without keep_last), ErrCancelled, ErrIO.
func (s *Store) Prune(ctx context.Context, options Options) (Report, error) {
	return withContextAndOptions(ctx, &s.h, options, func(store *C.ckpt_store, bag *C.ckpt_options,
		_ cTexts) (Report, error) {
		var out *C.ckpt_report
		var cerr *C.ckpt_error
		status := C.ckpt_store_prune(store, bag, &out, &cerr)
		return takeReport(out, fail(status, cerr))
	})
}

// Repair rebuilds a lost or damaged manifest of directory `id` from its parts, byte for byte. It never replaces a
// readable one. An attempt that never committed needs force=1. By default it is a dry run. Options: those used by
// repair. Errors: ErrExists (sound already), ErrIncomplete, ErrMismatch, ErrCorrupt, ErrAborted, ErrCancelled (by the
// context), ErrIO.
func (s *Store) Repair(ctx context.Context, id string, options Options) (Report, error) {
	return withContextAndOptions(ctx, &s.h, options, func(store *C.ckpt_store, bag *C.ckpt_options,
		in cTexts) (Report, error) {
		var out *C.ckpt_report
		var cerr *C.ckpt_error
		status := C.ckpt_store_repair(store, in[0], bag, &out, &cerr)
		return takeReport(out, fail(status, cerr))
	}, id)
}

// Import saves a PyTorch .pt, a DCP directory, an hfai directory of PART_*.pt, a safetensors file, or a Hugging Face
// set (a directory or its index.json) as a checkpoint, of run "main" unless a trainer has used that since the last
// import: then of run "import". The content decides what it is; no code is run. A `step` of -1 means none. Imports
// into one run take turns. If somebody truncates the file meanwhile, SIGBUS can end the process. The path may be the
// address of a file on a web server ("https://host/model.safetensors"), or of a file or directory on an object store
// ("s3://bucket/run7/checkpoint-500"). Options: those used by import. Errors: ErrNotFound, ErrFormat, ErrUnsupported,
// ErrCorrupt, ErrExists, ErrTimeout, ErrFenced, ErrCancelled (by the context), ErrGone (https, s3), ErrIO, ErrNoSpace.
func (s *Store) Import(ctx context.Context, path, label string, step int64, options Options) (CheckpointInfo, error) {
	return withContextAndOptions(ctx, &s.h, options, func(store *C.ckpt_store, bag *C.ckpt_options,
		in cTexts) (CheckpointInfo, error) {
		info := C.ckpt_checkpoint_info{struct_size: C.sizeof_ckpt_checkpoint_info}
		var cerr *C.ckpt_error
		status := C.ckpt_import(store, in[0], in[1], C.int64_t(step), bag, &info, &cerr)
		if status != C.CKPT_OK {
			return CheckpointInfo{}, fail(status, cerr)
		}
		return makeCheckpointInfo(&info), nil
	}, path, label)
}
