package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
)

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
		Kind, _  uint8
		_        uint16
		Geometry uint32
		Segments Span
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
		Name, MediaType      Text
		Size                 uint64
		Digest               Digest
		Scope, Placement     uint8
		_                    uint16
		Layout, InlineOffset uint32
		Chunks               Span
		_                    uint32
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
