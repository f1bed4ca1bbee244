package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// What a checkpoint can be instead of sound, in the words of FORMAT.md.
const (
	format, corrupt, incomplete       = "FORMAT", "CORRUPT", "INCOMPLETE"
	revision, unsupported, mismatched = "REVISION", "UNSUPPORTED", "MISMATCH"
)

// Fault is the one error of this program. Checks panic with it, and guard returns it. Any other panic is a bug.
type Fault struct {
	Status, Where, What string
	Expected, Found     any
}

func (f *Fault) Error() string {
	line := fmt.Sprintf("%s: %s: %s, expected %v, found %v", f.Status, f.Where, f.What, f.Expected, f.Found)
	return unprintable.ReplaceAllString(strings.ToValidUTF8(line, "?"), "?")
}

func need(ok bool, status, where, what string, expected, found any) {
	if !ok {
		panic(&Fault{status, where, what, expected, found})
	}
}

// rule is need for what FORMAT.md demands of every file.
func rule(ok bool, where, what string, expected, found any) {
	need(ok, format, where, what, expected, found)
}

func equal[T comparable](where, what string, expected, found T) {
	same(format, where, what, expected, found)
}

func same[T comparable](status, where, what string, expected, found T) {
	need(expected == found, status, where, what, expected, found)
}

func guard(work func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(*Fault)
		}
	}()
	work()
	return nil
}

// Digest is an XXH3-128 or an id, as 16 bytes of a file.
type Digest struct{ Lo, Hi uint64 }

var le = binary.LittleEndian

func (d Digest) bytes() []byte       { return le.AppendUint64(le.AppendUint64(nil, d.Lo), d.Hi) }
func (d Digest) String() string      { return fmt.Sprintf("%x", d.bytes()) }
func digestAt(b []byte) Digest       { return Digest{le.Uint64(b), le.Uint64(b[8:])} }
func sum64(b []byte) uint64          { return xxh3.Hash(b) }
func align(n, to uint64) uint64      { return (n + to - 1) / to * to }
func inside(at, n, size uint64) bool { return at <= size && n <= size-at }
func quoted(s string) string         { return fmt.Sprintf("%.80q", s) }
func path(where, name string) string { return fmt.Sprintf("%s %q", where, name) }

func hash128(b []byte) Digest {
	h := xxh3.Hash128(b)
	return Digest{h.Lo, h.Hi}
}

func zero(where string, b []byte, at uint64) {
	rest := bytes.TrimLeft(b, "\x00")
	need(len(rest) == 0, corrupt, where, "padding", "zero", fmt.Sprintf("another byte at %d", at+uint64(len(b)-len(rest))))
}

// A file is a regular file of a checkpoint.
type file struct {
	where string
	size  uint64
	h     *os.File
}

func open(dir, name string) file {
	h, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	need(err == nil, incomplete, name, "the file", "one that opens", err)
	s, err := h.Stat()
	need(err == nil && s.Mode().IsRegular(), incomplete, name, "the file", "a regular one", "another")
	return file{name, uint64(s.Size()), h}
}

// read reads n bytes. The caller has compared them with the size of the file.
func (f file) read(at, n uint64) []byte {
	b := make([]byte, n)
	_, err := f.h.ReadAt(b, int64(at))
	need(err == nil, incomplete, f.where, fmt.Sprintf("%d bytes at %d", n, at), "all", err)
	return b
}

func (f file) zero(from, to uint64) {
	for ; from < to; from += min(1<<20, to-from) {
		zero(f.where, f.read(from, min(1<<20, to-from)), from)
	}
}

var (
	labels      = regexp.MustCompile(`^[A-Za-z0-9_=+-][A-Za-z0-9._=+-]{0,199}$`)
	decimal     = regexp.MustCompile(`^[1-9][0-9]*$`)
	keys        = regexp.MustCompile(`^[^\x00-\x1f\x7f]+$`)
	forbidden   = regexp.MustCompile(`[\x00-\x1f\x7f]|(^|/)\.\.(/|$)`)
	unprintable = regexp.MustCompile(`\pC`)
)

// legal tells whether s is a name.
func legal(s string) bool {
	return len(s) >= 1 && len(s) <= 4096 && utf8.ValidString(s) && !forbidden.MatchString(s)
}
