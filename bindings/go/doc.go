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
// that is [ErrClosed]. What a call that is running in another goroutine uses is freed when that call has finished;
// Close of a Save, a Load or a Job returns only then. A handle that becomes unreachable is freed by the garbage
// collector, MappedTensor excepted.
//
// # Goroutines
//
// Every method may be called from any goroutine at any time. Calls that change a Save, a Load or a Tree take turns, and
// no context ends the waiting for a turn: behind a Run(context.Background()) of the same Save it lasts until that ends.
//
// # Memory
//
// No tensor is copied on its way to the engine. What is given to AddTensor and AddSlice must not be written (Save) or
// touched at all (Load) from Run or Start until the save is staged or the load has ended. Run returns after that
// moment. After Start the [Job] decides: [Job.Staged] tells of it, [Job.Close] waits for it, and closing the Save or
// Load changes nothing. The memory is pinned from AddTensor until then, or until a Save or Load is closed that was not
// run or started.
//
// # Errors
//
// A call fails with an [*Error]: a [Status], a message and facts such as the tensor's name. The Status values are
// sentinels: errors.Is(err, ckpt.ErrNotFound).
package ckpt
