package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"sync"
	"unsafe"
)

// Buffer is zeroed memory to load into, outside of Go's heap: on huge pages, and made by several threads, because a
// load into new memory of another kind takes longer. Its bytes hold elements of any dtype.
type Buffer struct {
	mu   sync.Mutex
	data []byte
}

// NewBuffer makes a buffer. The garbage collector does not free it, since slices of it may still be in use: call Close.
// Errors: ErrNoMemory.
func NewBuffer(size uint64) (*Buffer, error) {
	var out unsafe.Pointer
	var cerr *C.ckpt_error
	if status := C.ckpt_buffer_alloc(&out, C.uint64_t(size), &cerr); status != C.CKPT_OK {
		return nil, fail(status, cerr)
	}
	return &Buffer{data: unsafe.Slice((*byte)(out), size)}, nil
}

// Bytes returns the memory, for [Load.AddTensor]. The slice is valid until Close; after that Bytes is nil.
func (b *Buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data
}

// Close frees the memory, which no load may use any more. It always returns nil.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	C.ckpt_buffer_free(unsafe.Pointer(unsafe.SliceData(b.data)), C.uint64_t(len(b.data)))
	b.data = nil
	return nil
}
