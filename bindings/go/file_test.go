package ckpt_test

import (
	"slices"
	"sync"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// dcp is a directory of DCP that two ranks wrote, in whose files tensors are cut; with ".pt", PyTorch's own conversion
// to one file.
const dcp = "../../interop/tests/fixtures/dcp/fsdp2"

func openFile(t testing.TB, path string, options ckpt.Options) *ckpt.File {
	t.Helper()
	file := need[*ckpt.File](t)(ckpt.OpenFile(path, options))
	t.Cleanup(func() { file.Close() })
	return file
}

func indexOf(t testing.TB, file *ckpt.File, name string) uint64 {
	t.Helper()
	all := need[[]ckpt.FileTensor](t)(ckpt.Collect(file.Tensors()))
	index := slices.IndexFunc(all, func(tensor ckpt.FileTensor) bool { return tensor.Name == name })
	if index < 0 {
		t.Fatalf("no tensor %q", name)
	}
	return uint64(index)
}

func same[T comparable](t testing.TB, what string, found, wanted []T) {
	t.Helper()
	if !slices.Equal(found, wanted) {
		t.Errorf("%s: expected %v, found %v", what, wanted, found)
	}
}

func TestAWrongReadIsRefusedAndNamesTheTensor(t *testing.T) {
	file := openFile(t, dcp, nil)
	index, data := indexOf(t, file, "model/0.weight"), slices.Repeat([]float32{7}, 35)
	shape := ckpt.Shape(7, 5)
	is(t, ckpt.ReadFileInto(file, 99, shape, data), ckpt.ErrNotFound)
	is(t, file.Read(99, shape.As(ckpt.F32), ckpt.BytesOf(data)), ckpt.ErrNotFound)
	_, _, err := ckpt.ReadFileSlice[float32](file, 99)
	is(t, err, ckpt.ErrNotFound)
	_, _, err = ckpt.ReadFileSlice[int32](file, index)
	is(t, err, ckpt.ErrMismatch)
	for name, err := range map[error]error{
		ckpt.ErrMismatch: ckpt.ReadFileInto(file, index, ckpt.Shape(5, 7), data),
		ckpt.ErrInvalid:  ckpt.ReadFileInto(file, index, shape.Box([]int64{6}, []int64{1}), data),
	} {
		is(t, err, name)
		namesTensor(t, err)
	}
	is(t, ckpt.ReadFileInto(file, index, shape.Box([]int64{6, 0}, []int64{2, 5}), data), ckpt.ErrInvalid)
	is(t, ckpt.ReadFileInto(file, index, shape, data[:34]), ckpt.ErrInvalid)
	is(t, ckpt.ReadFileInto(file, index, shape, make([]int32, 35)), ckpt.ErrMismatch)
	is(t, ckpt.ReadFileInto(file, index, shape.As(ckpt.F32), make([]int64, 35)), ckpt.ErrInvalid)
	flags := indexOf(t, file, "odd/flags")
	is(t, ckpt.ReadFileInto(file, flags, ckpt.Shape(3), make([]bool, 3)), ckpt.ErrInvalid)
	is(t, ckpt.ReadFileInto(nil, 0, shape, data), ckpt.ErrInvalid)
	_, _, err = ckpt.ReadFileSlice[byte](nil, 0)
	is(t, err, ckpt.ErrInvalid)
	same(t, "the memory", data, slices.Repeat([]float32{7}, 35))
	bools, _, err := ckpt.ReadFileSlice[bool](file, flags)
	ok(t, err)
	if len(bools) != 3 {
		t.Errorf("expected 3 bools, found %v", bools)
	}
}

func namesTensor(t testing.TB, err error) {
	t.Helper()
	if found, is := err.(*ckpt.Error); !is || found.Detail("tensor") != "model/0.weight" {
		t.Errorf("expected an error that names the tensor, found %v", err)
	}
}

func TestATensorWithoutAnAddressIsNotMapped(t *testing.T) {
	file := openFile(t, dcp, nil)
	is(t, first(file.Map(indexOf(t, file, "model/0.weight"))), ckpt.ErrUnsupported)
	ok(t, first(file.Map(indexOf(t, file, "odd/none")))) // without elements
	unread := openFile(t, dcp+".pt", ckpt.Options{"tensor_data": 0})
	is(t, first(unread.Map(0)), ckpt.ErrUnsupported)
}

func TestReadsOfOneFileTakeTurns(t *testing.T) {
	file := openFile(t, dcp, ckpt.Options{"tensor_data": 0})
	index := indexOf(t, file, "model/0.weight")
	wanted, _, err := ckpt.ReadFileSlice[float32](openFile(t, dcp, nil), index)
	ok(t, err)
	part, shape := make([]float32, 4), ckpt.Shape(7, 5)
	corner, expected := shape.Box([]int64{3, 1}, []int64{2, 2}), []float32{wanted[16], wanted[17], wanted[21], wanted[22]}
	ok(t, ckpt.ReadFileInto(file, index, corner, part))
	same(t, "a box, of both ranks' files", part, expected)
	ok(t, ckpt.ReadFileInto(file, index, shape.Flat(18, 4), part))
	same(t, "a flat range", part, wanted[18:22])
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			found, _, err := ckpt.ReadFileSlice[float32](file, index)
			if err != nil || !slices.Equal(found, wanted) {
				t.Errorf("found %v, %v", found, err)
			}
			if _, err := file.Tensor(index); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
