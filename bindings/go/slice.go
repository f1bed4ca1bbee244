package ckpt

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

// Element is what a typed slice may hold. An int or uint has the machine's width. With [Tensor.As], []uint16 holds f16
// or bf16, and []byte holds any dtype.
type Element interface {
	~bool | ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Adder is a *Save or a *Load.
type Adder interface {
	AddTensor(name string, tensor Tensor, data []byte) error
}

// DTypeOf returns the dtype of elements of T, which Tensor.As overrides.
func DTypeOf[T Element]() DType {
	bits := DType(unsafe.Sizeof(*new(T)) * 8)
	const signed, unsigned, float, complexFloat = 0x000, 0x100, 0x200, 0x500 // DLPack's codes * 256
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Bool:
		return Bool
	case reflect.Float32, reflect.Float64:
		return float + bits
	case reflect.Complex64, reflect.Complex128:
		return complexFloat + bits
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return signed + bits
	}
	return unsigned + bits
}

// BytesOf returns the memory of a slice as bytes, without a copy.
func BytesOf[T Element](data []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data))*unsafe.Sizeof(*new(T)))
}

// AddSlice adds a region of tensor `name` to a save, or asks a load for it, with a Go slice as its memory. The dtype is
// the slice's unless `tensor` sets one. That one must be as wide as an element of the slice; a []byte takes any dtype,
// a []bool only Bool. Errors: those of AddTensor, and ErrInvalid.
//
// Only a *Save takes a []bool. A Bool tensor from another program may hold bytes that are neither 0 nor 1, and a load
// would make them Go bools that are neither true nor false. Load into a []byte, or use [ReadSlice], which checks them.
func AddSlice[T Element](to Adder, name string, tensor Tensor, data []T) error {
	element := DTypeOf[T]()
	if _, saves := to.(*Save); element == Bool && !saves {
		return boolsError(name, "ReadSlice")
	}
	tensor, err := tensor.of(name, element)
	if err != nil {
		return err
	}
	return to.AddTensor(name, tensor, BytesOf(data))
}

func boolsError(name, whole string) error {
	return invalid(name, "a load into bools may leave values that are neither true nor false; use bytes or %s", whole)
}

// of completes the description for memory with elements of dtype `element`; 0 for a TensorData that Leaf did not make.
func (t Tensor) of(name string, element DType) (Tensor, error) {
	switch {
	case t.DType == 0:
		t.DType = element
	case element == 0 || element == U8: // bytes hold any dtype
	case t.DType.Bits() != element.Bits() || element == Bool && t.DType != Bool:
		return t, invalid(name, "a slice of %v as %v", element, t.DType)
	}
	return t, nil
}

// ReadSlice loads a whole tensor into a new slice and describes it. T is the type of the tensor's elements, or takes
// their bits as they are: an unsigned integer of their width, or byte for any dtype. Errors: ErrMismatch (another T),
// ErrFormat (a bool that is neither 0 nor 1), and those of NewLoad and Load.Run. Options: those of NewLoad.
func ReadSlice[T Element](ctx context.Context, reader *Reader, name string, options Options) ([]T, TensorInfo, error) {
	if reader == nil {
		return nil, TensorInfo{}, nilError("reader")
	}
	info, err := reader.Tensor(name)
	if err != nil {
		return nil, TensorInfo{}, err
	}
	data, err := wholeSlice[T](name, info.DType, info.Bytes)
	if err != nil {
		return nil, TensorInfo{}, err
	}
	load, err := NewLoad(reader, options)
	if err != nil {
		return nil, TensorInfo{}, err
	}
	defer load.Close()
	if err := load.AddTensor(name, Shape(info.Shape...).As(info.DType), BytesOf(data)); err != nil {
		return nil, TensorInfo{}, err
	}
	if err := load.Run(ctx); err != nil {
		return nil, TensorInfo{}, err
	}
	if err := onlyBools(name, data); err != nil {
		return nil, TensorInfo{}, err
	}
	return data, info, nil
}

// ReadFileSlice reads a whole tensor of a file into a new slice and describes it; see [ReadSlice] about T. Errors:
// ErrMismatch (another T), ErrFormat (a bool that is neither 0 nor 1), and those of [File.Read].
func ReadFileSlice[T Element](file *File, index uint64) ([]T, FileTensor, error) {
	if file == nil {
		return nil, FileTensor{}, nilError("file")
	}
	info, err := file.Tensor(index)
	if err != nil {
		return nil, FileTensor{}, err
	}
	data, err := wholeSlice[T](info.Name, info.DType, info.Bytes)
	if err != nil {
		return nil, FileTensor{}, err
	}
	if err := file.Read(index, Shape(info.Shape...).As(info.DType), BytesOf(data)); err != nil {
		return nil, FileTensor{}, err
	}
	if err := onlyBools(info.Name, data); err != nil {
		return nil, FileTensor{}, err
	}
	return data, info, nil
}

// ReadFileInto reads a region of a tensor of a file into a Go slice. The dtype is the slice's unless `tensor` sets one,
// as in [AddSlice], which says why a []bool is refused. Errors: those of [File.Read], and ErrInvalid.
func ReadFileInto[T Element](file *File, index uint64, tensor Tensor, data []T) error {
	if file == nil {
		return nilError("file")
	}
	info, err := file.Tensor(index)
	if err != nil {
		return err
	}
	element := DTypeOf[T]()
	if element == Bool {
		return boolsError(info.Name, "ReadFileSlice")
	}
	if tensor, err = tensor.of(info.Name, element); err != nil {
		return err
	}
	return file.Read(index, tensor, BytesOf(data))
}

// wholeSlice makes the slice for a whole tensor of `size` bytes.
func wholeSlice[T Element](name string, dtype DType, size uint64) ([]T, error) {
	kind := DTypeOf[T]()
	asBits := kind == U8 || kind&^0xff == U8&^0xff && dtype.Bits() == kind.Bits()
	if dtype != kind && !asBits {
		return nil, &Error{
			Status: ErrMismatch, Message: fmt.Sprintf("tensor %q: expected %v, found %v", name, kind, dtype),
			Details: map[string]string{"tensor": name, "expected": kind.String(), "found": dtype.String()},
		}
	}
	return make([]T, size/uint64(unsafe.Sizeof(*new(T)))), nil
}

// onlyBools checks the bytes of bools: Go's compiler relies on 0 and 1. Other elements may have any bits.
func onlyBools[T Element](name string, elements []T) error {
	if DTypeOf[T]() != Bool {
		return nil
	}
	data := BytesOf(elements)
	at := slices.IndexFunc(data, func(octet byte) bool { return octet > 1 })
	if at < 0 {
		return nil
	}
	return &Error{
		Status: ErrFormat, Message: fmt.Sprintf("tensor %q: element %d is %d, neither 0 nor 1", name, at, data[at]),
		Details: map[string]string{"tensor": name, "expected": "0 or 1", "found": fmt.Sprint(data[at])},
	}
}
