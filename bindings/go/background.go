package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// saves are those of one session that may still run in the background.
type saves struct {
	mu      sync.Mutex
	running []*keptSave
}

// keptSave is one of them. It does not hold the Job, which may be dropped.
type keptSave struct {
	label  string
	work   *progress
	cancel func()
	told   atomic.Bool // somebody learned the failure, or asked for it by a cancel
}

func (s *saves) add(save *keptSave) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, save)
}

// failure returns the first failure of a save that has ended and of which nobody was told. It forgets all that ended.
func (s *saves) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first error
	left := s.running[:0]
	for _, save := range s.running {
		select {
		case <-save.work.ended:
			if err := save.untold(); first == nil {
				first = err
			}
		default:
			left = append(left, save)
		}
	}
	clear(s.running[len(left):])
	s.running = left
	return first
}

// untold is called once the save has ended.
func (k *keptSave) untold() error {
	failed := k.work.failed
	if failed == nil || k.work.reasons != nil || k.told.Swap(true) { // reasons: the caller's context cancelled it
		return nil
	}
	return &Error{
		Status: failed.Status, Details: failed.Details, causes: failed.causes,
		Message: fmt.Sprintf("the save %q in the background failed: %s", k.label, failed.Message),
	}
}

func (s *saves) each(do func(save *keptSave)) {
	s.mu.Lock()
	all := append([]*keptSave(nil), s.running...)
	s.mu.Unlock()
	for _, save := range all {
		do(save)
	}
}

// end waits for all of them. While a panic unwinds it cancels them first, so that other ranks do not wait.
func (s *saves) end() error {
	if panics() {
		s.each(func(save *keptSave) {
			save.told.Store(true)
			save.cancel()
		})
	}
	s.each(func(save *keptSave) { <-save.work.ended })
	return s.failure()
}

// panics tells whether this goroutine runs deferred functions of a panic. Only recover says so, too, and that would end
// the panic.
func panics() bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	for frame, more := frames.Next(); ; frame, more = frames.Next() {
		if strings.HasPrefix(frame.Function, "runtime.gopanic") {
			return true
		}
		if !more {
			return false
		}
	}
}
