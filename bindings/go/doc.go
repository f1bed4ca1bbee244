// Package ckpt saves and loads training checkpoints.
//
// The ranks of a trainer save one checkpoint together; any number of ranks can load it. Every byte has a checksum, a
// save is committed for all ranks or for none, and loading runs no code. The package calls libckpt through cgo; ckpt.h
// describes each function and its options in full.
//
// A training loop needs a [Checkpointer]. Under it are [Session] and [Save], [Reader] and [Load].
//
// # Handles
//
// Store, Session, Save, Reader, Load, Share, Job, Tree, File, Keeper and MappedTensor own a C object. Close them in
// any order and as often as you like; each keeps alive what it was made from. After Close every call fails with
// [ErrClosed]. Calls that are running in other goroutines finish before the C object is freed; Close of a Save, a Load
// or a Job waits for them. The garbage collector frees a handle that becomes unreachable, but not a MappedTensor.
//
// # Goroutines
//
// Every method may be called from any goroutine at any time. Calls that change a Save, a Load or a Tree take turns. No
// context ends the wait for a turn: behind a Run(context.Background()) of the same Save, a call waits until Run ends.
//
// # Memory
//
// The package copies no tensors. From Run or Start on, do not write to memory that a Save has until the save is staged,
// and do not touch memory that a Load has until the load has ended. Run returns after that moment. After Start,
// [Job.Staged] reports it and [Job.Close] waits for it; closing the Save or Load changes nothing. The memory is pinned
// from AddTensor until then, or until you close a Save or Load that was never run or started.
//
// # Errors
//
// A call fails with an [*Error]: a [Status], a message, and facts such as the tensor's name. Each Status is a sentinel:
// errors.Is(err, ckpt.ErrNotFound).
package ckpt
