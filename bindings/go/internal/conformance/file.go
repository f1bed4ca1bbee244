package conformance

import (
	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner){
	"file.open": func(r *runner) { r.put(0, try(ckpt.OpenFile(r.words[1], r.options))) },
	"file.format": func(r *runner) { // nothing lies beside a file
		r.expectWords(1, append([]string{try(r.file().Format())}, try(r.file().LeftOut())...)...)
	},
	"file.tensors": func(r *runner) {
		expectAll(r, 1, r.file().Tensors(), func(t ckpt.FileTensor) string { return t.Name })
	},
	"file.tensor": runFileTensor,
	"file.data":   func(r *runner) { r.putCopy(2, try(r.file().Map(r.unsigned(1)))) },
	"file.read":   func(r *runner) { must(r.file().Read(r.unsigned(1), r.tensor(2), r.bytes(4))) },
	"file.tree":   func(r *runner) { r.putOwned(1, try(r.file().Tree()), r.words[0]) },
})

func (r *runner) file() *ckpt.File { return get[*ckpt.File](r, 0) }

func runFileTensor(r *runner) {
	found := try(r.file().Tensor(r.unsigned(1)))
	r.expect("name", found.Name)
	r.expect("dtype", found.DType)
	r.expect("shape", found.Shape)
	r.expect("strides", found.Strides)
	r.expect("bytes", found.Bytes)
	r.expect("data_bytes", found.DataBytes)
	r.expect("alias_of", found.AliasOf)
	r.expect("alias_offset", found.AliasOffset)
}
