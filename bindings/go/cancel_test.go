package ckpt_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// waiting starts a save of rank 0 of two whose other rank never comes: it runs until it is cancelled.
func waiting(t *testing.T, store *ckpt.Store, options ckpt.Options) *ckpt.Save {
	t.Helper()
	session := need[*ckpt.Session](t)(ckpt.OpenSession(context.Background(), store, 0, 2, "", nil))
	t.Cleanup(func() { session.Close() })
	save := newSave(t, session, "a", options)
	ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(1024), ramp[float32](1024)))
	return save
}

// ranks makes saves of the first `count` ranks of a world, with one replicated tensor.
func ranks(t *testing.T, store *ckpt.Store, count, world uint32) []*ckpt.Save {
	t.Helper()
	var saves []*ckpt.Save
	text := ""
	for rank := range count {
		session := need[*ckpt.Session](t)(ckpt.OpenSession(context.Background(), store, rank, world, text, nil))
		t.Cleanup(func() { session.Close() })
		text = session.String()
		save := newSave(t, session, "a", nil)
		ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(4), ramp[float32](4)))
		saves = append(saves, save)
	}
	return saves
}

func noCheckpoint(t *testing.T, store *ckpt.Store) {
	t.Helper()
	for info, err := range store.Checkpoints() {
		ok(t, err)
		if info.State == ckpt.CheckpointCommitted {
			t.Errorf("%s was committed", info.ID)
		}
	}
}

func TestACancelledContextGivesTheSaveUp(t *testing.T) {
	store := openStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	save := waiting(t, store, nil)
	time.AfterFunc(50*time.Millisecond, cancel)
	err := save.Run(ctx)
	is(t, err, ckpt.ErrCancelled, context.Canceled)
	noCheckpoint(t, store)
}

func TestADeadlineAndACauseAreInTheError(t *testing.T) {
	store := openStore(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	is(t, waiting(t, store, nil).Run(ctx), ckpt.ErrCancelled, context.DeadlineExceeded)

	preempted := errors.New("preempted")
	caused, cancelFor := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancelFor(preempted) })
	is(t, waiting(t, store, nil).Run(caused), ckpt.ErrCancelled, context.Canceled, preempted)
	noCheckpoint(t, store)
}

// done returns a context that is cancelled already.
func done() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Of one rank, which nothing else would keep from committing.
func TestAContextThatIsCancelledAlreadySavesNothing(t *testing.T) {
	store := openStore(t)
	save := newSave(t, openSession(t, store), "a", nil)
	ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(4), ramp[float32](4)))
	is(t, save.Run(done()), ckpt.ErrCancelled, context.Canceled)
	is(t, first(save.Start(done())), ckpt.ErrCancelled, context.Canceled)
	is(t, first(save.StartInPlace(done())), ckpt.ErrCancelled, context.Canceled)
	noCheckpoint(t, store)
	ok(t, save.Run(context.Background())) // it was not begun
}

func TestARankThatIsCancelledAlreadyTellsTheOthers(t *testing.T) {
	store := openStore(t)
	saves := ranks(t, store, 2, 2)
	is(t, saves[1].Run(done()), ckpt.ErrCancelled, context.Canceled)
	err := saves[0].Run(context.Background())
	is(t, err, ckpt.ErrAborted)
	if detailOf(err, "rank") != "1" || detailOf(err, "status") != "CANCELLED" || errors.Is(err, context.Canceled) {
		t.Errorf("rank 0 was told %v", err)
	}
	noCheckpoint(t, store)
}

