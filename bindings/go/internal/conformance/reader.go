package conformance

import (
	"context"
	"fmt"
	"iter"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner) any{
	"reader.open": func(r *runner) any {
		return r.put(0, try(ckpt.OpenReader(get[*ckpt.Store](r, 1), r.words[2], r.options)))
	},
	"reader.info":   func(r *runner) any { return checkpoint(try(r.reader().Info())) },
	"reader.report": func(r *runner) any { return r.put(1, try(r.reader().Report())) },
	"reader.map":    func(r *runner) any { return r.putCopy(2, try(r.reader().Map(r.words[1], r.options))) },
	"reader.verify": func(r *runner) any { return r.put(1, try(r.reader().Verify(context.Background(), r.options))) },
	"reader.copy": func(r *runner) any {
		return r.put(2, try(r.reader().Copy(r.context(), get[*ckpt.Store](r, 1), r.options)))
	},
	"reader.diff": func(r *runner) any {
		return r.put(2, try(r.reader().Diff(r.context(), get[*ckpt.Reader](r, 1), r.options)))
	},
	"reader.tree": func(r *runner) any {
		if rank, given := r.list("rank"); given {
			return r.put(1, try(r.reader().TreeOfRank(r.optionalName(), uint32(rank[0]))))
		}
		return r.put(1, try(r.reader().Tree(r.optionalName())))
	},
	"reader.export": func(r *runner) any { return done(r.reader().Export(r.context(), r.words[1], r.options)) },
	"reader.tensors": func(r *runner) any {
		return all(r.reader().Tensors(), func(t ckpt.TensorInfo) string { return t.Name })
	},
	"reader.tensor": func(r *runner) any { return record(try(r.reader().Tensor(r.words[1])), nil) },
	"reader.alias": func(r *runner) any {
		view := try(r.reader().Alias(r.words[1]))
		return fields{"shape": view.Shape, "strides": view.Strides, "offset": view.FlatOffset, "dtype": view.DType}
	},
	"reader.segment": func(r *runner) any {
		s := try(r.reader().Segment(r.words[1], r.rank(2)))
		box, flat := textOf(s.Offset)+":"+textOf(s.Extent), ""
		if s.Region == ckpt.RegionFlat {
			box, flat = "", fmt.Sprintf("%d:%d", s.FlatOffset, s.FlatSize)
		}
		return record(s, fields{"box": box, "flat": flat, "Codec": int32(s.Codec), "Filter": int32(s.Filter)})
	},
	"reader.objects": func(r *runner) any {
		return all(r.reader().Objects(), func(o ckpt.ObjectInfo) string {
			if o.Scope == ckpt.Shared {
				return o.Name + ":-"
			}
			return fmt.Sprintf("%s:%d", o.Name, o.Rank)
		})
	},
	"reader.object": func(r *runner) any { return record(try(r.reader().Object(r.words[1], r.rank(2))), nil) },
	"reader.part":   func(r *runner) any { return record(try(r.reader().Part(r.rank(1))), nil) },
	"reader.attrs": func(r *runner) any {
		attrs := r.reader().Attrs()
		if r.words[1] != "" {
			attrs = r.reader().TensorAttrs(r.words[1])
		}
		return all(attrs, func(a ckpt.Attr) string { return a.Key + "=" + a.Value })
	},
	"reader.attr": func(r *runner) any {
		found, _, err := r.reader().Attr(r.words[1])
		if tensor, given := r.keys["tensor"]; given {
			found, _, err = r.reader().TensorAttr(tensor, r.words[1])
		}
		must(err)
		return words{found}
	},

	"file.open": func(r *runner) any { return r.put(0, try(ckpt.OpenFile(r.words[1], r.options))) },
	"file.format": func(r *runner) any {
		return append(words{try(r.file().Format())}, try(r.file().LeftOut())...)
	},
	"file.tensors": func(r *runner) any {
		return all(r.file().Tensors(), func(t ckpt.FileTensor) string { return t.Name })
	},
	"file.tensor": func(r *runner) any { return record(try(r.file().Tensor(r.unsigned(1))), nil) },
	"file.data":   func(r *runner) any { return r.putCopy(2, try(r.file().Map(r.unsigned(1)))) },
	"file.read":   func(r *runner) any { return done(r.file().Read(r.unsigned(1), r.tensor(2), r.bytes(4))) },
	"file.tree":   func(r *runner) any { return r.putOwned(1, try(r.file().Tree()), r.words[0]) },
})

func (r *runner) reader() *ckpt.Reader { return get[*ckpt.Reader](r, 0) }
func (r *runner) file() *ckpt.File     { return get[*ckpt.File](r, 0) }

// all returns a word for each thing that an iterator yields.
func all[T any](from iter.Seq2[T, error], text func(T) string) words {
	found := words{}
	for _, value := range try(ckpt.Collect(from)) {
		found = append(found, text(value))
	}
	return found
}
