package ckpt_test

import (
	"context"
	"errors"
	"testing"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// waiting is a save of rank 0 of two, whose other rank does not come: it runs until it is cancelled.
func waiting(t *testing.T, store *ckpt.Store, options ckpt.Options) *ckpt.Save {
	t.Helper()
	session := need[*ckpt.Session](t)(ckpt.OpenSession(store, 0, 2, "", nil))
	t.Cleanup(func() { session.Close() })
	save := newSave(t, session, "a", options)
	ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(1024), ramp[float32](1024)))
	return save
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

func TestAContextThatIsCancelledAlreadySavesNothing(t *testing.T) {
	store := openStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	is(t, waiting(t, store, nil).Run(ctx), ckpt.ErrCancelled, context.Canceled)
	noCheckpoint(t, store)
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

// At whatever moment the context is cancelled, the error and the store tell the same.
func TestTheErrorTellsTheTruthAboutTheCommit(t *testing.T) {
	committed, cancelled := 0, 0
	for i := 0; i < 400 && (committed < 3 || cancelled < 3); i++ {
		store := need[*ckpt.Store](t)(ckpt.OpenStore("mem:truth", nil))
		session := need[*ckpt.Session](t)(ckpt.OpenSession(store, 0, 1, "", nil))
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
	short, done := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer done()
	err := job.Wait(short, ckpt.JobCommitted)
	is(t, err, ckpt.ErrTimeout, context.DeadlineExceeded)
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

func TestACancelledLoadAndVerifyEndWithTheContextsError(t *testing.T) {
	reader := saved(t, nil, func(save *ckpt.Save) {
		ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(1<<22), ramp[float32](1<<22)))
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// A cancelled context may come too late for so small a load: then it is whole, and no error.
	data, load := make([]float32, 1<<22), newLoad(t, reader)
	ok(t, ckpt.AddSlice(load, "w", ckpt.Shape(1<<22), data))
	if err := load.Run(ctx); err != nil {
		is(t, err, ckpt.ErrCancelled, context.Canceled)
	} else if data[1<<22-1] != 1<<22-1 {
		t.Error("the load said that it was whole, and was not")
	}
	job := need[*ckpt.Job](t)(reader.Verify(ctx, nil))
	defer job.Close()
	if err := job.Wait(context.Background(), ckpt.JobDone); err != nil {
		is(t, err, ckpt.ErrCancelled, context.Canceled)
	} else if report := need[ckpt.Report](t)(job.Report()); report.Len() != 0 {
		t.Errorf("a sound checkpoint has %v", report.At(0))
	}
}
