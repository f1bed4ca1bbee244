package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"fmt"
	"iter"
	"unsafe"
)

// File is another program's checkpoint, opened in place: PyTorch's .pt, a safetensors file or set, a directory of DCP,
// or another layout that [Store.Import] takes. No code is run, and no converted copy is made. A tensor in one piece can
// be mapped. One that is cut into several pieces, as those of DCP are, has no address: [File.Read], [ReadFileInto] and
// [ReadFileSlice] give the elements of any.
type File struct{ h owned[*C.ckpt_file] }

// OpenFile maps the file and reads its structure, not its tensors. A pickle is turned into values and never executed;
// if it calls a function that ckpt does not know, the error is ErrUnsupported and names the function. If somebody
// truncates the file while it is open, SIGBUS can end the process. Of an address ("https://host/model.pt") the bytes of
// all tensors are fetched into memory, unless tensor_data is 0: then none are.
// Options: those used by file.
// Errors: ErrNotFound, ErrFormat, ErrUnsupported, ErrCorrupt, ErrGone (https, s3), ErrIO.
func OpenFile(path string, options Options) (*File, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	var in arguments
	defer in.free()
	name, bag := in.text(path), in.options(options)
	if in.err != nil {
		return nil, in.err
	}
	var out *C.ckpt_file
	var cerr *C.ckpt_error
	if status := C.ckpt_file_open(&out, name, bag, &cerr); status != C.CKPT_OK {
		return nil, fail(status, cerr)
	}
	made := &File{}
	own(made, &made.h, newHandle("file", out, func(p *C.ckpt_file) { C.ckpt_file_free(p) }))
	return made, nil
}

// Close releases the file and always returns nil. An open [MappedTensor] or [Tree] of the file keeps it mapped.
func (f *File) Close() error {
	f.h.end()
	return nil
}

// Format returns "pt" (zip), "pt-legacy", "safetensors", "hfai", "dcp" and so on, as ckpt_file.h lists them.
func (f *File) Format() (string, error) {
	return sharing(&f.h, func(file *C.ckpt_file, _ cTexts, _ **C.ckpt_error) (string, C.ckpt_status) {
		return C.GoString(C.ckpt_file_format(file)), C.CKPT_OK
	})
}

// LeftOut returns what is in the directory and was not read: "meta.pt", or "runs/" of a directory.
func (f *File) LeftOut() ([]string, error) {
	file, err := f.h.enter()
	if err != nil {
		return nil, err
	}
	defer f.h.leave()
	var names []string
	for {
		name := C.ckpt_file_left_out(file, C.uint64_t(len(names)))
		if name == nil {
			return names, nil
		}
		names = append(names, C.GoString(name))
	}
}

// TensorCount returns the number of tensors.
func (f *File) TensorCount() (uint64, error) {
	return sharing(&f.h, func(file *C.ckpt_file, _ cTexts, _ **C.ckpt_error) (uint64, C.ckpt_status) {
		return uint64(C.ckpt_file_tensor_count(file)), C.CKPT_OK
	})
}

// Tensors yields the tensors in the order of the tree; an alias comes after its target.
func (f *File) Tensors() iter.Seq2[FileTensor, error] {
	return func(yield func(FileTensor, error) bool) {
		for index := uint64(0); ; index++ {
			count, err := f.TensorCount()
			if err == nil && index >= count {
				return
			}
			var info FileTensor
			if err == nil {
				info, err = f.Tensor(index)
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// Tensor describes one tensor; `index` counts from 0.
func (f *File) Tensor(index uint64) (FileTensor, error) {
	file, err := f.h.enter()
	if err != nil {
		return FileTensor{}, err
	}
	defer f.h.leave()
	info, err := fileTensor(file, index)
	if err != nil {
		return FileTensor{}, err
	}
	return makeFileTensor(&info), nil
}

func fileTensor(file *C.ckpt_file, index uint64) (C.ckpt_file_tensor, error) {
	info := C.ckpt_file_tensor{struct_size: C.sizeof_ckpt_file_tensor}
	var cerr *C.ckpt_error
	status := C.ckpt_file_tensor_at(file, C.uint64_t(index), &info, &cerr)
	return info, fail(status, cerr)
}

// Map returns a view of the memory of tensor `index`: DataBytes bytes from its first element, laid out by its Strides.
// ErrUnsupported: it has no address, since it lies in several pieces or tensor_data is 0: see [File.Read].
func (f *File) Map(index uint64) (*MappedTensor, error) {
	file, err := f.h.enter()
	if err != nil {
		return nil, err
	}
	defer f.h.leave()
	info, err := fileTensor(file, index)
	if err != nil {
		return nil, err
	}
	if info.data == nil && info.bytes != 0 {
		name := C.GoString(info.name)
		return nil, &Error{
			Status:  ErrUnsupported,
			Message: fmt.Sprintf("tensor %q has no address: it lies in several pieces, or tensor_data is 0; use Read", name),
			Details: map[string]string{"tensor": name},
		}
	}
	return newMapped(f.h.handle, info.data, uint64(info.data_bytes)), nil
}

// Read copies a region of tensor `index` into `data`, also where it has no address. Only what is wanted is read.
// `tensor` says which region, as in [Load.AddTensor]; its shape and dtype must be the tensor's: ErrMismatch. `data` is
// the caller's again when Read returns. Reads of one File take turns. Errors: ErrNotFound (there is no such tensor),
// ErrInvalid, ErrMismatch, and those of OpenFile.
func (f *File) Read(index uint64, tensor Tensor, data []byte) error {
	file, err := f.h.enterAlone()
	if err != nil {
		return err
	}
	defer f.h.leaveAlone()
	info, err := fileTensor(file, index)
	if err != nil {
		return err
	}
	desc, err := tensor.desc(C.GoString(info.name))
	if err != nil {
		return err
	}
	var cerr *C.ckpt_error
	status := C.ckpt_go_file_read(file, C.uint64_t(index), desc, (*C.uint8_t)(unsafe.SliceData(data)),
		C.uint64_t(len(data)), &cerr)
	return fail(status, cerr)
}

// Tree returns everything in the file as a tree, with its tensors as leaves. The tree keeps the file open and cannot be
// changed.
func (f *File) Tree() (*Tree, error) {
	file, err := f.h.hold() // dropped when the tree is freed
	if err != nil {
		return nil, err
	}
	var out *C.ckpt_tree
	var cerr *C.ckpt_error
	if status := C.ckpt_file_tree(file, &out, &cerr); status != C.CKPT_OK {
		f.h.drop()
		return nil, fail(status, cerr)
	}
	made, shared := &Tree{fixed: true}, f.h.handle
	own(made, &made.h, newHandle("tree", out, func(*C.ckpt_tree) { shared.drop() }))
	return made, nil
}
