package ckpt_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// churn collects garbage and overwrites what was freed until the test ends.
func churn(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-stopped })
	go func() {
		defer close(stopped)
		var garbage [][]float32
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			garbage = append(garbage, slices.Repeat([]float32{-1}, 1<<(i%12)))
			if i%64 == 0 {
				runtime.KeepAlive(garbage)
				garbage = nil
				runtime.GC()
			}
		}
	}()
}

const tensors, size = 200, 700

func content(i int) []float32 { return slices.Repeat([]float32{float32(i)}, size) }

// addForgotten adds tensors whose memory nobody else refers to.
func addForgotten(t *testing.T, save *ckpt.Save) {
	for i := range tensors {
		ok(t, ckpt.AddSlice(save, fmt.Sprintf("%03d", i), ckpt.Shape(size), content(i)))
		if i%20 == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
}

func checkContent(t *testing.T, reader *ckpt.Reader) {
	for i := range tensors {
		data, _, err := ckpt.ReadSlice[float32](t.Context(), reader, fmt.Sprintf("%03d", i), nil)
		ok(t, err)
		if !slices.Equal(data, content(i)) {
			t.Fatalf("tensor %d came back different", i)
		}
	}
}

func TestTheGarbageCollectorLeavesWhatOnlyASaveKnows(t *testing.T) {
	churn(t)
	checkContent(t, saved(t, nil, func(save *ckpt.Save) { addForgotten(t, save) }))
}

// The job is dropped too, and still runs to its end.
func TestAJobThatNobodyKnowsGoesOnToItsEnd(t *testing.T) {
	churn(t)
	store := openStore(t)
	session := openSession(t, store)
	func() {
		save := need[*ckpt.Save](t)(ckpt.NewSave(session, "a", -1, nil))
		addForgotten(t, save)
		need[*ckpt.Job](t)(save.Start(context.Background()))
	}()
	eventually(t, "the dropped job commits", func() bool {
		_, err := store.Find("a", nil)
		if err != nil && !errors.Is(err, ckpt.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	})
	checkContent(t, openReader(t, store))
}

func TestTheGarbageCollectorLeavesWhatALoadFills(t *testing.T) {
	churn(t)
	reader := saved(t, nil, func(save *ckpt.Save) { addForgotten(t, save) })
	for range 10 {
		load, loaded := newLoad(t, reader), make([][]float32, tensors)
		for i := range loaded {
			loaded[i] = make([]float32, size)
			ok(t, ckpt.AddSlice(load, fmt.Sprintf("%03d", i), ckpt.Shape(size), loaded[i]))
		}
		job := need[*ckpt.Job](t)(load.Start(context.Background()))
		runtime.GC()
		ok(t, job.Wait(context.Background(), ckpt.JobDone))
		for i := range loaded {
			if !slices.Equal(loaded[i], content(i)) {
				t.Fatalf("tensor %d was loaded different", i)
			}
		}
		ok(t, job.Close())
	}
}

// A pinner that is dropped with its pins ends the process; dropping a Save or a Load must not.
func TestDroppedHandlesWithPinnedMemoryAreFreed(t *testing.T) {
	store := openStore(t)
	session := openSession(t, store)
	first := newSave(t, session, "a", nil)
	ok(t, ckpt.AddSlice(first, "w", ckpt.Shape(size), content(1)))
	ok(t, first.Run(context.Background()))
	collected := make(chan struct{}, 200)
	for range 100 {
		save := need[*ckpt.Save](t)(ckpt.NewSave(session, "b", -1, nil))
		reader := need[*ckpt.Reader](t)(ckpt.OpenReader(store, "a", nil))
		load := need[*ckpt.Load](t)(ckpt.NewLoad(reader, nil))
		for _, adder := range []ckpt.Adder{save, load} {
			data := content(2)
			runtime.AddCleanup(&data[0], func(done chan struct{}) { done <- struct{}{} }, collected)
			ok(t, ckpt.AddSlice(adder, "w", ckpt.Shape(size), data))
		}
	}
	eventually(t, "the memory of dropped saves and loads is collected", func() bool { return len(collected) == 200 })
	// While a reader is open its checkpoint cannot be removed; 100 of them were dropped.
	eventually(t, "the dropped readers are freed", func() bool {
		err := store.Remove(first.ID())
		if err != nil && !errors.Is(err, ckpt.ErrConflict) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func TestTheMemoryIsCollectableOnceTheSaveIsStaged(t *testing.T) {
	store := openStore(t)
	session := need[*ckpt.Session](t)(ckpt.OpenSession(context.Background(), store, 0, 2, "", nil))
	defer session.Close()
	save := newSave(t, session, "a", nil)
	data, collected := content(1), make(chan struct{}, 1)
	runtime.AddCleanup(&data[0], func(done chan struct{}) { done <- struct{}{} }, collected)
	ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(size), data))
	job := need[*ckpt.Job](t)(save.Start(context.Background()))
	defer job.Cancel()
	<-job.Staged()
	eventually(t, "staged memory is collected while the job goes on", func() bool { return len(collected) == 1 })
	if job.State() >= ckpt.JobCommitted {
		t.Errorf("the job has ended: %v", job.State())
	}
}

func TestAMappedTensorOutlivesItsReaderAndHoldsTheCheckpoint(t *testing.T) {
	store := openStore(t)
	save := newSave(t, openSession(t, store), "a", nil)
	ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(size), content(3)))
	ok(t, save.Run(context.Background()))
	view := func() *ckpt.MappedTensor {
		reader := need[*ckpt.Reader](t)(ckpt.OpenReader(store, "a", nil))
		view := need[*ckpt.MappedTensor](t)(reader.Map("w", nil))
		ok(t, reader.Close())
		return view
	}()
	runtime.GC()
	if !slices.Equal(view.Bytes(), ckpt.BytesOf(content(3))) {
		t.Error("the view shows something else")
	}
	is(t, store.Remove(save.ID()), ckpt.ErrConflict)
	ok(t, view.Close())
	ok(t, view.Close())
	if view.Bytes() != nil {
		t.Error("the view has bytes after Close")
	}
	ok(t, store.Remove(save.ID()))
}

func TestASaveAndALoadKeepTheirMemoryUntilTheyAreClosed(t *testing.T) {
	reader := saved(t, nil, func(save *ckpt.Save) { ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(size), content(1))) })
	session := openSession(t, openStore(t))
	type handle interface {
		ckpt.Adder
		Close() error
	}
	for _, handle := range []handle{newSave(t, session, "a", nil), newLoad(t, reader)} {
		collected := make(chan struct{}, 1)
		func() {
			data := content(2)
			runtime.AddCleanup(&data[0], func(done chan struct{}) { done <- struct{}{} }, collected)
			ok(t, ckpt.AddSlice(handle, "w", ckpt.Shape(size), data))
		}()
		for range 5 {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		if len(collected) != 0 {
			t.Errorf("the memory of a %T was collected while it was open", handle)
		}
		ok(t, handle.Close())
		eventually(t, "the memory of a closed handle is collected", func() bool { return len(collected) == 1 })
	}
}
