package ckpt_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// everything is one open handle of each kind, over a checkpoint with a tensor "w".
type everything struct {
	store   *ckpt.Store
	session *ckpt.Session
	save    *ckpt.Save
	job     *ckpt.Job
	reader  *ckpt.Reader
	load    *ckpt.Load
	tree    *ckpt.Tree
	mapped  *ckpt.MappedTensor
}

func newEverything(t testing.TB) *everything {
	e := &everything{store: openStore(t)}
	e.session = openSession(t, e.store)
	first := newSave(t, e.session, "a", nil)
	ok(t, ckpt.AddSlice(first, "w", ckpt.Shape(1024), ramp[float32](1024)))
	ok(t, first.SetAttr("k", "v"))
	e.job = need[*ckpt.Job](t)(first.Start(context.Background()))
	ok(t, e.job.Wait(context.Background(), ckpt.JobCommitted))
	e.save = newSave(t, e.session, "b", nil)
	e.reader = openReader(t, e.store)
	e.load = newLoad(t, e.reader)
	e.tree = need[*ckpt.Tree](t)(e.reader.Tree(""))
	e.mapped = need[*ckpt.MappedTensor](t)(e.reader.Map("w", nil))
	return e
}

func (e *everything) closers() []io.Closer {
	return []io.Closer{e.store, e.session, e.save, e.job, e.reader, e.load, e.tree, e.mapped}
}

// first is the error of a call; what the call made is closed.
func first[T any](made T, err error) error {
	if closer, closes := any(made).(io.Closer); closes && err == nil {
		return closer.Close()
	}
	return err
}

