package ckpt

// #include "ckpt_go.h"
import "C"

import "unsafe"

// Keeper is the policy and the history of a run: it says when to save, under which label and what stays, and what to
// start from. The caller saves and loads. [Checkpointer] does these, too; a keeper is for loops that it does not fit.
type Keeper struct{ h owned[*C.ckpt_keeper] }

// Todo is what all ranks do after a step.
type Todo int32

// Votes are what a rank says of a step. The ranks combine them, each by its maximum.
type Votes [C.CKPT_KEEPER_VOTES]int64

func (v *Votes) c() *C.int64_t { return (*C.int64_t)(unsafe.Pointer(v)) }

// NewKeeper makes the keeper of rank `rank` of `worldSize`; every rank makes one and calls the same, with the same
// steps. It does not touch the store. Options: those used by keeper. Errors: ErrInvalid (what of the policy is wrong).
func NewKeeper(store *Store, rank, worldSize uint32, options Options) (*Keeper, error) {
	if store == nil {
		return nil, nilError("store")
	}
	return withOptions(&store.h, options, func(from *C.ckpt_store, bag *C.ckpt_options, _ cTexts) (*Keeper, error) {
		var out *C.ckpt_keeper
		var cerr *C.ckpt_error
		status := C.ckpt_keeper_new(&out, from, C.uint32_t(rank), C.uint32_t(worldSize), bag, &cerr)
		if status != C.CKPT_OK {
			return nil, fail(status, cerr)
		}
		made := &Keeper{}
		own(made, &made.h, newHandle("keeper", out, func(p *C.ckpt_keeper) { C.ckpt_keeper_free(p) }))
		return made, nil
	})
}

// Close releases the keeper and always returns nil. A save that runs goes on.
func (k *Keeper) Close() error {
	k.h.end()
	return nil
}

// ask copies what the keeper says; "" for NULL, and of a closed keeper.
func (k *Keeper) ask(call func(keeper *C.ckpt_keeper) *C.char) string {
	keeper, err := k.h.enterAlone()
	if err != nil {
		return ""
	}
	defer k.h.leaveAlone()
	return C.GoString(call(keeper))
}

// Warning returns what the last call should tell people: newer checkpoints that Find passed over, a step that comes
// before the last one, later steps that the run has; "" mostly.
func (k *Keeper) Warning() string {
	return k.ask(func(keeper *C.ckpt_keeper) *C.char { return C.ckpt_keeper_warning(keeper) })
}

// TellCounter tells a counter of the next step ("epoch": those that are done, "sample", "token", …), for every and for
// labels.
func (k *Keeper) TellCounter(name string, value float64) error {
	return k.tell(C.CKPT_KEEPER_COUNTER, name, value)
}

// TellMetric tells a metric of the next step, which is kept with its checkpoint and read by keep_best.
func (k *Keeper) TellMetric(name string, value float64) error {
	return k.tell(C.CKPT_KEEPER_METRIC, name, value)
}

func (k *Keeper) tell(kind C.int32_t, name string, value float64) error {
	return changing(&k.h, func(keeper *C.ckpt_keeper, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_keeper_tell(keeper, kind, in[0], C.double(value), cerr)
	}, name)
}

// Step says that a step is done; `due`: a rule of the caller's own asks for a save. Errors: ErrInvalid (a counter that
// every needs was not told).
func (k *Keeper) Step(step int64, due bool) (Votes, error) {
	var votes Votes
	asked := map[bool]C.int32_t{true: 1}[due]
	err := changing(&k.h, func(keeper *C.ckpt_keeper, _ cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_keeper_step(keeper, C.int64_t(step), asked, votes.c(), cerr)
	})
	return votes, err
}

// AtStep is Step for a save that is made whatever every says.
func (k *Keeper) AtStep(step int64) error {
	return changing(&k.h, func(keeper *C.ckpt_keeper, _ cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_keeper_step(keeper, C.int64_t(step), 0, nil, cerr)
	})
}

// NeedsVotes says whether the ranks must combine their votes in each step, since one alone may want a save: by a clock,
// a counter other than the step, a time limit or a signal that Catch caught. With Stop they must, too.
func (k *Keeper) NeedsVotes() bool {
	keeper, err := k.h.enterAlone()
	if err != nil {
		return false
	}
	defer k.h.leaveAlone()
	return C.ckpt_keeper_needs_votes(keeper) != 0
}

// Decide returns what all ranks do now, by the combined votes; nil: by the step, which is the same on all ranks.
// Errors: ErrInvalid (the votes of some ranks are missing), ErrMismatch (the ranks are at different steps).
func (k *Keeper) Decide(votes *Votes) (Todo, error) {
	var what C.int32_t
	err := changing(&k.h, func(keeper *C.ckpt_keeper, _ cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_keeper_decide(keeper, votes.c(), &what, cerr)
	})
	return Todo(what), err
}

// Stop makes the next step of all ranks save and stop. `why` is a signal's number, or 1000 for the end of the job's
// time. Any goroutine may call it, also during another call.
func (k *Keeper) Stop(why int32) {
	if keeper, err := k.h.hold(); err == nil {
		C.ckpt_keeper_stop(keeper, C.int32_t(why))
		k.h.drop()
	}
}

