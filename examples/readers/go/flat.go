package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
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

// A table of a FlatBuffer, with every offset checked.
type table struct {
	b           []byte
	where       string
	vt          [64]byte // zero where it is shorter; no table here has 31 fields
	pos, extent uint64
}

func flat(b []byte, id, where string) table {
	rule(len(b) >= 8 && len(b) <= math.MaxInt32, where, "bytes of a FlatBuffer", "8 to 2^31-1", len(b))
	equal(where, "identifier", id, string(b[4:8]))
	return tableAt(b, uint64(le.Uint32(b)), where)
}

func tableAt(b []byte, pos uint64, where string) table {
	size := uint64(len(b))
	rule(pos%4 == 0 && pos+4 <= size, where, "a table of the FlatBuffer", "inside it", pos)
	v := int64(pos) - int64(int32(le.Uint32(b[pos:])))
	rule(v >= 0 && v%2 == 0 && uint64(v)+4 <= size, where, "a vtable", "inside the FlatBuffer", v)
	n, t := uint64(le.Uint16(b[v:])), table{b: b, where: where, pos: pos, extent: uint64(le.Uint16(b[v+2:]))}
	rule(n >= 4 && n%2 == 0 && inside(uint64(v), n, size), where, "size of a vtable", "inside", n)
	copy(t.vt[:], b[v:uint64(v)+n])
	rule(t.extent >= 4 && pos+t.extent <= size, where, "size of a table", "inside the FlatBuffer", t.extent)
	return t
}

// at returns the place of a field, or 0 if it is absent.
func (t table) at(id int, size, alignment uint64) uint64 {
	off := uint64(le.Uint16(t.vt[4+2*id:]))
	if off == 0 {
		return 0
	}
	rule(off >= 4 && off+size <= t.extent && (t.pos+off)%alignment == 0, t.where, "a field", "inside its table", off)
	return t.pos + off
}

// fill reads fields in the order of their ids: numbers, Digests, texts, vectors; by a pointer, what may not be absent.
func (t table) fill(into any) {
	v := reflect.ValueOf(into).Elem()
	fields := slices.DeleteFunc(reflect.VisibleFields(v.Type()), func(f reflect.StructField) bool { return f.Anonymous })
	if s, ok := into.(*Summary); ok {
		s.Step = -1
	}
	for id := range fields {
		f := v.FieldByIndex(fields[id].Index)
		if k := f.Kind(); k != reflect.Slice && k != reflect.String && k != reflect.Pointer {
			if p := t.at(id, uint64(f.Type().Size()), uint64(f.Type().Align())); p > 0 {
				binary.Decode(t.b[p:], le, f.Addr().Interface())
			}
		} else if p := t.at(id, 4, 4); p > 0 {
			to := p + uint64(le.Uint32(t.b[p:]))
			rule(to > p && to%4 == 0 && to+4 <= uint64(len(t.b)), t.where, "an offset", "inside the FlatBuffer", to)
			t.refer(to, f)
		} else {
			rule(k != reflect.Pointer, t.where, fields[id].Name, "present", "absent")
		}
	}
}

// refer reads what an offset leads to.
func (t table) refer(to uint64, f reflect.Value) {
	switch f.Kind() {
	case reflect.Slice:
		f.Set(t.column(to, f.Type()))
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
		t.refer(to, f.Elem())
	case reflect.Struct:
		tableAt(t.b, to, t.where).fill(f.Addr().Interface())
	case reflect.String:
		end := to + 4 + uint64(le.Uint32(t.b[to:]))
		rule(end < uint64(len(t.b)) && t.b[end] == 0, t.where, "a string", "inside the FlatBuffer, and a zero byte", end)
		f.SetString(string(t.b[to+4 : end]))
	}
}

// column reads a vector of numbers or structs. Go's structs have the schema's layout, since that names all padding.
func (t table) column(p uint64, typ reflect.Type) reflect.Value {
	n, size, to := uint64(le.Uint32(t.b[p:])), uint64(typ.Elem().Size()), uint64(typ.Elem().Align())
	p += 4
	rule(n <= (uint64(len(t.b))-p)/size && (n == 0 || p%to == 0), t.where, "a vector", "inside, aligned", n)
	b, out := t.b[p:p+n*size], reflect.MakeSlice(typ, int(n), int(n))
	binary.Decode(b, le, out.Interface())
	again, _ := binary.Append(nil, le, out.Interface()) // with zeros for each _
	rule(bytes.Equal(b, again), t.where, "pads of a vector of "+typ.Elem().Name(), 0, "another byte")
	return out
}

// The structs and tables of schemas/ckpt.fbs, with the same fields in the same order.
type (
	Text  struct{ Offset, Size uint32 }
	Span  struct{ First, Count uint32 } // of another column
	Chunk struct {
		Offset      uint64
		Stored, Raw uint32
		Digest      Digest
	}
	Tensor struct {
		Name        Text
		Dtype, Ndim uint16
		Shape       uint32
		Regions     Span
	}
	Holding struct {
		Stored           uint64
		Segments, Layout uint32
	}
	Region struct {
		Kind, _, _, _ uint8
		Geometry      uint32
		Segments      Span
	}
	Segment struct {
		Start, Count            uint64
		Chunks                  Span
		Codec, Filter, Width, _ uint8
		_                       uint32
	}
	Alias struct {
		Name, Target Text
		IsView, _    uint8
		Ndim         uint16
		View         uint32
	}
	Object struct {
		Name, MediaType        Text
		Size                   uint64
		Digest                 Digest
		Scope, Placement, _, _ uint8
		Layout, InlineOffset   uint32
		Chunks                 Span
		_                      uint32
	}
	Attr struct{ Owner, Key, Value Text }
	Part struct {
		Size, IndexOffset, IndexSize, CopyOffset uint64
		Root, SaveID                             Digest
		RootSize, Rank                           uint32
		Kind                                     uint8
		_                                        [7]uint8
	}
	Base struct {
		Part Part
		Used uint64
	}
	PageRef struct {
		Offset, NameFirst, ObjectFirst uint64
		Digest                         Digest
		First                          Text
		Size, _                        uint32
	}
	Layout struct {
		Kind, _        uint8
		Ndim           uint16
		Cells, PerCell uint32
		Runs           Span
	}
	PartRun struct {
		First, Count uint32
		Stride       int32
	}
	Group struct {
		ID           uint64
		Digest       Digest
		EntryCount   uint64
		List         Chunk
		Index, Count uint32
	}
	Page struct {
		Names    *string
		Numbers  []uint64
		Tensors  []Tensor
		Holdings []Holding
		Regions  []Region
		Segments []Segment
		Chunks   []Chunk
		Objects  []Object
		Inline   []byte
		Aliases  []Alias
		Attrs    []Attr
		Parts    []Part
		Parity   [][16]byte
		Homes    []uint16
		Used     []uint64
	}
	Summary struct {
		Revision                 uint32
		Features                 uint64
		Store, Session, Save     Digest
		Run, Label               string
		Token, Attempt, Sequence uint64
		Step                     int64
		World                    uint32
		Writer                   string
		Created                  uint64
		Counts                   // fields 14 to 21
	}
	Counts struct {
		Parts                   uint32
		Tensors, Objects, Bytes uint64
		Rebuilt                 bool
		Bases                   uint32
		BaseBytes, UsedBytes    uint64
	}
	Root struct {
		Summary          *Summary
		Names            *string
		Numbers          []uint64
		Pages, PartPages []PageRef
		PerPage          uint32
		NameCount        uint64
		Layouts          []Layout
		Runs             []PartRun
		Groups           []Group
		Bases            []Base
	}
)