// calls are all fallible methods; each must say that its handle is closed.
func (e *everything) calls() map[string]func() error {
	ctx, w := context.Background(), make([]float32, 1024)
	return map[string]func() error{
		"OpenSession":   func() error { return first(ckpt.OpenSession(e.store, 0, 1, "", nil)) },
		"OpenReader":    func() error { return first(ckpt.OpenReader(e.store, "latest", nil)) },
		"Checkpoints":   func() error { return first(ckpt.Collect(e.store.Checkpoints())) },
		"Find":          func() error { return first(e.store.Find("latest", nil)) },
		"Remove":        func() error { return e.store.Remove("none.1.1") },
		"Prune":         func() error { return first(e.store.Prune(nil)) },
		"Repair":        func() error { return first(e.store.Repair("a.1.1", nil)) },
		"Import":        func() error { return first(e.store.Import("/none", "x", -1, nil)) },
		"NewSave":       func() error { return first(ckpt.NewSave(e.session, "c", -1, nil)) },
		"AddSlice":      func() error { return ckpt.AddSlice(e.save, "w", ckpt.Shape(1024), w) },
		"AddMemory":     func() error { return e.save.AddMemory("m", ckpt.Shape(0).As(ckpt.F32), nil, 0, ckpt.CPU, 0) },
		"AddObject":     func() error { return e.save.AddObject("o", "text/plain", ckpt.Shared, nil) },
		"AddAlias":      func() error { return e.save.AddAlias("alias", "w") },
		"AddAliasView":  func() error { return e.save.AddAliasView("view", "w", ckpt.Shape(2)) },
		"AddTree":       func() error { return e.save.AddTree("", e.tree) },
		"AddState":      func() error { return e.save.AddState("s", nil) },
		"SetAttr":       func() error { return e.save.SetAttr("k", "v") },
		"SetTensorAttr": func() error { return e.save.SetTensorAttr("w", "k", "v") },
		"Save.Run":      func() error { return e.save.Run(ctx) },
		"Save.Start":    func() error { return first(e.save.Start(ctx)) },
		"Wait":          func() error { return e.job.Wait(ctx, ckpt.JobCommitted) },
		"Stats":         func() error { return first(e.job.Stats()) },
		"Job.Report":    func() error { return first(e.job.Report()) },
		"Info":          func() error { return first(e.reader.Info()) },
		"TensorCount":   func() error { return first(e.reader.TensorCount()) },
		"Tensors":       func() error { return first(ckpt.Collect(e.reader.Tensors())) },
		"Tensor":        func() error { return first(e.reader.Tensor("w")) },
		"Alias":         func() error { return first(e.reader.Alias("w")) },
		"Segment":       func() error { return first(e.reader.Segment("w", 0)) },
		"Objects":       func() error { return first(ckpt.Collect(e.reader.Objects())) },
		"Object":        func() error { return first(e.reader.Object("o", 0)) },
		"ReadObject":    func() error { return first(e.reader.ReadObject(ctx, "o", 0)) },
		"Part":          func() error { return first(e.reader.Part(0)) },
		"Attrs":         func() error { return first(ckpt.Collect(e.reader.Attrs())) },
		"TensorAttrs":   func() error { return first(ckpt.Collect(e.reader.TensorAttrs("w"))) },
		"Attr":          func() error { _, _, err := e.reader.Attr("k"); return err },
		"TensorAttr":    func() error { _, _, err := e.reader.TensorAttr("w", "k"); return err },
		"Reader.Map":    func() error { return first(e.reader.Map("w", nil)) },
		"Verify":        func() error { return first(e.reader.Verify(ctx, nil)) },
		"Diff":          func() error { return first(e.reader.Diff(e.reader, nil)) },
		"Export":        func() error { return e.reader.Export("/nowhere/x.pt", nil) },
		"Reader.Tree":   func() error { return first(e.reader.Tree("")) },
		"NewLoad":       func() error { return first(ckpt.NewLoad(e.reader, nil)) },
		"Load.Add":      func() error { return ckpt.AddSlice(e.load, "w", ckpt.Shape(1024), w) },
		"Load.Object":   func() error { return e.load.AddObject("o", 0, nil) },
		"Load.Run":      func() error { return e.load.Run(ctx) },
		"Load.Start":    func() error { return first(e.load.Start(ctx)) },
		"Load.Report":   func() error { return first(e.load.Report()) },
		"Key":           func() error { return e.tree.Key("k") },
		"AddInt":        func() error { return e.tree.AddInt(1) },
		"Tree.Tensor":   func() error { return first(e.tree.AddTensor("w")) },
		"Begin":         func() error { return e.tree.Begin(ckpt.NodeList) },
		"Len":           func() error { return first(e.tree.Len()) },
		"At":            func() error { return first(e.tree.At(0)) },
		"Children":      func() error { return first(ckpt.Collect(e.tree.Children(0))) },
		"Tree.Find":     func() error { return first(e.tree.Find(0, "w")) },
		"FindInt":       func() error { return first(e.tree.FindInt(0, 1)) },
		"JSON":          func() error { return first(e.tree.JSON()) },
		"Value":         func() error { return first(e.tree.Value()) },
	}
}

func TestUseAfterCloseIsAnError(t *testing.T) {
	e := newEverything(t)
	for _, closer := range e.closers() {
		ok(t, closer.Close())
		ok(t, closer.Close())
	}
	for name, call := range e.calls() {
		if err := call(); !errors.Is(err, ckpt.ErrClosed) || !errors.Is(err, ckpt.ErrInvalid) {
			t.Errorf("%s on a closed handle: %v", name, err)
		}
	}
	if e.mapped.Bytes() != nil {
		t.Error("a closed view has bytes")
	}
	if e.job.State() != ckpt.JobCommitted {
		t.Errorf("a closed job ended as %v", e.job.State())
	}
	e.job.Cancel() // nothing to do
	if e.save.ID() != "b.1.1" || e.session.String() == "" {
		t.Errorf("what was read at the start is forgotten: %q, %q", e.save.ID(), e.session.String())
	}
}

