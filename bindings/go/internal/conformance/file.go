package conformance

import (
	"bytes"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(
	command{"file.open", 2, takesOptions, runFileOpen},
	command{"file.format", 2, 0, runFileFormat},
	command{"file.tensors", 1, takesMore, runFileTensors},
	command{"file.tensor", 2, takesPairs, runFileTensor},
	command{"file.read", 3, 0, runFileRead},
	command{"file.tree", 2, 0, runFileTree},
)

func (r *runner) file(l *line) *ckpt.File { return get[*ckpt.File](r, l.words[0]) }

func runFileOpen(r *runner, l *line) error {
	made, err := ckpt.OpenFile(r.path(l.words[1]), r.optionsOf(l))
	return keep(r, l.words[0], made, err)
}

func runFileFormat(r *runner, l *line) error {
	found, err := r.file(l).Format()
	if err == nil && found != l.words[1] {
		r.fail("expected %s, found %s", l.words[1], found)
	}
	return err
}

func runFileTensors(r *runner, l *line) error {
	return expectAll(r, l, 1, r.file(l).Tensors(), func(t ckpt.FileTensor) string { return t.Name })
}

func runFileTensor(r *runner, l *line) error {
	found, err := r.file(l).Tensor(r.parseUnsigned(l.words[1]))
	if err != nil {
		return err
	}
	r.expectText(l, "name", found.Name)
	r.expectDType(l, "dtype", found.DType)
	r.expectText(l, "shape", shapeText(found.Shape))
	r.expectText(l, "strides", shapeText(found.Strides))
	expectUnsigned(r, l, "bytes", found.Bytes)
	expectUnsigned(r, l, "data_bytes", found.DataBytes)
	r.expectText(l, "alias_of", found.AliasOf)
	expectInt(r, l, "alias_offset", found.AliasOffset)
	return nil
}

func runFileRead(r *runner, l *line) error {
	view, err := r.file(l).Map(r.parseUnsigned(l.words[1]))
	if err != nil {
		return err
	}
	defer view.Close()
	r.put(l.words[2], &memory{bytes.Clone(view.Bytes())})
	return nil
}

func runFileTree(r *runner, l *line) error {
	made, err := r.file(l).Tree()
	if err == nil {
		r.putOwned(l.words[1], made, l.words[0])
	}
	return err
}
