package ckpt

// #include "ckpt_go.h"
import "C"

import "fmt"

// DType is DLPack's type code * 256 + bits of one element. Elements below 8 bits are packed, lowest bits first. A dtype
// that the library does not know keeps its number.
type DType int32

// String returns the name, "bf16"; "dtype(0x…)" for an unknown code.
func (d DType) String() string {
	if name := d.Name(); name != "dtype" {
		return name
	}
	return fmt.Sprintf("dtype(%#x)", int32(d))
}

// Name returns the name as C gives it, "bf16"; "dtype" for an unknown code.
func (d DType) Name() string { return C.GoString(C.ckpt_dtype_name(C.int32_t(d))) }

// Bits returns the bits of one element; 0 if the number cannot be a dtype.
func (d DType) Bits() int { return int(C.ckpt_dtype_bits(C.int32_t(d))) }

// FindDType returns the dtype of this name, and whether there is one.
func FindDType(name string) (DType, bool) {
	var in arguments
	text := in.text(name)
	if in.err != nil {
		return 0, false
	}
	found := C.ckpt_dtype_find(text)
	return DType(found), found >= 0
}

// DeviceType says where memory is, as in DLPack: the CPU, a CUDA device, or host memory that CUDA pinned or manages.
// Others are ErrUnsupported.
type DeviceType int32
