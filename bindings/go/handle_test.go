package ckpt_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/big"
	"reflect"
	"sync"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// everything is one open handle of each kind, over a checkpoint with a tensor "w" and a sparse table "t".
type everything struct {
	store   *ckpt.Store
	session *ckpt.Session
	save    *ckpt.Save
	job     *ckpt.Job
	reader  *ckpt.Reader
	load    *ckpt.Load
	share   *ckpt.Share
	tree    *ckpt.Tree
	file    *ckpt.File
	mapped  *ckpt.MappedTensor
}

func newEverything(t testing.TB) *everything {
	e := &everything{store: openStore(t)}
	e.session = openSession(t, e.store)
	first := newSave(t, e.session, "a", nil)
	ok(t, ckpt.AddSlice(first, "w", ckpt.Shape(1024), ramp[float32](1024)))
	ok(t, first.AddTable("t", ckpt.RowsOf([]int64{5})))
	ok(t, first.SetAttr("k", "v"))
	e.job = need[*ckpt.Job](t)(first.Start(context.Background()))
	ok(t, e.job.Wait(context.Background(), ckpt.JobCommitted))
	e.save = newSave(t, e.session, "b", nil)
	e.reader = openReader(t, e.store)
	e.load = newLoad(t, e.reader)
	e.share = openShare(t, e.reader, ckpt.AllRows())
	e.tree = need[*ckpt.Tree](t)(e.reader.Tree(""))
	path := t.TempDir() + "/w.safetensors"
	ok(t, e.reader.Export(context.Background(), path, nil))
	e.file = need[*ckpt.File](t)(ckpt.OpenFile(path, nil))
	e.mapped = need[*ckpt.MappedTensor](t)(e.reader.Map("w", nil))
	return e
}

func (e *everything) closers() []io.Closer {
	return []io.Closer{e.store, e.session, e.save, e.job, e.reader, e.load, e.share, e.tree, e.file, e.mapped}
}

// first returns the error of a call, and closes what the call made.
func first[T any](made T, err error) error {
	if closer, closes := any(made).(io.Closer); closes && err == nil {
		return closer.Close()
	}
	return err
}

// calls returns all methods that can fail, by name, and the functions that take a handle; each must report that its
// handle is closed.
func (e *everything) calls() map[string]func() error {
	all := map[string]func() error{}
	for _, some := range []map[string]func() error{e.storeCalls(), e.saveCalls(), e.readerCalls(), e.treeCalls()} {
		maps.Copy(all, some)
	}
	return all
}

func (e *everything) storeCalls() map[string]func() error {
	return map[string]func() error{
		"OpenSession":       func() error { return first(ckpt.OpenSession(context.Background(), e.store, 0, 1, "", nil)) },
		"OpenReader":        func() error { return first(ckpt.OpenReader(e.store, "latest", nil)) },
		"NewSave":           func() error { return first(ckpt.NewSave(e.session, "c", -1, nil)) },
		"Session.Mirror":    func() error { return first(e.session.Mirror(context.Background())) },
		"Store.Checkpoints": func() error { return first(ckpt.Collect(e.store.Checkpoints())) },
		"Store.Runs":        func() error { return first(e.store.Runs()) },
		"Store.Find":        func() error { return first(e.store.Find("latest", nil)) },
		"Store.Remove":      func() error { return e.store.Remove("none.1.1") },
		"Store.Keep":        func() error { return e.store.Keep("s1.1.1", true) },
		"Store.Name":        func() error { return e.store.Name("main", "n", "s1.1.1") },
		"Store.Prune":       func() error { return first(e.store.Prune(context.Background(), nil)) },
		"Store.Repair":      func() error { return first(e.store.Repair(context.Background(), "a.1.1", nil)) },
		"Store.Import":      func() error { return first(e.store.Import(context.Background(), "/none", "x", -1, nil)) },
	}
}

func (e *everything) saveCalls() map[string]func() error {
	ctx, w := context.Background(), make([]float32, 1024)
	none := ckpt.Shape(0).As(ckpt.F32)
	return map[string]func() error{
		"AddSlice of a save": func() error { return ckpt.AddSlice(e.save, "w", ckpt.Shape(1024), w) },
		"Save.AddTensor":     func() error { return e.save.AddTensor("n", none, nil) },
		"Save.AddMemory":     func() error { return e.save.AddMemory("m", none, nil, 0, ckpt.CPU, 0) },
		"Save.AddTable":      func() error { return e.save.AddTable("t", ckpt.RowsOf([]int64{5})) },
		"Save.AddObject":     func() error { return e.save.AddObject("o", "text/plain", ckpt.Shared, nil) },
		"Save.AddAlias":      func() error { return e.save.AddAlias("alias", "w") },
		"Save.AddAliasView":  func() error { return e.save.AddAliasView("view", "w", ckpt.Shape(2)) },
		"Save.AddTree":       func() error { return e.save.AddTree("", e.tree) },
		"Save.AddState":      func() error { return e.save.AddState("s", nil) },
		"Save.SetAttr":       func() error { return e.save.SetAttr("k", "v") },
		"Save.SetTensorAttr": func() error { return e.save.SetTensorAttr("w", "k", "v") },
		"Save.Run":           func() error { return e.save.Run(ctx) },
		"Save.GiveUp":        func() error { return e.save.GiveUp("no room") },
		"Save.Start":         func() error { return first(e.save.Start(ctx)) },
		"Save.Report":        func() error { return first(e.save.Report()) },
		"Save.StartInPlace":  func() error { return first(e.save.StartInPlace(ctx)) },
		"Job.Wait":           func() error { return e.job.Wait(ctx, ckpt.JobCommitted) },
		"Job.Stats":          func() error { return first(e.job.Stats()) },
		"Job.Report":         func() error { return first(e.job.Report()) },
	}
}

