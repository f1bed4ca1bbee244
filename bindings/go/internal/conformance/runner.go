// Package conformance carries out the scenarios of tests/conformance with the public API of package ckpt. Grammar and
// commands: the README there.
package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// What a command takes behind its words: any number more, KEY=VALUE, @OPTION=VALUE.
const (
	takesMore = 1 << iota
	takesPairs
	takesOptions
)

// command is one row of the README. An error that `run` returns is that of the binding's call; everything else that is
// wrong ends the scenario through runner.fail.
type command struct {
	name  string
	words int
	takes int
	run   func(r *runner, l *line) error
}

var commands = map[string]command{}

// list joins the commands of one subject to the others.
func list(subject ...command) struct{} {
	for _, c := range subject {
		commands[c.name] = c
	}
	return struct{}{}
}

var _ = list(command{"timed", 0, takesMore, func(r *runner, _ *line) error {
	r.fail("expected a command, found timed again")
	return nil
}})

// failure is what runner.fail throws and Run catches.
type failure string

type runner struct {
	scenario, directory string
	variables           map[string]string
	out                 io.Writer
	number              int // of the line
	command             string
	objects             map[string]object
}

func (r *runner) fail(format string, args ...any) {
	panic(failure(fmt.Sprintf("%s:%d: %s: ", r.scenario, r.number, r.command) + fmt.Sprintf(format, args...)))
}

// must ends the scenario over an error of the world around it, not of ckpt.
func (r *runner) must(err error) {
	if err != nil {
		r.fail("expected no error, found %v", err)
	}
}

// Main is the program: its arguments without the name, and its exit status.
func Main(arguments []string, out, errs io.Writer) int {
	if len(arguments) == 1 && arguments[0] == "--commands" {
		fmt.Fprintln(out, strings.Join(Commands(), "\n"))
		return 0
	}
	if len(arguments) < 2 {
		fmt.Fprintln(errs, "usage: ckpt-conformance SCENARIO DIR [NAME=VALUE…] | --commands")
		return 2
	}
	count, err := Run(arguments[0], arguments[1], arguments[2:], out)
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	fmt.Fprintf(out, "ok %d\n", count)
	return 0
}

// Commands are the names of all commands, sorted.
func Commands() []string {
	var names []string
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run carries out one scenario and says how many commands it had; `variables` are NAME=VALUE.
func Run(scenario, directory string, variables []string, out io.Writer) (count int, err error) {
	r := &runner{
		scenario: scenario, directory: directory, variables: map[string]string{"DIR": directory}, out: out,
		command: "scenario", objects: map[string]object{},
	}
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
	for _, variable := range variables {
		name, value, found := strings.Cut(variable, "=")
		if !found {
			r.fail("expected NAME=VALUE, found '%s'", variable)
		}
		r.variables[name] = value
	}
	file, err := os.Open(scenario)
	r.must(err)
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		text, err := lines.ReadString('\n')
		r.number++
		if r.runLine(text) {
			count++
		}
		if err == io.EOF {
			return count, nil
		}
		r.must(err)
	}
}

// runLine says whether the line held a command.
func (r *runner) runLine(text string) bool {
	r.command = "line"
	l := r.parse(text)
	if l == nil {
		return false
	}
	start := time.Now()
	err := l.command.run(r, l)
	if l.timed {
		fmt.Fprintf(r.out, "%.6f %s\n", time.Since(start).Seconds(), l.raw)
	}
	r.checkOutcome(l, err)
	return true
}

func (r *runner) checkOutcome(l *line, err error) {
	if l.status == "" {
		if err != nil {
			r.fail("expected OK, found %v", err)
		}
		for _, p := range l.pairs {
			if !p.used {
				r.fail("expected a key of this command, found %s", p.key)
			}
		}
		return
	}
	var found *ckpt.Error
	if !errors.As(err, &found) {
		r.fail("expected %s, found %v", l.status, err)
	}
	if found.Status.Name() != l.status || !errors.Is(err, found.Status) {
		r.fail("expected %s, found %v", l.status, err)
	}
	for _, detail := range l.details {
		value := found.Detail(detail.key)
		if detail.key == "message" {
			value = found.Message
		}
		if detail.contains && !strings.Contains(value, detail.value) || !detail.contains && value != detail.value {
			r.fail("expected %s %q, found '%s'", detail.key, detail.value, value)
		}
	}
}
