// Package conformance runs the scenarios of tests/conformance with the public API of package ckpt. The README there
// describes tokens and commands.
package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// commands are those of the README. An error of a call of the binding goes through must or try; any other mistake ends
// the scenario through runner.fail.
var commands = map[string]func(r *runner){}

// list adds the commands of one subject to the others.
func list(subject map[string]func(r *runner)) struct{} {
	maps.Copy(commands, subject)
	return struct{}{}
}

// token is one token of a command; KEY=VALUE is split.
type token struct {
	kind       byte
	key, value string
}

// runner runs one command after the other.
type runner struct {
	where, command string // FILE:LINE: COMMAND, and the command
	timed          bool
	words          []string
	keys, details  []token
	options        ckpt.Options
	status         string // the status that the call must end with
	objects        map[string]object
}

// failure is what runner.fail panics with, and callError what must and try panic with; Run recovers both.
type failure string
type callError struct{ error }

func (r *runner) fail(format string, args ...any) {
	panic(failure(r.where + ": " + fmt.Sprintf(format, args...)))
}

// check ends the scenario if something other than ckpt failed.
func (r *runner) check(err error) {
	if err != nil {
		r.fail("expected no error, found %v", err)
	}
}

func must(err error) {
	if err != nil {
		panic(callError{err})
	}
}

func try[T any](value T, err error) T {
	must(err)
	return value
}

// Main is the program: it takes the arguments without the name, and returns the exit status.
func Main(arguments []string, out, errs io.Writer) int {
	if len(arguments) != 1 {
		fmt.Fprintln(errs, "usage: ckpt-conformance TOKENS | --commands")
		return 2
	}
	if arguments[0] == "--commands" {
		fmt.Fprintln(out, strings.Join(slices.Sorted(maps.Keys(commands)), "\n"))
		return 0
	}
	file, err := os.Open(arguments[0])
	count := 0
	if err == nil {
		defer file.Close()
		count, err = Run(file, out)
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	fmt.Fprintf(out, "ok %d\n", count)
	return 0
}

// Run runs the scenario of these tokens and returns the number of its commands.
func Run(tokens io.Reader, out io.Writer) (count int, err error) {
	r, in := &runner{objects: map[string]object{}}, bufio.NewReader(tokens)
	defer func() {
		r.freeAll()
		if caught := recover(); caught != nil {
			failed, ours := caught.(failure)
			if !ours {
				panic(caught)
			}
			err = errors.New(string(failed))
		}
	}()
	for ; r.read(in); count++ {
		start := time.Now()
		err := r.carryOut()
		if r.timed {
			fmt.Fprintf(out, "%.6f %s\n", time.Since(start).Seconds(), r.command)
		}
		r.checkOutcome(err)
	}
	return count, nil
}

func readToken(in *bufio.Reader) (t token, err error) {
	size := 0
	if _, err = fmt.Fscanf(in, "%c%d", &t.kind, &size); err != nil {
		return t, err
	}
	text := make([]byte, size+2) // a blank before it, a line feed after it
	_, err = io.ReadFull(in, text)
	t.value = string(text[1 : size+1])
	if strings.IndexByte("=>ise~", t.kind) >= 0 {
		t.key, t.value, _ = strings.Cut(t.value, "=")
	}
	return t, err
}

// read reads the next command; false at the end.
func (r *runner) read(in *bufio.Reader) bool {
	r.words, r.keys, r.details, r.options, r.status = nil, nil, nil, ckpt.Options{}, "OK"
	for {
		t, err := readToken(in)
		switch {
		case err != nil:
			return false
		case t.kind == '.':
			return true
		case t.kind == ':':
			r.where = t.value
		case t.kind == 'c' || t.kind == 't':
			r.command, r.timed = t.value, t.kind == 't'
		case t.kind == 'w':
			r.words = append(r.words, t.value)
		case t.kind == 'i':
			r.options[t.key] = r.parseInt(t.value)
		case t.kind == 's':
			r.options[t.key] = t.value
		case t.kind == '!':
			r.status = t.value
		case t.kind == '=' || t.kind == '>':
			r.keys = append(r.keys, t)
		default:
			r.details = append(r.details, t)
		}
	}
}

// carryOut runs a command and returns the error of the binding's call.
func (r *runner) carryOut() (err error) {
	defer func() {
		switch caught := recover().(type) {
		case nil:
		case callError:
			err = caught.error
		default:
			panic(caught)
		}
	}()
	commands[r.command](r)
	return nil
}

func (r *runner) checkOutcome(err error) {
	found := &ckpt.Error{Status: ckpt.StatusOK}
	if err != nil && !errors.As(err, &found) || found.Status.Name() != r.status ||
		err != nil && !errors.Is(err, found.Status) {
		r.fail("expected %s, found %v", r.status, err)
	}
	for _, detail := range r.details {
		value := found.Detail(detail.key)
		if detail.key == "message" {
			value = found.Message
		}
		if right := value == detail.value || detail.kind == '~' && strings.Contains(value, detail.value); !right {
			r.fail("expected %s %c %q, found '%s'", detail.key, detail.kind, detail.value, value)
		}
	}
}
