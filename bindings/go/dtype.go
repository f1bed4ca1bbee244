package ckpt

// #include "ckpt_go.h"
import "C"

import "fmt"

// DType is DLPack's type code * 256 + bits of one element. Elements below 8 bits are packed, lowest bits first. A dtype
// that the library does not know keeps its number.
type DType int32

// The dtypes that have a name.
const (
	I4            DType = C.CKPT_DTYPE_I4
	I8            DType = C.CKPT_DTYPE_I8
	I16           DType = C.CKPT_DTYPE_I16
	I32           DType = C.CKPT_DTYPE_I32
	I64           DType = C.CKPT_DTYPE_I64
	U4            DType = C.CKPT_DTYPE_U4
	U8            DType = C.CKPT_DTYPE_U8
	U16           DType = C.CKPT_DTYPE_U16
	U32           DType = C.CKPT_DTYPE_U32
	U64           DType = C.CKPT_DTYPE_U64
	F16           DType = C.CKPT_DTYPE_F16
	F32           DType = C.CKPT_DTYPE_F32
	F64           DType = C.CKPT_DTYPE_F64
	BF16          DType = C.CKPT_DTYPE_BF16
	C32           DType = C.CKPT_DTYPE_C32  // complex of two f16
	C64           DType = C.CKPT_DTYPE_C64  // complex of two f32
	C128          DType = C.CKPT_DTYPE_C128 // complex of two f64
	Bool          DType = C.CKPT_DTYPE_BOOL
	F8E3M4        DType = C.CKPT_DTYPE_F8_E3M4
	F8E4M3        DType = C.CKPT_DTYPE_F8_E4M3
	F8E4M3B11FNUZ DType = C.CKPT_DTYPE_F8_E4M3B11FNUZ
	F8E4M3FN      DType = C.CKPT_DTYPE_F8_E4M3FN
	F8E4M3FNUZ    DType = C.CKPT_DTYPE_F8_E4M3FNUZ
	F8E5M2        DType = C.CKPT_DTYPE_F8_E5M2
	F8E5M2FNUZ    DType = C.CKPT_DTYPE_F8_E5M2FNUZ
	F8E8M0FNU     DType = C.CKPT_DTYPE_F8_E8M0FNU
	F6E2M3FN      DType = C.CKPT_DTYPE_F6_E2M3FN
	F6E3M2FN      DType = C.CKPT_DTYPE_F6_E3M2FN
	F4E2M1FN      DType = C.CKPT_DTYPE_F4_E2M1FN
)

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

// DeviceType says where memory is, as in DLPack.
type DeviceType int32

// The devices: the CPU, a CUDA device, and host memory that CUDA pinned or manages. Others are ErrUnsupported.
const (
	CPU         DeviceType = C.CKPT_DEVICE_CPU
	CUDA        DeviceType = C.CKPT_DEVICE_CUDA
	CUDAHost    DeviceType = C.CKPT_DEVICE_CUDA_HOST
	CUDAManaged DeviceType = C.CKPT_DEVICE_CUDA_MANAGED
)
