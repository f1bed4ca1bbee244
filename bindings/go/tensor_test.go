package ckpt_test

import (
	"context"
	"runtime"
	"slices"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// roundTrip saves a slice, loads it by AddSlice and by ReadSlice, and compares.
func roundTrip[T ckpt.Element](t *testing.T, wanted ckpt.DType, data ...T) {
	t.Helper()
	shape := ckpt.Shape(int64(len(data)))
	reader := saved(t, nil, func(save *ckpt.Save) { ok(t, ckpt.AddSlice(save, "x", shape, data)) })
	if info := need[ckpt.TensorInfo](t)(reader.Tensor("x")); info.DType != wanted || ckpt.DTypeOf[T]() != wanted {
		t.Errorf("%T was saved as %v, expected %v", data, info.DType, wanted)
	}
	read, info, err := ckpt.ReadSlice[T](t.Context(), reader, "x", nil)
	ok(t, err)
	if !slices.Equal(read, data) || info.Name != "x" {
		t.Errorf("saved %v, read %v", data, read)
	}
	if wanted == ckpt.Bool {
		return // a load takes no slice of bools
	}
	loaded, load := make([]T, len(data)), newLoad(t, reader)
	ok(t, ckpt.AddSlice(load, "x", shape, loaded))
	ok(t, load.Run(context.Background()))
	if !slices.Equal(loaded, data) {
		t.Errorf("saved %v, loaded %v", data, loaded)
	}
}

type (
	epoch int32
	flag  bool
)

func TestSlicesOfEveryElementTypeComeBack(t *testing.T) {
	roundTrip[bool](t, ckpt.Bool, true, false)
	roundTrip[int8](t, ckpt.I8, -1, 2)
	roundTrip[int16](t, ckpt.I16, -1, 2)
	roundTrip[int32](t, ckpt.I32, -1, 2)
	roundTrip[int64](t, ckpt.I64, -1, 1<<62)
	roundTrip[int](t, ckpt.I64, -1, 2)
	roundTrip[uint8](t, ckpt.U8, 1, 255)
	roundTrip[uint16](t, ckpt.U16, 1, 1<<15)
	roundTrip[uint32](t, ckpt.U32, 1, 1<<31)
	roundTrip[uint64](t, ckpt.U64, 1, 1<<63)
	roundTrip[uint](t, ckpt.U64, 1, 2)
	roundTrip[float32](t, ckpt.F32, 1.5, -0.25)
	roundTrip[float64](t, ckpt.F64, 1.5, -0.25)
	roundTrip[complex64](t, ckpt.C64, 1+2i)
	roundTrip[complex128](t, ckpt.C128, 1+2i)
	roundTrip[epoch](t, ckpt.I32, 3, 4)
	roundTrip[flag](t, ckpt.Bool, true, false)
}

// A byte 7 in a Go bool makes compiled code read outside an array: every bool from a checkpoint must be checked.
func TestABoolIsTrueOrFalseWhateverTheCheckpointHolds(t *testing.T) {
	reader := saved(t, nil, func(save *ckpt.Save) {
		ok(t, save.AddTensor("mask", ckpt.Shape(4).As(ckpt.Bool), []byte{1, 0, 7, 255})) // as another language may
		is(t, ckpt.AddSlice(save, "bits", ckpt.Shape(1).As(ckpt.U8), []bool{true}), ckpt.ErrInvalid)
	})
	mask, _, err := ckpt.ReadSlice[flag](t.Context(), reader, "mask", nil)
	is(t, err, ckpt.ErrFormat)
	if mask != nil || detailOf(err, "tensor") != "mask" || detailOf(err, "found") != "7" {
		t.Errorf("read %v, %v", ckpt.BytesOf(mask), err)
	}
	octets, _, err := ckpt.ReadSlice[byte](t.Context(), reader, "mask", nil)
	ok(t, err)
	if !slices.Equal(octets, []byte{1, 0, 7, 255}) {
		t.Errorf("the bytes are %v", octets)
	}
	load := newLoad(t, reader)
	for _, to := range []ckpt.Adder{load, struct{ ckpt.Adder }{load}} {
		is(t, ckpt.AddSlice(to, "mask", ckpt.Shape(4), make([]bool, 4)), ckpt.ErrInvalid)
		is(t, ckpt.AddSlice(to, "mask", ckpt.Shape(4).As(ckpt.Bool), make([]flag, 4)), ckpt.ErrInvalid)
	}
}

func TestMemoryOfAnotherDTypeThanTheSliceIsNamed(t *testing.T) {
	half, quarter := []uint16{0x3f80, 0x4000}, []byte{0x38, 0x40, 0x44}
	reader := saved(t, nil, func(save *ckpt.Save) {
		ok(t, ckpt.AddSlice(save, "bf16", ckpt.Shape(2).As(ckpt.BF16), half))
		ok(t, ckpt.AddSlice(save, "f8", ckpt.Shape(3).As(ckpt.F8E4M3FN), quarter))
		ok(t, save.AddTensor("f16", ckpt.Shape(2).As(ckpt.F16), ckpt.BytesOf(half)))
		ok(t, ckpt.AddSlice(save, "u4", ckpt.Shape(5).As(ckpt.U4), quarter)) // three bytes hold five
		is(t, ckpt.AddSlice(save, "wide", ckpt.Shape(2).As(ckpt.F32), half), ckpt.ErrInvalid)
		is(t, ckpt.AddSlice(save, "signed", ckpt.Shape(5).As(ckpt.U4), []int8{1, 2, 3}), ckpt.ErrInvalid)
	})
	wide, load := make([]float32, 2), newLoad(t, reader)
	ok(t, ckpt.AddSlice(load, "bf16", ckpt.Shape(2).Converted(), wide))
	ok(t, load.Run(context.Background()))
	if !slices.Equal(wide, []float32{1, 2}) {
		t.Errorf("bf16 1, 2 became %v", wide)
	}
	read, info, err := ckpt.ReadSlice[uint16](t.Context(), reader, "f16", nil)
	ok(t, err)
	if !slices.Equal(read, half) || info.DType != ckpt.F16 {
		t.Errorf("read %v of %v", read, info.DType)
	}
	packed, _, err := ckpt.ReadSlice[byte](t.Context(), reader, "u4", nil)
	ok(t, err)
	if len(packed) != 3 || packed[0] != quarter[0] {
		t.Errorf("five u4 are %v", packed)
	}
	_, _, err = ckpt.ReadSlice[float64](t.Context(), reader, "f16", nil)
	is(t, err, ckpt.ErrMismatch)
	_, _, err = ckpt.ReadSlice[int16](t.Context(), reader, "f16", nil) // the same width, but other numbers
	is(t, err, ckpt.ErrMismatch)
	_, _, err = ckpt.ReadSlice[bool](t.Context(), reader, "u4", nil)
	is(t, err, ckpt.ErrMismatch)
}

// layer has pointers around its numbers; cgo must not check them.
type layer struct {
	name    *string
	weights [16]float32
	next    *layer
}

func TestAnArrayInAStructWithPointersCanBeSavedAndLoaded(t *testing.T) {
	name := "first"
	from := &layer{name: &name, next: &layer{name: &name}}
	copy(from.weights[:], ramp[float32](16))
	reader := saved(t, nil, func(save *ckpt.Save) {
		ok(t, ckpt.AddSlice(save, "w", ckpt.Shape(16), from.weights[:]))
		ok(t, save.AddObject("bytes", "text/plain", ckpt.Shared, []byte("abc")))
	})
	to := &layer{name: &name, next: from}
	load := newLoad(t, reader)
	ok(t, ckpt.AddSlice(load, "w", ckpt.Shape(16), to.weights[:]))
	ok(t, load.Run(context.Background()))
	if to.weights != from.weights {
		t.Errorf("saved %v, loaded %v", from.weights, to.weights)
	}
}

func TestDescriptionsThatCannotBeAreRefusedWithTheTensorsName(t *testing.T) {
	save := newSave(t, openSession(t, openStore(t)), "a", nil)
	data := make([]float32, 4)
	for _, wrong := range []ckpt.Tensor{
		ckpt.Shape(make([]int64, 17)...),
		ckpt.Shape(2, 2).Box([]int64{0}, []int64{2, 2}),
		ckpt.Shape(2, 2).Strided(1),
		ckpt.Shape(2, 2).Strided(2, -1),
		ckpt.Shape(2, 3),
		ckpt.Shape(-1),
	} {
		err := ckpt.AddSlice(save, "x", wrong, data)
		is(t, err, ckpt.ErrInvalid)
		if detail := detailOf(err, "tensor"); detail != "x" {
			t.Errorf("%v: the detail tensor is %q", err, detail)
		}
	}
	is(t, save.AddMemory("x", ckpt.Shape(4).As(ckpt.F32), nil, 16, ckpt.CPU, 0), ckpt.ErrInvalid)
	is(t, save.AddMemory("x", ckpt.Shape(4).As(ckpt.F32), nil, 16, ckpt.CUDA, 0), ckpt.ErrUnsupported)
}

func TestABufferOfMoreThanTwoGibibytesIsSavedAndLoaded(t *testing.T) {
	const size = 2<<30 + 200<<20
	data := make([]byte, size) // untouched pages of it cost nothing
	data[0], data[size/2], data[size-1] = 1, 2, 3
	reader := saved(t, ckpt.Options{"compression": "lz4"}, func(save *ckpt.Save) {
		ok(t, ckpt.AddSlice(save, "big", ckpt.Shape(size), data))
	})
	if info := need[ckpt.TensorInfo](t)(reader.Tensor("big")); info.Bytes != size {
		t.Errorf("%d bytes were saved", info.Bytes)
	}
	data = nil // two such buffers at once are not needed
	runtime.GC()
	loaded, _, err := ckpt.ReadSlice[byte](context.Background(), reader, "big", nil)
	ok(t, err)
	if len(loaded) != size || loaded[0] != 1 || loaded[size/2] != 2 || loaded[size-1] != 3 || loaded[size-2] != 0 {
		t.Error("the big buffer came back different")
	}
}
