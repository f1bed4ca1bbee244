// Package conformance runs the scenarios of tests/conformance with the public API of package ckpt. The README there
// describes requests, replies and commands.
package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// commands are those of the README. A strings slice is the words of the reply, a fields its record; nil says no more
// than that the call succeeded. An error of a call of the binding goes through must or try, any other through r.fail.
var commands = map[string]func(r *runner) any{}

// list adds the commands of one subject to the others.
func list(subject map[string]func(r *runner) any) struct{} {
	maps.Copy(commands, subject)
	return struct{}{}
}

type words []string
type fields map[string]any

// runner runs one command after the other.
type runner struct {
	words   []string
	keys    map[string]string
	options ckpt.Options
	objects map[string]object
}

// failure is what runner.fail panics with, and callError what must and try panic with.
type failure string
type callError struct{ error }

func (r *runner) fail(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// check fails if something other than ckpt failed.
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

// Run answers each line with one.
func Run(in io.Reader, out io.Writer) {
	r, lines := &runner{objects: map[string]object{}}, bufio.NewScanner(in)
	lines.Buffer(nil, 1<<30)
	for lines.Scan() {
		sent := strings.Split(lines.Text(), " ")
		r.take(sent[1:])
		start := time.Now()
		status, said := r.carryOut(sent[0])
		fmt.Fprintf(out, "%s %.6f %s%s\n", sent[0], time.Since(start).Seconds(), status, text(said))
	}
	r.freeAll()
}

func (r *runner) take(sent []string) {
	r.words, r.keys, r.options = nil, map[string]string{}, ckpt.Options{}
	for _, field := range sent {
		key, text, isPair := "", field, field != "" && strings.Contains("=@$", field[:1])
		if isPair {
			key, text, _ = strings.Cut(field[1:], "=")
		}
		value, err := url.PathUnescape(text)
		r.check(err)
		switch {
		case !isPair:
			r.words = append(r.words, value)
		case field[0] == '=':
			r.keys[key] = value
		case field[0] == '@':
			r.options[key] = r.parseInt(value)
		default:
			r.options[key] = value
		}
	}
}

// carryOut runs a command and returns the status of the binding's call, and what the reply says.
func (r *runner) carryOut(command string) (status string, said any) {
	defer func() {
		switch caught := recover().(type) {
		case nil:
		case failure:
			status, said = "-", words{string(caught)}
		case callError:
			status, said = statusOf(caught.error)
		default:
			panic(caught)
		}
	}()
	run, known := commands[command]
	if !known {
		r.fail("no such command")
	}
	return "OK", run(r)
}

func statusOf(err error) (string, any) {
	found := &ckpt.Error{}
	if !errors.As(err, &found) || !errors.Is(err, found.Status) {
		return "-", words{"expected an error of ckpt, found " + err.Error()}
	}
	said := fields{"message": found.Message}
	for key := range found.Details {
		said[key] = found.Detail(key)
	}
	return found.Status.Name(), said
}

// text returns what the reply says, each field after a blank.
func text(said any) (line string) {
	switch said := said.(type) {
	case words:
		for _, word := range said {
			line += " " + url.PathEscape(word)
		}
	case fields:
		for key, value := range said {
			line += " " + key + "=" + url.PathEscape(textOf(value))
		}
	}
	return line
}

// textOf returns a value as scenarios write it.
func textOf(value any) string {
	switch value := value.(type) {
	case bool:
		return map[bool]string{false: "0", true: "1"}[value]
	case []int64:
		return strings.Trim(fmt.Sprint(value), "[]")
	case ckpt.Status:
		return value.Name()
	case ckpt.DType:
		if value.Name() == "dtype" {
			return fmt.Sprint(int32(value))
		}
		return value.Name()
	}
	return fmt.Sprint(value)
}

// record returns the exported fields of a struct, and the others.
func record(of any, others fields) fields {
	made, from := fields{}, reflect.ValueOf(of)
	for i, field := range reflect.VisibleFields(from.Type()) {
		if !field.IsExported() {
			continue
		}
		made[field.Name] = from.Field(i).Interface()
		if duration, is := made[field.Name].(time.Duration); is {
			made[strings.ToLower(strings.TrimSuffix(field.Name, "Time"))+"us"] = duration.Microseconds()
		}
	}
	maps.Copy(made, others)
	return made
}

// object is a named thing of a scenario.
type object struct {
	value any
	owner string // for the tree of a file, that file; else ""
}

// put names the value as a word of the command says, and frees what had the name before.
func (r *runner) put(word int, value any) any { return r.putOwned(word, value, "") }

func (r *runner) putOwned(word int, value any, owner string) any {
	if _, known := r.objects[r.words[word]]; known {
		r.free(r.words[word])
	}
	r.objects[r.words[word]] = object{value, owner}
	return nil
}

// get returns the object that a word of the command names; it must be of type T.
func get[T any](r *runner, word int) T { return getNamed[T](r, r.words[word]) }

func getNamed[T any](r *runner, name string) T {
	value, right := r.objects[name].value.(T)
	if !right {
		r.fail("expected %T %s, found %T", value, name, r.objects[name].value)
	}
	return value
}

func (r *runner) free(name string) {
	gone, known := r.objects[name]
	if !known {
		r.fail("expected an object %s, found none", name)
	}
	delete(r.objects, name)
	for other, borrowed := range r.objects {
		if borrowed.owner == name {
			r.free(other)
		}
	}
	// A scenario that frees a job wants its end; closing the job of a save does not end it.
	if job, is := gone.value.(*ckpt.Job); is {
		job.Cancel()
		<-job.Done()
	}
	if closer, closes := gone.value.(io.Closer); closes {
		r.check(closer.Close())
		r.check(closer.Close()) // again does nothing
	}
}

func (r *runner) freeAll() {
	for name := range r.objects {
		if _, left := r.objects[name]; left {
			r.free(name)
		}
	}
}

type canceller interface{ Cancel() }

// callContext is the job of a call: what calls that block take instead of one.
type callContext struct {
	context.Context
	cancel context.CancelFunc
}

func newCallContext() *callContext {
	ctx, cancel := context.WithCancel(context.Background())
	return &callContext{ctx, cancel}
}

func (c *callContext) Cancel() { c.cancel() }
func (c *callContext) Close() error {
	c.cancel()
	return nil
}

// context returns the context that key job names.
func (r *runner) context() context.Context {
	if job, given := r.keys["job"]; given {
		return getNamed[*callContext](r, job)
	}
	return context.Background()
}

// constants are the names of the binding's constants that have this value, with blanks between them.
func constants[N ~int32](all map[string]N, number N) string {
	var found []string
	for name, value := range all {
		if value == number {
			found = append(found, name)
		}
	}
	return strings.Join(slices.Sorted(slices.Values(found)), " ")
}
