package main

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
)

// A table of a FlatBuffer, with every offset checked.
type table struct {
	b                       []byte
	where                   string
	pos, vt, vtSize, extent uint64
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
	t := table{b, where, pos, uint64(v), uint64(le.Uint16(b[v:])), uint64(le.Uint16(b[v+2:]))}
	rule(t.vtSize >= 4 && t.vtSize%2 == 0 && t.vt+t.vtSize <= size, where, "size of a vtable", "inside", t.vtSize)
	rule(t.extent >= 4 && pos+t.extent <= size, where, "size of a table", "inside the FlatBuffer", t.extent)
	return t
}

// at returns the place of a field, or 0 if it is absent.
func (t table) at(id int, size, alignment uint64) uint64 {
	slot, off := uint64(4+2*id), uint64(0)
	if slot+2 <= t.vtSize {
		off = uint64(le.Uint16(t.b[t.vt+slot:]))
	}
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
	for id := range fields {
		f, size, alignment := v.FieldByIndex(fields[id].Index), uint64(4), uint64(4)
		kind := f.Kind()
		refers := kind == reflect.Slice || kind == reflect.String || kind == reflect.Pointer
		if !refers {
			size, alignment = uint64(f.Type().Size()), uint64(f.Type().Align())
		}
		p := t.at(id, size, alignment)
		if p == 0 {
			continue
		}
		if !refers {
			binary.Decode(t.b[p:], le, f.Addr().Interface())
			continue
		}
		to := p + uint64(le.Uint32(t.b[p:]))
		rule(to > p && to%4 == 0 && to+4 <= uint64(len(t.b)), t.where, "an offset", "inside the FlatBuffer", to)
		if kind == reflect.Slice {
			f.Set(t.column(to, f.Type()))
			continue
		}
		if kind == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
			f = f.Elem()
			if s, ok := f.Addr().Interface().(*Summary); ok {
				s.Step = -1
			}
		}
		if f.Kind() == reflect.Struct {
			tableAt(t.b, to, t.where).fill(f.Addr().Interface())
			continue
		}
		end := to + 4 + uint64(le.Uint32(t.b[to:]))
		rule(end < uint64(len(t.b)) && t.b[end] == 0, t.where, "a string", "inside the FlatBuffer, and a zero byte", end)
		f.SetString(string(t.b[to+4 : end]))
	}
}

// column reads a vector of numbers or structs. Go's structs have the schema's layout, since that names all padding.
func (t table) column(p uint64, typ reflect.Type) reflect.Value {
	n, size := uint64(le.Uint32(t.b[p:])), uint64(typ.Elem().Size())
	p += 4
	rule(n <= (uint64(len(t.b))-p)/size && (n == 0 || p%uint64(typ.Elem().Align()) == 0), t.where, "a vector",
		"inside the FlatBuffer, aligned", n)
	b, out := t.b[p:p+n*size], reflect.MakeSlice(typ, int(n), int(n))
	checkPads(b, typ.Elem(), 0, uintptr(size), t.where)
	binary.Decode(b, le, out.Interface())
	return out
}

func checkPads(b []byte, typ reflect.Type, at, step uintptr, where string) {
	for i := 0; typ.Kind() == reflect.Struct && i < typ.NumField(); i++ {
		f := typ.Field(i)
		checkPads(b, f.Type, at+f.Offset, step, where)
		for k := at + f.Offset; strings.HasPrefix(f.Name, "Pad") && k < uintptr(len(b)); k += step {
			for _, v := range b[k : k+f.Type.Size()] {
				equal(where, "a pad of a "+typ.Name(), 0, v)
			}
		}
	}
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
		Kind, Pad uint8
		Pad2      uint16
		Geometry  uint32
		Segments  Span
	}
	Segment struct {
		Start, Count              uint64
		Chunks                    Span
		Codec, Filter, Width, Pad uint8
		Pad2                      uint32
	}
	Alias struct {
		Name, Target Text
		IsView, Pad  uint8
		Ndim         uint16
		View         uint32
	}
	Object struct {
		Name, MediaType      Text
		Size                 uint64
		Digest               Digest
		Scope, Placement     uint8
		Pad                  uint16
		Layout, InlineOffset uint32
		Chunks               Span
		Pad2                 uint32
	}
	Attr struct{ Owner, Key, Value Text }
	Part struct {
		Size, IndexOffset, IndexSize, CopyOffset uint64
		Root, SaveID                             Digest
		RootSize, Rank                           uint32
		Kind, Pad                                uint8
		Pad2                                     uint16
		Pad3                                     uint32
	}
	Base struct {
		Part Part
		Used uint64
	}
	PageRef struct {
		Offset, NameFirst, ObjectFirst uint64
		Digest                         Digest
		First                          Text
		Size, Pad                      uint32
	}
	Layout struct {
		Kind, Pad      uint8
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