// Catch does that from now on when the signal comes, by a handler of C's, which then calls Go's. Go's ends the process
// unless somebody has called [signal.Notify]; so a program of Go rather calls that, and Stop, as Checkpointer does.
func (k *Keeper) Catch(signal int32) error {
	return changing(&k.h, func(keeper *C.ckpt_keeper, _ cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_keeper_catch(keeper, C.int32_t(signal), cerr)
	})
}

// Stopping returns "SIGTERM", "time limit", …, once that was decided; else "".
func (k *Keeper) Stopping() string {
	return k.ask(func(keeper *C.ckpt_keeper) *C.char { return C.ckpt_keeper_stopping(keeper) })
}

// Plan says how all ranks save the step that was told last, for Save. Rank 0 makes it and sends it to the others.
// `label`: of the caller's own, which stays for ever; "": by option label.
func (k *Keeper) Plan(label string) (string, error) {
	return k.reply(label, func(keeper *C.ckpt_keeper, in cTexts, out **C.char, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_keeper_plan(keeper, in.orNull(0), out, cerr)
	})
}

// Find returns the id of the checkpoint to load: of "latest" ("" if there is none yet), "best", "best:val_loss:min", or
// a selector of [Store.Find]. Rank 0 asks and sends it to the others. Errors: ErrNotFound, ErrCorrupt, ErrIO,
// ErrInvalid ("best" of what?).
func (k *Keeper) Find(selector string) (string, error) {
	return k.reply(selector, func(keeper *C.ckpt_keeper, in cTexts, out **C.char, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_keeper_find(keeper, in[0], out, cerr)
	})
}

// reply makes a call that lends a text.
func (k *Keeper) reply(name string,
	call func(keeper *C.ckpt_keeper, in cTexts, out **C.char, cerr **C.ckpt_error) C.ckpt_status) (string, error) {
	said := ""
	err := changing(&k.h, func(keeper *C.ckpt_keeper, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		var out *C.char
		status := call(keeper, in, &out, cerr)
		said = C.GoString(out)
		return status
	}, name)
	return said, err
}

// Save makes the save of a plan, to add to and to run or start; nil if that is the newest checkpoint that this keeper
// has committed already. The keeper learns by itself what becomes of it. Options: those of [NewSave]; the plan's count
// before them. Errors: those of NewSave; ErrFormat (no plan).
func (k *Keeper) Save(session *Session, plan string, options Options) (*Save, error) {
	if session == nil {
		return nil, nilError("session")
	}
	keeper, err := k.h.enterAlone()
	if err != nil {
		return nil, err
	}
	defer k.h.leaveAlone()
	return withOptions(&session.h, options, func(from *C.ckpt_session, bag *C.ckpt_options, in cTexts) (*Save, error) {
		var out *C.ckpt_save
		var cerr *C.ckpt_error
		if status := C.ckpt_keeper_begin(&out, keeper, from, in[0], bag, &cerr); status != C.CKPT_OK || out == nil {
			return nil, fail(status, cerr)
		}
		return session.begun(out, C.GoString(C.ckpt_save_id(out)))
	}, plan)
}

// Saved returns the id of the newest checkpoint that this keeper has committed; "" for none.
func (k *Keeper) Saved() string {
	return k.ask(func(keeper *C.ckpt_keeper) *C.char { return C.ckpt_keeper_saved(keeper) })
}

// PassOver says that the load of what Find gave has failed. nil: it is damaged, and the next Find gives the one before.
// Else the same failure, also if anything but "latest" was asked for, or on_damaged is "error".
func (k *Keeper) PassOver(status Status, message string) error {
	return changing(&k.h, func(keeper *C.ckpt_keeper, in cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_keeper_pass_over(keeper, C.ckpt_status(status), in[0], cerr)
	}, message)
}

// Restored says that the training goes on from this checkpoint. What the run has of later steps stays, until a save has
// its label.
func (k *Keeper) Restored(reader *Reader) error {
	if reader == nil {
		return nilError("reader")
	}
	from, err := reader.h.enter()
	if err != nil {
		return err
	}
	defer reader.h.leave()
	return changing(&k.h, func(keeper *C.ckpt_keeper, _ cTexts, cerr **C.ckpt_error) C.ckpt_status {
		return C.ckpt_keeper_restored(keeper, from, cerr)
	})
}

// Metrics returns those that were told with the checkpoint of Restored.
func (k *Keeper) Metrics() map[string]float64 { return k.numbers(C.CKPT_KEEPER_METRIC) }

// Counters returns its counters.
func (k *Keeper) Counters() map[string]float64 { return k.numbers(C.CKPT_KEEPER_COUNTER) }

func (k *Keeper) numbers(kind C.int32_t) map[string]float64 {
	all := map[string]float64{}
	keeper, err := k.h.enterAlone()
	if err != nil {
		return all
	}
	defer k.h.leaveAlone()
	for i := C.size_t(0); ; i++ {
		var value C.double
		name := C.ckpt_keeper_number_at(keeper, kind, i, &value)
		if name == nil {
			return all
		}
		all[C.GoString(name)] = float64(value)
	}
}