func (e *everything) readerCalls() map[string]func() error {
	ctx, w := context.Background(), make([]float32, 1024)
	none := ckpt.Shape(0).As(ckpt.F32)
	return map[string]func() error{
		"ReadSlice":          func() error { _, _, err := ckpt.ReadSlice[byte](ctx, e.reader, "w", nil); return err },
		"Reader.Info":        func() error { return first(e.reader.Info()) },
		"Reader.Report":      func() error { return first(e.reader.Report()) },
		"Reader.TensorCount": func() error { return first(e.reader.TensorCount()) },
		"Reader.Tensors":     func() error { return first(ckpt.Collect(e.reader.Tensors())) },
		"Reader.Tensor":      func() error { return first(e.reader.Tensor("w")) },
		"Reader.Alias":       func() error { return first(e.reader.Alias("w")) },
		"Reader.Segment":     func() error { return first(e.reader.Segment("w", 0)) },
		"Reader.Tables":      func() error { return first(ckpt.Collect(e.reader.Tables())) },
		"Reader.Table":       func() error { return first(e.reader.Table("t")) },
		"Reader.Columns":     func() error { return first(e.reader.Columns("t")) },
		"Reader.Share":       func() error { return first(e.reader.Share(context.Background(), "t", ckpt.AllRows(), nil)) },
		"Share.WindowRows":   func() error { return first(e.share.WindowRows(0)) },
		"Share.Missing":      func() error { return first(e.share.Missing()) },
		"Reader.Objects":     func() error { return first(ckpt.Collect(e.reader.Objects())) },
		"Reader.Object":      func() error { return first(e.reader.Object("o", 0)) },
		"Reader.ReadObject":  func() error { return first(e.reader.ReadObject(ctx, "o", 0)) },
		"Reader.Part":        func() error { return first(e.reader.Part(0)) },
		"Reader.Attrs":       func() error { return first(ckpt.Collect(e.reader.Attrs())) },
		"Reader.TensorAttrs": func() error { return first(ckpt.Collect(e.reader.TensorAttrs("w"))) },
		"Reader.Attr":        func() error { _, _, err := e.reader.Attr("k"); return err },
		"Reader.TensorAttr":  func() error { _, _, err := e.reader.TensorAttr("w", "k"); return err },
		"Reader.Map":         func() error { return first(e.reader.Map("w", nil)) },
		"Reader.Verify":      func() error { return first(e.reader.Verify(ctx, nil)) },
		"Reader.Diff":        func() error { return first(e.reader.Diff(context.Background(), e.reader, nil)) },
		"Reader.Copy":        func() error { return first(e.reader.Copy(context.Background(), e.store, nil)) },
		"Reader.Export":      func() error { return e.reader.Export(context.Background(), "/nowhere/x.pt", nil) },
		"Reader.Tree":        func() error { return first(e.reader.Tree("")) },
		"Reader.TreeOfRank":  func() error { return first(e.reader.TreeOfRank("", 1)) },
		"NewLoad":            func() error { return first(ckpt.NewLoad(e.reader, nil)) },
		"AddSlice of a load": func() error { return ckpt.AddSlice(e.load, "w", ckpt.Shape(1024), w) },
		"Load.AddTensor":     func() error { return e.load.AddTensor("n", none, nil) },
		"Load.AddMemory":     func() error { return e.load.AddMemory("m", none, nil, 0, ckpt.CPU, 0) },
		"Load.AddTable":      func() error { return e.load.AddTable(e.share, 0, ckpt.RowsOf(make([]int64, 1))) },
		"Load.AddObject":     func() error { return e.load.AddObject("o", 0, nil) },
		"Load.Run":           func() error { return e.load.Run(ctx) },
		"Load.Start":         func() error { return first(e.load.Start(ctx)) },
		"Load.Report":        func() error { return first(e.load.Report()) },
		"File.Format":        func() error { return first(e.file.Format()) },
		"File.LeftOut":       func() error { return first(e.file.LeftOut()) },
		"File.TensorCount":   func() error { return first(e.file.TensorCount()) },
		"File.Tensors":       func() error { return first(ckpt.Collect(e.file.Tensors())) },
		"File.Tensor":        func() error { return first(e.file.Tensor(0)) },
		"File.Map":           func() error { return first(e.file.Map(0)) },
		"File.Read":          func() error { return e.file.Read(0, ckpt.Shape(1024).As(ckpt.F32), ckpt.BytesOf(w)) },
		"ReadFileInto":       func() error { return ckpt.ReadFileInto(e.file, 0, ckpt.Shape(1024), w) },
		"ReadFileSlice":      func() error { _, _, err := ckpt.ReadFileSlice[byte](e.file, 0); return err },
		"File.Tree":          func() error { return first(e.file.Tree()) },
	}
}

