package ckpt

import (
	"runtime"
	"unsafe"
)

// memory is what a Save or a Load has of the caller's: pinned, because C keeps its addresses after the call returns.
// The garbage collector neither moves nor frees what is pinned. Memory that is not Go's is left as it is.
type memory struct{ pinner *runtime.Pinner }

func newMemory() *memory { return &memory{new(runtime.Pinner)} }

func (m *memory) keep(data unsafe.Pointer) {
	if data != nil {
		m.pinner.Pin(data)
	}
}

// take hands all of it to a job.
func (m *memory) take() *memory {
	taken := &memory{m.pinner}
	m.pinner = new(runtime.Pinner)
	return taken
}

// release gives it back to the caller; also when it is done twice.
func (m *memory) release() { m.pinner.Unpin() }
