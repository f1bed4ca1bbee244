package ckpt

import (
	"sync"
	"unsafe"
)

// MappedTensor is a read-only view of a tensor's bytes in a checkpoint or a file, without a copy. It keeps the
// checkpoint or file open, so the Reader or File may be closed first. It is the one handle that the garbage collector
// does not close, because slices of its memory may still be in use: a view that is never closed stays mapped.
type MappedTensor struct {
	mu   sync.Mutex
	data []byte
	drop func() // nil once closed
}

// newMapped makes a view of memory that lives as long as the object of `h`, which the caller has entered.
func newMapped[P comparable](h *handle[P], data unsafe.Pointer, size uint64) *MappedTensor {
	h.mu.Lock()
	h.uses++
	h.mu.Unlock()
	return &MappedTensor{data: unsafe.Slice((*byte)(data), size), drop: h.drop}
}

// Bytes returns the elements in row-major order (for a tensor of a [File], as its strides say), not always aligned. The
// slice is valid until Close; to use it afterwards, or to write to it, ends the process. After Close, Bytes is nil.
func (m *MappedTensor) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data
}

// Close ends the view and always returns nil.
func (m *MappedTensor) Close() error {
	m.mu.Lock()
	drop := m.drop
	m.data, m.drop = nil, nil
	m.mu.Unlock()
	if drop != nil {
		drop()
	}
	return nil
}
