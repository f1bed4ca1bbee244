package ckpt

// #include <stdlib.h>
// #include "ckpt_go.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrClosed is in the chain of the error that a call on a closed handle returns.
var ErrClosed = errors.New("ckpt: the handle is closed")

// Error is what a failed call returns.
type Error struct {
	Status  Status
	Message string // one line: what, where, found

	// Details holds the facts that the error has, such as path, part, tensor, rank, ranks, offset, expected, found.
	Details map[string]string

	causes []error // found by this package: a context's error, ErrClosed
}

// Detail returns one fact by its key; "" if the error has no such fact.
func (e *Error) Detail(key string) string { return e.Details[key] }

// Error returns the name of the status and the message.
func (e *Error) Error() string { return e.Status.Error() + ": " + e.Message }

// Unwrap lets errors.Is find the Status and, if a context or Close was the cause, the context's error or ErrClosed.
func (e *Error) Unwrap() []error { return append([]error{e.Status}, e.causes...) }

// fail turns the status and error of C into a Go error, and frees the latter.
func fail(status C.ckpt_status, from *C.ckpt_error) error {
	if status == C.CKPT_OK {
		return nil
	}
	made := &Error{Status: Status(status), Message: C.GoString(C.ckpt_error_message(from))}
	var value *C.char
	for i := C.size_t(0); ; i++ {
		key := C.ckpt_error_detail_at(from, i, &value)
		if key == nil {
			break
		}
		if made.Details == nil {
			made.Details = map[string]string{}
		}
		made.Details[C.GoString(key)] = C.GoString(value)
	}
	C.ckpt_error_free(from)
	return made
}

// invalid reports a caller's mistake that this package finds; `tensor` may be empty.
func invalid(tensor, format string, args ...any) error {
	made := &Error{Status: ErrInvalid, Message: fmt.Sprintf(format, args...)}
	if tensor != "" {
		made.Details = map[string]string{"tensor": tensor}
	}
	return made
}

func nilError(what string) error { return invalid("", "the %s is nil", what) }

func closedError(what string) error {
	return &Error{Status: ErrInvalid, Message: "the " + what + " is closed", causes: []error{ErrClosed}}
}

// reasonsOf returns the errors of a context that is done.
func reasonsOf(ctx context.Context) []error {
	if ctx.Err() == nil {
		return nil
	}
	return []error{ctx.Err(), context.Cause(ctx)}
}

// beforehand returns the error of work whose context is done before it begins.
func beforehand(ctx context.Context, what string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &Error{
		Status: ErrCancelled, Message: "the context was done before the " + what + " began", causes: reasonsOf(ctx),
	}
}

// blame adds the errors of the context that cancelled a job to the job's error: CANCELLED, or ABORTED if another
// cancelled rank closed the attempt first. A job that failed otherwise keeps its own error.
func blame(reasons []error, err error) {
	var made *Error
	if !errors.As(err, &made) {
		return
	}
	if made.Status == ErrCancelled || made.Status == ErrAborted && made.Detail("status") == ErrCancelled.Name() {
		made.causes = append(made.causes, reasons...)
	}
}

// zeroEnded returns text as C takes it. It is Go memory, which needs no free; C copies what it keeps.
func zeroEnded(text string) []C.char {
	made := make([]C.char, len(text)+1)
	for i := range len(text) {
		made[i] = C.char(text[i])
	}
	return made
}

// arguments converts the arguments of one call and keeps the first mistake in them.
type arguments struct {
	err error
	bag *C.ckpt_options
}

func (a *arguments) text(value string) *C.char {
	if strings.IndexByte(value, 0) >= 0 && a.err == nil {
		a.err = invalid("", "%q holds a NUL", value)
	}
	return &zeroEnded(value)[0]
}

// optional returns NULL for empty text.
func (a *arguments) optional(value string) *C.char {
	if value == "" {
		return nil
	}
	return a.text(value)
}

func (a *arguments) options(options Options) *C.ckpt_options {
	if a.err == nil && len(options) > 0 {
		a.bag, a.err = options.bag()
	}
	return a.bag
}

func (a *arguments) free() { C.ckpt_options_free(a.bag) }
