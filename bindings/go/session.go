package ckpt

// #include "ckpt_go.h"
import "C"

import "context"

// Session is one start of all ranks of a run. Exactly one session owns a run: opening a new one fences the older, whose
// open attempts are closed and removed.
type Session struct {
	h     owned[*C.ckpt_session]
	text  string
	world uint32
	saves *saves // in the background
}

// OpenSession opens a session; every rank calls it once. There are three ways in:
//   - one rank: rank 0 of world size 1, sessionString "";
//   - a string: rank 0 passes "" and sends its [Session.String] to the other ranks, which pass it here;
//   - rendezvous: all ranks pass "" and set rendezvous=1; they meet through files in the store.
//
// The call waits for other ranks for at most timeout_ms; the context can end it sooner.
// Options: those used by session.
// Errors: ErrConflict (another process has this rank, or the string is from an older start), ErrFenced, ErrMismatch,
// ErrTimeout, ErrCancelled, ErrUnsupported, ErrIO, ErrNoSpace.
func OpenSession(ctx context.Context, store *Store, rank, worldSize uint32, sessionString string,
	options Options) (*Session, error) {
	if store == nil {
		return nil, nilError("store")
	}
	out, err := withContextAndOptions(ctx, &store.h, options, func(from *C.ckpt_store, bag *C.ckpt_options,
		in cTexts) (*C.ckpt_session, error) {
		var out *C.ckpt_session
		var cerr *C.ckpt_error
		status := C.ckpt_session_open(&out, from, C.uint32_t(rank), C.uint32_t(worldSize), in.orNull(0), bag, &cerr)
		return out, fail(status, cerr)
	}, sessionString)
	if err != nil {
		return nil, err
	}
	made := &Session{text: C.GoString(C.ckpt_session_string(out)), world: worldSize, saves: new(saves)}
	own(made, &made.h, newHandle("session", out, func(p *C.ckpt_session) { C.ckpt_session_free(p) }))
	return made, nil
}

// Mirror, on rank 0 of a store with option mirror, returns a job that is done once the mirror has all that was
// committed before the call. It fails with the first failure from now on, while copying goes on, unless that was
// ErrFenced; [Job.Report] names what will not be copied. Cancelling the context ends the job, not the copying. Close
// waits for what is still to be copied. Errors: ErrInvalid (no mirror, or not rank 0), ErrCancelled.
func (s *Session) Mirror(ctx context.Context) (*Job, error) {
	session, err := s.h.enter()
	if err != nil {
		return nil, err
	}
	defer s.h.leave()
	if err := beforehand(ctx, "wait for the mirror"); err != nil {
		return nil, err
	}
	var out *C.ckpt_job
	var cerr *C.ckpt_error
	if status := C.ckpt_session_mirror(session, &out, &cerr); status != C.CKPT_OK {
		return nil, fail(status, cerr)
	}
	return newJob(ctx, out, newMemory(), nil), nil
}

// String returns what the other ranks pass to OpenSession.
func (s *Session) String() string { return s.text }

// Close waits for the saves in the background and releases the session. It returns the failure of the first that
// failed and of which nobody was told by a Wait or by [NewSave]. Deferred and reached by a panic, it cancels the saves
// at once, so that other ranks do not wait.
func (s *Session) Close() error {
	if s.saves == nil {
		return nil
	}
	err := s.saves.end()
	s.h.end()
	return err
}