// One rank closes the attempt, and the other finds it closed: ErrCancelled and ErrAborted, both with their context's
// error.
func TestEveryRankThatIsCancelledHasItsContextsError(t *testing.T) {
	store := openStore(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	preempted := errors.New("preempted")
	var jobs []*ckpt.Job
	for _, save := range ranks(t, store, 2, 3) {
		job := need[*ckpt.Job](t)(save.Start(ctx))
		defer job.Close()
		jobs = append(jobs, job)
	}
	for _, job := range jobs {
		ok(t, job.Wait(context.Background(), ckpt.JobWritten))
	}
	cancel(preempted)
	counts := map[ckpt.Status]int{}
	for _, job := range jobs {
		err := job.Wait(context.Background(), ckpt.JobCommitted)
		is(t, err, context.Canceled, preempted)
		var status ckpt.Status
		errors.As(err, &status)
		counts[status]++
	}
	if counts[ckpt.ErrCancelled] != 1 || counts[ckpt.ErrAborted] != 1 {
		t.Errorf("the ranks ended as %v", counts)
	}
	noCheckpoint(t, store)
}

// If another rank gave up the save, this rank's context is not the reason, even if it is cancelled later.
func TestAContextIsNotBlamedForWhatEndedTheJobBefore(t *testing.T) {
	saves := ranks(t, openStore(t), 2, 2)
	ctx, cancel := context.WithCancel(context.Background())
	zero := need[*ckpt.Job](t)(saves[0].Start(ctx))
	defer zero.Close()
	is(t, saves[1].Run(done()), ckpt.ErrCancelled)
	<-zero.Done()
	cancel()
	err := zero.Wait(context.Background(), ckpt.JobCommitted)
	is(t, err, ckpt.ErrAborted)
	if errors.Is(err, context.Canceled) {
		t.Errorf("the context was cancelled after the end: %v", err)
	}
}

func TestADoneContextBeginsNoLoadAndNoVerification(t *testing.T) {
	reader := saved(t, nil, func(save *ckpt.Save) { ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(4), ramp[float32](4))) })
	data, load := []float32{-1, -1, -1, -1}, newLoad(t, reader)
	ok(t, ckpt.AddSlice(load, "w", ckpt.Shape(4), data))
	is(t, load.Run(done()), ckpt.ErrCancelled, context.Canceled)
	is(t, first(load.Start(done())), ckpt.ErrCancelled, context.Canceled)
	is(t, first(reader.Verify(done(), nil)), ckpt.ErrCancelled, context.Canceled)
	if !slices.Equal(data, []float32{-1, -1, -1, -1}) {
		t.Errorf("a load that was not begun wrote %v", data)
	}
	ok(t, load.Run(context.Background()))
}

// A nil context panics, as everywhere in Go; no work may have begun by then.
func TestANilContextPanicsBeforeAnythingBegins(t *testing.T) {
	store := openStore(t)
	save := newSave(t, openSession(t, store), "a", nil)
	ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(4), ramp[float32](4)))
	var none context.Context
	panics := func(call func() error) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Error("nil was taken for a context")
			}
		}()
		ok(t, call())
	}
	panics(func() error { return first(save.Start(none)) })
	panics(func() error { return save.Run(none) })
	ok(t, save.Run(context.Background()))
	load := newLoad(t, openReader(t, store))
	panics(func() error { return first(load.Start(none)) })
	ok(t, load.Run(context.Background()))
}

func TestASaveThatWasCommittedAllTheSameIsNoError(t *testing.T) {
	store := openStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	save := newSave(t, openSession(t, store), "a", nil)
	ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(4), ramp[float32](4)))
	job := need[*ckpt.Job](t)(save.Start(ctx))
	defer job.Close()
	<-job.Done()
	cancel()
	ok(t, job.Wait(context.Background(), ckpt.JobCommitted))
	ok(t, job.Wait(ctx, ckpt.JobCommitted)) // it was reached before anybody had to wait
	openReader(t, store)
}

// Whenever the context is cancelled, the error and the store agree.
func TestTheErrorTellsTheTruthAboutTheCommit(t *testing.T) {
	committed, cancelled := 0, 0
	for i := 0; i < 400 && (committed < 3 || cancelled < 3); i++ {
		store := need[*ckpt.Store](t)(ckpt.OpenStore("mem:truth", nil))
		session := need[*ckpt.Session](t)(ckpt.OpenSession(context.Background(), store, 0, 1, "", nil))
		save := need[*ckpt.Save](t)(ckpt.NewSave(session, "a", -1, nil))
		ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(1<<16), ramp[float32](1<<16)))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Duration(i%40)*25*time.Microsecond, cancel)
		err := save.Run(ctx)
		_, found := store.Find("a", nil)
		switch {
		case err == nil:
			ok(t, found)
			committed++
		case errors.Is(err, ckpt.ErrCancelled) && errors.Is(err, context.Canceled):
			is(t, found, ckpt.ErrNotFound)
			cancelled++
		default:
			t.Fatal(err)
		}
		cancel()
		save.Close()
		session.Close()
		store.Close() // the last handle: the next store is empty
	}
	if committed < 3 || cancelled < 3 {
		t.Errorf("%d were committed and %d cancelled: the moments were not mixed", committed, cancelled)
	}
}

