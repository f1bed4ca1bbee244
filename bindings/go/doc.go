// Package ckpt saves and loads training checkpoints.
//
// A trainer's ranks save one checkpoint together; any number of ranks load it again. Every byte is checksummed, a save
// is committed for all ranks or for none, and loading runs no code. The package binds libckpt through cgo; what a call
// does in full, and its options, stand in ckpt.h at the function of the same name.
//
// # Handles
//
// Store, Session, Save, Reader, Load, Job, Tree, File and MappedTensor own something in C. Close ends them, in any
// order and as often as you like; each keeps alive what it was made from. After Close every call returns an error
// that is [ErrClosed]. A call that is running in another goroutine while Close is called finishes first. A handle
// that becomes unreachable is freed by the garbage collector, MappedTensor excepted.
//
// # Goroutines
//
// Every method may be called from any goroutine at any time. Calls that change a Save, a Load or a Tree take turns.
//
// # Memory
//
// No tensor is copied on its way to the engine. What is given to AddTensor and AddSlice is pinned from then until the
// save is staged, the load has ended, or the Save or Load is closed. It must not be written (Save) or touched at all
// (Load) from Run or Start until then: Run returns after that moment, [Job.Wait] tells it of a job.
//
// # Errors
//
// A call fails with an [*Error]: a [Status], a message and facts such as the tensor's name. The Status values are
// sentinels: errors.Is(err, ckpt.ErrNotFound).
package ckpt
