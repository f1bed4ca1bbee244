package ckpt

// #include "ckpt_go.h"
import "C"

import "fmt"

// MaxDims is the most dimensions that a tensor may have.
const MaxDims = C.CKPT_MAX_NDIM

// RegionKind says which region of a tensor a piece of memory is.
type RegionKind int32

// Tensor describes a piece of memory: plain data, made by [Shape] and the methods below or filled by hand. All numbers
// are in elements.
type Tensor struct {
	DType  DType   // of the memory; 0: AddSlice takes the slice's
	Shape  []int64 // of the whole tensor; empty is a scalar
	Region RegionKind

	Offset, Extent       []int64 // RegionBox; an extent of 0 is an empty box
	FlatOffset, FlatSize int64   // RegionFlat; for an alias, FlatOffset is the view's first element in the target

	Strides []int64 // of the memory; nil is row-major and contiguous, 0 repeats. Not with RegionFlat.
	Convert bool    // load only: convert f32, bf16, f16 into each other, to nearest even, where dtypes differ

	// Save only: which ranks hold the same region. The members of a replica group assign its bytes among themselves; all
	// must add the same tensors. ReplicaCount 0 means the usual: every rank for RegionWhole, else this rank alone.
	ReplicaGroup uint64 // any number that names the group
	ReplicaIndex uint32 // this rank's place in it, from 0
	ReplicaCount uint32
	FirstReplica bool // save only: the values of the group's first member count, and those of the others may differ

	// Of memory on a CUDA device: the stream behind whose work it is copied, by DLPack's numbers (1 or 0 the legacy
	// default stream, 2 that of the thread, -1 none, else a cudaStream_t).
	Stream int64
}

// Shape describes memory that is a whole tensor of this shape, row-major. Without numbers it is a scalar.
func Shape(dims ...int64) Tensor { return Tensor{Shape: dims} }

// As sets the dtype, for a slice whose type does not give it: []uint16 as BF16.
func (t Tensor) As(dtype DType) Tensor {
	t.DType = dtype
	return t
}

// Box says that the memory is a box of the tensor (FSDP2, TP, PP, EP; any tiling), with one offset and one extent per
// dimension.
func (t Tensor) Box(offset, extent []int64) Tensor {
	t.Region, t.Offset, t.Extent = RegionBox, offset, extent
	return t
}

// Flat says that the memory is elements [offset, offset+size) of the tensor flattened in row-major order (FSDP flat
// parameters). The range may be empty.
func (t Tensor) Flat(offset, size int64) Tensor {
	t.Region, t.FlatOffset, t.FlatSize = RegionFlat, offset, size
	return t
}

// Strided sets the strides of the memory, in elements, one per dimension.
func (t Tensor) Strided(strides ...int64) Tensor {
	t.Strides = append([]int64{}, strides...) // not nil for a scalar either
	return t
}

// Replica says that this rank is member `index` of the `count` ranks of a replica group. Save only.
func (t Tensor) Replica(group uint64, index, count uint32) Tensor {
	t.ReplicaGroup, t.ReplicaIndex, t.ReplicaCount = group, index, count
	return t
}

// WithFirstReplica says that the values of the group's first member count. Save only.
func (t Tensor) WithFirstReplica() Tensor {
	t.FirstReplica = true
	return t
}

// Converted lets a load convert f32, bf16 and f16 into each other.
func (t Tensor) Converted() Tensor {
	t.Convert = true
	return t
}

// Elements returns the number of elements of the whole tensor.
func (t Tensor) Elements() int64 {
	count := int64(1)
	for _, extent := range t.Shape {
		count *= extent
	}
	return count
}

// desc returns the description as C takes it: plain data without pointers.
func (t Tensor) desc(name string) (*C.ckpt_tensor_desc, error) {
	if len(t.Shape) > MaxDims {
		return nil, invalid(name, "%d dimensions, at most %d", len(t.Shape), MaxDims)
	}
	made := &C.ckpt_tensor_desc{
		struct_size: C.sizeof_ckpt_tensor_desc, dtype: C.int32_t(t.DType), ndim: C.int32_t(len(t.Shape)),
		region_kind: C.int32_t(t.Region), flat_offset: C.int64_t(t.FlatOffset), flat_size: C.int64_t(t.FlatSize),
		replica_group: C.uint64_t(t.ReplicaGroup), replica_index: C.uint32_t(t.ReplicaIndex),
		replica_count: C.uint32_t(t.ReplicaCount), stream: C.int64_t(t.Stream),
	}
	if t.Convert {
		made.flags |= C.CKPT_TENSOR_CONVERT
	}
	if t.FirstReplica {
		made.flags |= C.CKPT_TENSOR_FIRST_REPLICA
	}
	fill(&made.shape, t.Shape)
	if t.Region == RegionBox {
		if len(t.Offset) != len(t.Shape) || len(t.Extent) != len(t.Shape) {
			return nil, invalid(name, "a box of %d offsets and %d extents in %d dimensions",
				len(t.Offset), len(t.Extent), len(t.Shape))
		}
		fill(&made.offset, t.Offset)
		fill(&made.extent, t.Extent)
	}
	if t.Strides != nil {
		if len(t.Strides) != len(t.Shape) {
			return nil, invalid(name, "%d strides in %d dimensions", len(t.Strides), len(t.Shape))
		}
		made.flags |= C.CKPT_TENSOR_STRIDED
		fill(&made.strides, t.Strides)
	}
	return made, nil
}

func fill(to *[MaxDims]C.int64_t, from []int64) {
	for i, value := range from {
		to[i] = C.int64_t(value)
	}
}

func numbers(from *[MaxDims]C.int64_t, ndim C.int32_t) []int64 {
	made := make([]int64, max(0, ndim))
	for i := range made {
		made[i] = int64(from[i])
	}
	return made
}

// String returns the dtype and the shape: "f32 [128 64]".
func (t Tensor) String() string { return fmt.Sprintf("%v %v", t.DType, t.Shape) }
