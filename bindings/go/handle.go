package ckpt

import (
	"runtime"
	"sync"
)

// handle owns one C object of pointer type P. It counts the users of the object: its owner until Close, every call that
// is inside C, and every view of the object's memory. The last user frees it. So neither Close nor the garbage
// collector frees it during a call, and no call needs runtime.KeepAlive.
type handle[P comparable] struct {
	what string // "reader", for messages
	free func(P)

	// As ckpt.h says under Threads: functions that take a const object share it, others need it alone.
	turn sync.RWMutex

	mu     sync.Mutex // guards what follows
	ptr    P
	uses   int
	closed bool
	freed  chan struct{}
}

func newHandle[P comparable](what string, ptr P, free func(P)) *handle[P] {
	return &handle[P]{what: what, ptr: ptr, free: free, uses: 1, freed: make(chan struct{})}
}

// hold adds a user, who must call drop; it does not wait for a turn. The zero wrapper (&Store{}) has no handle and
// counts as closed.
func (h *handle[P]) hold() (P, error) {
	var none P
	if h == nil {
		return none, closedError("handle")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return none, closedError(h.what)
	}
	h.uses++
	return h.ptr, nil
}

func (h *handle[P]) drop() {
	h.mu.Lock()
	h.uses--
	last := h.uses == 0
	h.mu.Unlock()
	if last { // then the handle is closed, and hold adds no more users
		h.free(h.ptr)
		close(h.freed)
	}
}

// enter begins a call that shares the object; leave ends it.
func (h *handle[P]) enter() (P, error) {
	ptr, err := h.hold()
	if err == nil {
		h.turn.RLock()
	}
	return ptr, err
}

func (h *handle[P]) leave() {
	h.turn.RUnlock()
	h.drop()
}

// enterAlone begins a call that changes the object; leaveAlone ends it.
func (h *handle[P]) enterAlone() (P, error) {
	ptr, err := h.hold()
	if err == nil {
		h.turn.Lock()
	}
	return ptr, err
}

func (h *handle[P]) leaveAlone() {
	h.turn.Unlock()
	h.drop()
}

// close ends the owner's use, once.
func (h *handle[P]) close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	h.mu.Unlock()
	if first {
		h.drop()
	}
}

// owned ties a handle to the Go object that users hold: closing or collecting that object closes the handle.
type owned[P comparable] struct {
	*handle[P]
	cleanup runtime.Cleanup
}

// own sets the handle of `wrapper`; `slot` is its field for it.
func own[W any, P comparable](wrapper *W, slot *owned[P], h *handle[P]) {
	slot.handle = h
	slot.cleanup = runtime.AddCleanup(wrapper, func(h *handle[P]) { h.close() }, h)
}

// end closes the handle, and spares the garbage collector the cleanup.
func (o *owned[P]) end() {
	o.cleanup.Stop()
	o.close()
}

// endAndWait also waits until all calls on the object have returned and it is freed.
func (o *owned[P]) endAndWait() {
	o.end()
	if o.handle != nil {
		<-o.freed
	}
}
