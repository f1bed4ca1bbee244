package ckpt

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// shareOf makes a save of rank 0 of `world` ranks; the other ranks never come.
func shareOf(t *testing.T, world uint32, options Options) (*Store, *Save) {
	t.Helper()
	store := must[*Store](t)(OpenStore(t.TempDir(), nil))
	t.Cleanup(func() { store.Close() })
	session := must[*Session](t)(OpenSession(context.Background(), store, 0, world, "", nil))
	t.Cleanup(func() { session.Close() })
	save := must[*Save](t)(NewSave(session, "a", -1, options))
	t.Cleanup(func() { save.Close() })
	if err := AddSlice(save, "w", Shape(4), []float32{1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	return store, save
}

// until collects garbage until `so` is true.
func (h *handle[P]) until(so func() bool) {
	for {
		h.mu.Lock()
		now := so()
		h.mu.Unlock()
		if now {
			return
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

func (h *handle[P]) isFreed() bool {
	select {
	case <-h.freed:
		return true
	default:
		return false
	}
}

func TestAContextCancelsAJobThatNobodyHolds(t *testing.T) {
	_, save := shareOf(t, 2, Options{"timeout_ms": 120000}) // where nobody cancels it, it fails
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	job := must[*Job](t)(save.Start(ctx))
	h, p := job.h.handle, job.progress
	job = nil
	h.until(func() bool { return h.closed }) // by the garbage collector
	cancel()
	<-p.ended
	if state := JobState(p.last.Load()); state != JobCancelled {
		t.Errorf("the job ended as %v", state)
	}
	<-h.freed
}

// After Close of a Save or a Load the caller may reuse the memory: nothing uses it any more.
func TestCloseReturnsAfterTheRunInside(t *testing.T) {
	store, save := shareOf(t, 2, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var gaveUp atomic.Bool
	go func() { _ = save.Run(ctx) }()
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		for info, err := range store.Checkpoints() {
			begun = err == nil && info.State == CheckpointOpen
		}
	}
	go func() {
		save.h.until(func() bool { return save.h.closed })
		gaveUp.Store(true)
		cancel()
	}()
	save.Close()
	if !gaveUp.Load() || !save.h.isFreed() {
		t.Error("Close has returned, and Run cannot have ended yet")
	}
}

// The deadline ends the run. On a busy machine that can happen before the test sees the run: then it tries again.
func TestCloseReturnsAfterARunWithoutAContext(t *testing.T) {
	for inside := false; !inside; {
		_, save := shareOf(t, 2, Options{"timeout_ms": 300})
		var over atomic.Bool
		go func() {
			_ = save.Run(context.Background())
			over.Store(true)
		}()
		save.h.until(func() bool {
			inside = save.h.uses > 1
			return inside || over.Load()
		})
		save.Close()
		if !save.h.isFreed() {
			t.Error("Close has returned, and Run is inside")
		}
	}
}

func TestCloseOfALoadReturnsAfterTheCallsInside(t *testing.T) {
	store, save := shareOf(t, 1, nil)
	if err := save.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	reader := must[*Reader](t)(OpenReader(store, "a", nil))
	defer reader.Close()
	load := must[*Load](t)(NewLoad(reader, nil))
	if _, err := load.h.hold(); err != nil {
		t.Fatal(err)
	}
	go func() {
		load.h.until(func() bool { return load.h.closed })
		load.h.drop()
	}()
	load.Close()
	if !load.h.isFreed() {
		t.Error("Close has returned, and a call is inside")
	}
}
