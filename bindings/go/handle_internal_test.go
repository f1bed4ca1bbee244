package ckpt

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wrapper stands for Store, Reader, …
type wrapper struct {
	h    owned[*int]
	text string
}

func newWrapper(freed *atomic.Int64) *wrapper {
	made := &wrapper{text: "some text"}
	own(made, &made.h, newHandle("thing", new(int), func(p *int) {
		if *p != 0 {
			panic("freed twice, or under a call")
		}
		*p = -1
		freed.Add(1)
	}))
	return made
}

func TestEveryDroppedHandleIsFreedOnce(t *testing.T) {
	var freed atomic.Int64
	const count = 1000
	for i := range count {
		made := newWrapper(&freed)
		if i%3 == 0 {
			made.h.end()
		}
		if i%5 == 0 {
			made.h.end()
		}
	}
	for deadline := time.Now().Add(time.Minute); freed.Load() < count && time.Now().Before(deadline); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if freed.Load() != count {
		t.Errorf("%d of %d were freed", freed.Load(), count)
	}
}

func TestEveryTreeThatIsDroppedIsFreedInC(t *testing.T) {
	const count = 500
	var gone []chan struct{}
	for range count {
		tree, err := NewTree()
		if err != nil {
			t.Fatal(err)
		}
		gone = append(gone, tree.h.freed) // the handle's, not the tree
	}
	deadline := time.After(time.Minute)
	for i := range gone {
		for open := true; open; {
			runtime.GC()
			select {
			case <-gone[i]:
				open = false
			case <-time.After(time.Millisecond):
			case <-deadline:
				t.Fatalf("tree %d is still there", i)
			}
		}
	}
}

// The object is not freed while a call is inside, no matter who closes, and no call begins after Close.
func TestTheLastOneOutFrees(t *testing.T) {
	for range 200 {
		var freed atomic.Int64
		made := newWrapper(&freed)
		var inside sync.WaitGroup
		for range 8 {
			inside.Go(func() {
				for {
					object, err := made.h.enter()
					if err != nil {
						return
					}
					if *object != 0 {
						t.Error("a call is inside a freed object")
					}
					runtime.Gosched()
					made.h.leave()
				}
			})
		}
		runtime.Gosched()
		for range 2 {
			inside.Go(made.h.end)
		}
		inside.Wait()
		<-made.h.freed
		if freed.Load() != 1 {
			t.Fatalf("freed %d times", freed.Load())
		}
	}
}

func TestCallsThatChangeTakeTurnsAndOthersDoNot(t *testing.T) {
	var freed atomic.Int64
	made := newWrapper(&freed)
	if _, err := made.h.enter(); err != nil {
		t.Fatal(err)
	}
	if _, err := made.h.enter(); err != nil { // a second one does not wait
		t.Fatal(err)
	}
	alone := make(chan struct{})
	go func() {
		_, _ = made.h.enterAlone()
		close(alone)
	}()
	select {
	case <-alone:
		t.Error("a call that changes the object came in beside others")
	case <-time.After(20 * time.Millisecond):
	}
	made.h.leave()
	made.h.leave()
	<-alone
	made.h.leaveAlone()
	made.h.end()
	<-made.h.freed
}

// A caller that drops the view and keeps a slice of it must not read freed memory.
func TestAForgottenViewStaysMapped(t *testing.T) {
	store, err := OpenStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	session, err := OpenSession(context.Background(), store, 0, 1, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	save, err := NewSave(session, "a", -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer save.Close()
	added := AddSlice(save, "w", Shape(5), []byte("state"))
	if err := errors.Join(added, save.Run(context.Background())); err != nil {
		t.Fatal(err)
	}
	reader, err := OpenReader(store, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := reader.Map("w", nil)
	if err != nil {
		t.Fatal(err)
	}
	data, drop := view.Bytes(), view.drop
	gone := make(chan struct{})
	runtime.AddCleanup(view, func(gone chan struct{}) { close(gone) }, gone)
	view = nil
	reader.Close()
	for collected := false; !collected; {
		runtime.GC()
		select {
		case <-gone:
			collected = true
		case <-time.After(time.Millisecond):
		}
	}
	if string(data) != "state" {
		t.Errorf("the memory shows %q", data)
	}
	drop()
}