func TestAContextOfStartCancelsTheJobAndOneOfWaitDoesNot(t *testing.T) {
	store := openStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	job := need[*ckpt.Job](t)(waiting(t, store, nil).Start(ctx))
	defer job.Close()
	impatient := errors.New("impatient")
	short, end := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, impatient)
	defer end()
	err := job.Wait(short, ckpt.JobCommitted)
	is(t, err, ckpt.ErrTimeout, context.DeadlineExceeded, impatient)
	if errors.Is(err, ckpt.ErrCancelled) || job.State() >= ckpt.JobCommitted {
		t.Errorf("after the wait ended the job is %v, %v", job.State(), err)
	}
	cancel()
	<-job.Done()
	is(t, job.Wait(context.Background(), ckpt.JobCommitted), ckpt.ErrCancelled, context.Canceled)
	if job.State() != ckpt.JobCancelled {
		t.Errorf("the job is %v", job.State())
	}
	noCheckpoint(t, store)
}

func TestATimeoutOfTheSaveIsNotOneOfTheWaiting(t *testing.T) {
	job := need[*ckpt.Job](t)(waiting(t, openStore(t), ckpt.Options{"timeout_ms": 50}).Start(context.Background()))
	defer job.Close()
	err := job.Wait(context.Background(), ckpt.JobCommitted)
	is(t, err, ckpt.ErrTimeout)
	if errors.Is(err, context.DeadlineExceeded) || job.State() != ckpt.JobFailed {
		t.Errorf("the job is %v, %v", job.State(), err)
	}
	if ranks := detailOf(err, "ranks"); ranks != "1" {
		t.Errorf("the missing ranks are %q: %v", ranks, err)
	}
}

func TestJobCancelGivesTheSaveUpWithoutAContext(t *testing.T) {
	store := openStore(t)
	job := need[*ckpt.Job](t)(waiting(t, store, nil).Start(context.Background()))
	ok(t, job.Wait(context.Background(), ckpt.JobWritten))
	job.Cancel()
	job.Cancel()
	err := job.Wait(context.Background(), ckpt.JobCommitted)
	is(t, err, ckpt.ErrCancelled)
	if errors.Is(err, context.Canceled) {
		t.Errorf("nobody cancelled a context: %v", err)
	}
	ok(t, job.Close())
	noCheckpoint(t, store)
}

// cancelled starts jobs and cancels their contexts at once, until one ends as cancelled: a small job may be done
// before, and then `whole` must find all of it.
func cancelled(t *testing.T, start func(ctx context.Context) (*ckpt.Job, error), whole func(job *ckpt.Job) bool) {
	t.Helper()
	for range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		job := need[*ckpt.Job](t)(start(ctx))
		cancel()
		err := job.Wait(context.Background(), ckpt.JobDone)
		if err == nil && !whole(job) {
			t.Error("a job said that all was well, and was not done")
		}
		state := job.State()
		ok(t, job.Close())
		if err != nil {
			is(t, err, ckpt.ErrCancelled, context.Canceled)
			if state != ckpt.JobCancelled {
				t.Errorf("the job is %v", state)
			}
			return
		}
	}
	t.Error("of 200 jobs that were cancelled at once none ended so")
}

func TestACancelledLoadAndVerifyEndWithTheContextsError(t *testing.T) {
	const count = 1 << 22
	reader := saved(t, nil, func(save *ckpt.Save) {
		ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(count), ramp[float32](count)))
	})
	var data []float32
	cancelled(t, func(ctx context.Context) (*ckpt.Job, error) {
		load := newLoad(t, reader)
		data = make([]float32, count)
		ok(t, ckpt.AddSlice(load, "w", ckpt.Shape(count), data))
		return load.Start(ctx)
	}, func(*ckpt.Job) bool { return data[count-1] == count-1 })
	cancelled(t, func(ctx context.Context) (*ckpt.Job, error) {
		return reader.Verify(ctx, nil)
	}, func(job *ckpt.Job) bool { return need[ckpt.Report](t)(job.Report()).Len() == 0 })
}

// Calls without a job of their own end when their context does, before they begin or while they wait.
func TestCancelCallsThatBlock(t *testing.T) {
	store := openStore(t)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for name, call := range map[string]func() error{
		"prune":  func() error { _, err := store.Prune(done, ckpt.Options{"keep_last": 1}); return err },
		"repair": func() error { _, err := store.Repair(done, "a.1.1", nil); return err },
		"import": func() error { _, err := store.Import(done, "cancel_test.go", "l", -1, nil); return err },
		"session": func() error {
			_, err := ckpt.OpenSession(done, store, 0, 1, "", nil)
			return err
		},
	} {
		if err := call(); !errors.Is(err, ckpt.ErrCancelled) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	waiting, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := ckpt.OpenSession(waiting, store, 1, 2, "", ckpt.Options{"rendezvous": true})
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, ckpt.ErrCancelled) {
		t.Error(err)
	}
	if _, err := store.Import(context.Background(), "cancel_test.go", "l", -1, nil); !errors.Is(err, ckpt.ErrFormat) {
		t.Error(err)
	}
}
