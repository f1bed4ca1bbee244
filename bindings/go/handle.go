package ckpt

import (
	"runtime"
	"sync"
)

// handle owns one C object of pointer type P. It counts who needs the object: its owner until Close, every call that is
// inside C, and every view of the object's memory. The last one out frees it, so neither Close nor the garbage
// collector can free under a call, and nobody needs runtime.KeepAlive: the call holds a count instead.
type handle[P comparable] struct {
	what string // "reader", for messages
	free func(P)

	// ckpt.h's thread rule: functions that take a const object share it, others need it alone.
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

// hold gives the object to one more user, who must drop it; it does not wait for a turn. The zero wrapper (&Store{})
// has no handle and is closed.
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
	if last { // closed, so that nobody can come in again
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

// owned ties a handle to the Go object that users hold: freed when that is closed, or collected.
type owned[P comparable] struct {
	*handle[P]
	cleanup runtime.Cleanup
}

// own sets the handle of `wrapper`, whose field `slot` is.
func own[W any, P comparable](wrapper *W, slot *owned[P], h *handle[P]) {
	slot.handle = h
	slot.cleanup = runtime.AddCleanup(wrapper, func(h *handle[P]) { h.close() }, h)
}

// end closes and tells the garbage collector that there is nothing left to do.
func (o *owned[P]) end() {
	o.cleanup.Stop()
	o.close()
}

// endAndWait returns after the calls that are inside: whoever closes may rely on what they were doing being over.
func (o *owned[P]) endAndWait() {
	o.end()
	if o.handle != nil {
		<-o.freed
	}
}