func (e *everything) treeCalls() map[string]func() error {
	return map[string]func() error{
		"Tree.Key":         func() error { return e.tree.Key("k") },
		"Tree.KeyInt":      func() error { return e.tree.KeyInt(1) },
		"Tree.AddNull":     func() error { return e.tree.AddNull() },
		"Tree.AddBool":     func() error { return e.tree.AddBool(true) },
		"Tree.AddInt":      func() error { return e.tree.AddInt(1) },
		"Tree.AddBigInt":   func() error { return e.tree.AddBigInt(big.NewInt(1)) },
		"Tree.AddDigits":   func() error { return e.tree.AddDigits("1") },
		"Tree.AddFloat":    func() error { return e.tree.AddFloat(1) },
		"Tree.AddText":     func() error { return e.tree.AddText("text") },
		"Tree.AddBytes":    func() error { return e.tree.AddBytes([]byte{1}) },
		"Tree.AddTensor":   func() error { return first(e.tree.AddTensor("w")) },
		"Tree.Begin":       func() error { return e.tree.Begin(ckpt.NodeList) },
		"Tree.BeginRecord": func() error { return e.tree.BeginRecord("torch.Size") },
		"Tree.End":         func() error { return e.tree.End() },
		"Tree.Len":         func() error { return first(e.tree.Len()) },
		"Tree.At":          func() error { return first(e.tree.At(0)) },
		"Tree.Children":    func() error { return first(ckpt.Collect(e.tree.Children(0))) },
		"Tree.Find":        func() error { return first(e.tree.Find(0, "w")) },
		"Tree.FindInt":     func() error { return first(e.tree.FindInt(0, 1)) },
		"Tree.JSON":        func() error { return first(e.tree.JSON()) },
		"Tree.Value":       func() error { return first(e.tree.Value()) },
		"Tree.ValueAt":     func() error { return first(e.tree.ValueAt(0)) },
	}
}

// fallible says whether a method returns an error last, or yields one last.
func fallible(method reflect.Type) bool {
	if method.NumOut() == 0 {
		return false
	}
	last := method.Out(method.NumOut() - 1)
	if last.Kind() == reflect.Func && last.NumIn() == 1 && last.In(0).Kind() == reflect.Func {
		yield := last.In(0)
		last = yield.In(yield.NumIn() - 1)
	}
	return last == reflect.TypeFor[error]()
}

func TestTheCallsAreAllFallibleMethods(t *testing.T) {
	calls := new(everything).calls()
	for _, closer := range new(everything).closers() {
		kind := reflect.TypeOf(closer)
		for i := range kind.NumMethod() {
			method := kind.Method(i)
			name := kind.Elem().Name() + "." + method.Name
			if _, known := calls[name]; !known && fallible(method.Type) && method.Name != "Close" {
				t.Errorf("%s is called by no test of closed handles", name)
			}
		}
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
		new(ckpt.Share), new(ckpt.Tree), new(ckpt.File), new(ckpt.MappedTensor),
	}
	for name, call := range e.calls() {
		if err := call(); !errors.Is(err, ckpt.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, closer := range e.closers() {
		ok(t, closer.Close())
	}
	<-e.job.Staged() // as those of a closed job
	<-e.job.Done()
	e.job.Cancel()
	if e.job.State() != ckpt.JobFailed || e.mapped.Bytes() != nil || e.save.ID() != "" ||
		e.session.String() != "" || e.share.RowCount() != 0 {
		t.Error("a handle that was never opened has something")
	}
}

func TestHandlesCloseInAnyOrder(t *testing.T) {
	const count = 10
	for start := range count {
		e := newEverything(t)
		for i := range count {
			ok(t, e.closers()[(start+i*3)%count].Close())
		}
	}
}

// Close while other goroutines are inside calls: each call succeeds or returns an error; nothing crashes.
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
					var known *ckpt.Error // of a save that failed in the background of the session
					if err := closer.Close(); err != nil && !errors.As(err, &known) {
						t.Error(err)
					}
				})
			}
		}
		close(begin)
		running.Wait()
	}
}

func TestCancellingAJobEndsThoseWhoWaitForItAndClosingItDoesNot(t *testing.T) {
	for range 20 {
		job := need[*ckpt.Job](t)(waiting(t, openStore(t), nil).Start(context.Background()))
		var waiters sync.WaitGroup
		for range 4 {
			waiters.Go(func() {
				err := job.Wait(context.Background(), ckpt.JobCommitted)
				if !errors.Is(err, ckpt.ErrCancelled) && !errors.Is(err, ckpt.ErrClosed) {
					t.Errorf("the job was cancelled: %v", err)
				}
				<-job.Done()
			})
		}
		job.Cancel()
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
