package ckpt

import (
	"runtime"
	"unsafe"
)

// memory is the caller's memory that a Save or a Load uses. It is pinned, because C keeps its addresses after the call
// returns: the garbage collector neither moves nor frees it. Memory from outside of Go needs no pin.
type memory struct{ pinner *runtime.Pinner }

func newMemory() *memory { return &memory{new(runtime.Pinner)} }

func (m *memory) keep(data unsafe.Pointer) {
	if data != nil {
		m.pinner.Pin(data)
	}
}

// take moves all of it to a job.
func (m *memory) take() *memory {
	taken := &memory{m.pinner}
	m.pinner = new(runtime.Pinner)
	return taken
}

// release unpins it; calling it twice is harmless.
func (m *memory) release() { m.pinner.Unpin() }
