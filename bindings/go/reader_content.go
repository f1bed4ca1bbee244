package ckpt

// #include "ckpt_go.h"
import "C"

import "iter"

// TensorCount returns the number of tensors and aliases.
func (r *Reader) TensorCount() (uint64, error) {
	return sharing(&r.h, func(reader *C.ckpt_reader, _ cTexts, _ **C.ckpt_error) (uint64, C.ckpt_status) {
		return uint64(C.ckpt_reader_tensor_count(reader)), C.CKPT_OK
	})
}

// Tensors yields the tensors and aliases in the order of their names' bytes.
func (r *Reader) Tensors() iter.Seq2[TensorInfo, error] {
	return each(r, func(reader *C.ckpt_reader) uint64 {
		return uint64(C.ckpt_reader_tensor_count(reader))
	}, func(reader *C.ckpt_reader, index C.uint64_t, cerr **C.ckpt_error) (TensorInfo, C.ckpt_status) {
		info := C.ckpt_tensor_info{struct_size: C.sizeof_ckpt_tensor_info}
		status := C.ckpt_reader_tensor_at(reader, index, &info, cerr)
		return makeTensorInfo(&info), status
	})
}

// Tensor describes one tensor or alias. Errors: ErrNotFound.
func (r *Reader) Tensor(name string) (TensorInfo, error) {
	return sharing(&r.h, func(reader *C.ckpt_reader, in cTexts, cerr **C.ckpt_error) (TensorInfo, C.ckpt_status) {
		info := C.ckpt_tensor_info{struct_size: C.sizeof_ckpt_tensor_info}
		status := C.ckpt_reader_tensor_find(reader, in[0], &info, cerr)
		return makeTensorInfo(&info), status
	}, name)
}

// Alias says how alias `name` views its target, as AddAliasView takes it, always with strides.
// Errors: ErrNotFound.
func (r *Reader) Alias(name string) (Tensor, error) {
	return sharing(&r.h, func(reader *C.ckpt_reader, in cTexts, cerr **C.ckpt_error) (Tensor, C.ckpt_status) {
		view := C.ckpt_tensor_desc{struct_size: C.sizeof_ckpt_tensor_desc}
		status := C.ckpt_reader_alias_find(reader, in[0], &view, cerr)
		return Tensor{
			DType: DType(view.dtype), Shape: numbers(&view.shape, view.ndim), Strides: numbers(&view.strides, view.ndim),
			FlatOffset: int64(view.flat_offset),
		}, status
	}, name)
}

// Codec says how a segment is compressed.
type Codec int32

// Filter says how a segment's bytes are rearranged before compression.
type Filter int32

// SegmentInfo says where bytes of a tensor lie, for tools: those of a flat range of it, or of a box of it
// in the row-major order of the box.
type SegmentInfo struct {
	Part                 uint32
	Region               RegionKind // RegionBox or RegionFlat
	Codec                Codec
	Filter               Filter
	ChunkCount           uint32
	Offset, Extent       []int64 // RegionBox
	FlatOffset, FlatSize int64   // RegionFlat
	PartOffset           uint64  // of the first chunk, in bytes
	StoredBytes          uint64
}

// Segment describes one segment of a tensor; `index` counts from 0 to TensorInfo.SegmentCount.
func (r *Reader) Segment(tensor string, index uint32) (SegmentInfo, error) {
	return sharing(&r.h, func(reader *C.ckpt_reader, in cTexts, cerr **C.ckpt_error) (SegmentInfo, C.ckpt_status) {
		s := C.ckpt_segment_info{struct_size: C.sizeof_ckpt_segment_info}
		status := C.ckpt_reader_segment_at(reader, in[0], C.uint32_t(index), &s, cerr)
		made := SegmentInfo{
			Part: uint32(s.part), Region: RegionBox, Codec: Codec(s.codec), Filter: Filter(s.filter),
			ChunkCount: uint32(s.chunk_count), Offset: numbers(&s.offset, s.ndim), Extent: numbers(&s.extent, s.ndim),
			FlatOffset: int64(s.flat_offset), FlatSize: int64(s.flat_size), PartOffset: uint64(s.part_offset),
			StoredBytes: uint64(s.stored_bytes),
		}
		if s.ndim < 0 {
			made.Region = RegionFlat
		}
		return made, status
	}, tensor)
}

// Objects yields the objects in the order of name, then rank.
func (r *Reader) Objects() iter.Seq2[ObjectInfo, error] {
	return each(r, func(reader *C.ckpt_reader) uint64 {
		return uint64(C.ckpt_reader_object_count(reader))
	}, func(reader *C.ckpt_reader, index C.uint64_t, cerr **C.ckpt_error) (ObjectInfo, C.ckpt_status) {
		info := C.ckpt_object_info{struct_size: C.sizeof_ckpt_object_info}
		status := C.ckpt_reader_object_at(reader, index, &info, cerr)
		return makeObjectInfo(&info), status
	})
}

// Object describes the shared object `name`, or `rank`'s own. Errors: ErrNotFound.
func (r *Reader) Object(name string, rank uint32) (ObjectInfo, error) {
	return sharing(&r.h, func(reader *C.ckpt_reader, in cTexts, cerr **C.ckpt_error) (ObjectInfo, C.ckpt_status) {
		info := C.ckpt_object_info{struct_size: C.sizeof_ckpt_object_info}
		status := C.ckpt_reader_object_find(reader, in[0], C.uint32_t(rank), &info, cerr)
		return makeObjectInfo(&info), status
	}, name)
}

// Part describes one part; `index` counts from 0 to CheckpointInfo.PartCount.
func (r *Reader) Part(index uint32) (PartInfo, error) {
	return sharing(&r.h, func(reader *C.ckpt_reader, _ cTexts, cerr **C.ckpt_error) (PartInfo, C.ckpt_status) {
		info := C.ckpt_part_info{struct_size: C.sizeof_ckpt_part_info}
		status := C.ckpt_reader_part_at(reader, C.uint32_t(index), &info, cerr)
		return makePartInfo(&info), status
	})
}