func TestAHandleThatWasNeverOpenedIsClosed(t *testing.T) {
	e := &everything{
		new(ckpt.Store), new(ckpt.Session), new(ckpt.Save), new(ckpt.Job), new(ckpt.Reader), new(ckpt.Load),
		new(ckpt.Tree), new(ckpt.MappedTensor),
	}
	for name, call := range e.calls() {
		if err := call(); !errors.Is(err, ckpt.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, closer := range e.closers() {
		ok(t, closer.Close())
	}
}

func TestHandlesCloseInAnyOrder(t *testing.T) {
	for start := range 8 {
		e := newEverything(t)
		for i := range 8 {
			ok(t, e.closers()[(start+i*3)%8].Close())
		}
	}
}

// Close while other goroutines are inside calls: each call succeeds or says what is wrong; nothing crashes.
func TestCloseRacesWithEveryCall(t *testing.T) {
	for range 8 {
		e := newEverything(t)
		var running sync.WaitGroup
		begin := make(chan struct{})
		for name, call := range e.calls() {
			running.Go(func() {
				<-begin
				for range 4 {
					var known *ckpt.Error
					if err := call(); err != nil && !errors.As(err, &known) {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		for _, closer := range e.closers() {
			for range 2 {
				running.Go(func() {
					<-begin
					ok(t, closer.Close())
				})
			}
		}
		close(begin)
		running.Wait()
	}
}

func TestClosingAJobEndsThoseWhoWaitForIt(t *testing.T) {
	for range 20 {
		job := need[*ckpt.Job](t)(waiting(t, openStore(t), nil).Start(context.Background()))
		var waiters sync.WaitGroup
		for range 4 {
			waiters.Go(func() {
				err := job.Wait(context.Background(), ckpt.JobCommitted)
				if !errors.Is(err, ckpt.ErrCancelled) && !errors.Is(err, ckpt.ErrClosed) {
					t.Errorf("the job was closed: %v", err)
				}
				<-job.Done()
			})
		}
		ok(t, job.Close())
		if job.State() != ckpt.JobCancelled {
			t.Errorf("the job is %v", job.State())
		}
		waiters.Wait()
	}
}

func TestClosingTheReaderInsideItsLoopIsAnErrorOfTheNextStep(t *testing.T) {
	reader := saved(t, nil, func(save *ckpt.Save) {
		for _, name := range []string{"a", "b", "c"} {
			ok(t, ckpt.AddSlice(save, name, ckpt.Shape(1), []float32{1}))
		}
	})
	var names []string
	var last error
	for info, err := range reader.Tensors() {
		if last = err; err == nil {
			names = append(names, info.Name)
			reader.Close()
		}
	}
	is(t, last, ckpt.ErrClosed)
	if len(names) != 1 {
		t.Errorf("before the end there were %v", names)
	}
}

func TestGoroutinesMayAddToOneSave(t *testing.T) {
	const goroutines, each = 8, 50
	reader := saved(t, nil, func(save *ckpt.Save) {
		var adders sync.WaitGroup
		for g := range goroutines {
			adders.Go(func() {
				for i := range each {
					name := string(rune('a'+g)) + string(rune('A'+i))
					if err := ckpt.AddSlice(save, name, ckpt.Shape(64), ramp[float32](64)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		adders.Wait()
	})
	if count := need[uint64](t)(reader.TensorCount()); count != goroutines*each {
		t.Errorf("%d tensors", count)
	}
}

func TestASaveRunsOnce(t *testing.T) {
	save := newSave(t, openSession(t, openStore(t)), "a", nil)
	ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(4), ramp[float32](4)))
	ok(t, save.Run(context.Background()))
	is(t, save.Run(context.Background()), ckpt.ErrInvalid)
	is(t, first(save.Start(context.Background())), ckpt.ErrInvalid)
	is(t, ckpt.AddSlice(save, "v", ckpt.Shape(4), ramp[float32](4)), ckpt.ErrInvalid)
}
