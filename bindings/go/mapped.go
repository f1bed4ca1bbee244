package ckpt

import (
	"sync"
	"unsafe"
)

// MappedTensor is a read-only view of a tensor's bytes in a checkpoint or a file, without a copy. It keeps the
// checkpoint or file open, so that Reader and File may be closed before it. It is the one handle that the garbage
// collector does not close: slices of its memory may live on unseen, so one that is never closed stays mapped.
type MappedTensor struct {
	mu   sync.Mutex
	data []byte
	drop func() // nil once closed
}

// newMapped views memory that lives as long as the object of `h`, which the caller has entered.
func newMapped[P comparable](h *handle[P], data unsafe.Pointer, size uint64) *MappedTensor {
	h.mu.Lock()
	h.uses++
	h.mu.Unlock()
	return &MappedTensor{data: unsafe.Slice((*byte)(data), size), drop: h.drop}
}

// Bytes is the memory: of the elements in row-major order (of a [File]'s tensor in the order of its strides). It is
// valid until Close and nil after it; using a slice of it after Close, or writing to it, ends the process. It is not
// always aligned to the elements.
func (m *MappedTensor) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data
}

// Close ends the view. The error is always nil.
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
