package conformance

import (
	"context"
	"fmt"
	"iter"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner){
	"reader.open": func(r *runner) {
		r.put(0, try(ckpt.OpenReader(get[*ckpt.Store](r, 1), r.words[2], r.options)))
	},
	"reader.info":   func(r *runner) { r.expectCheckpoint(try(r.reader().Info())) },
	"reader.report": func(r *runner) { r.put(1, try(r.reader().Report())) },
	"reader.map":    func(r *runner) { r.putCopy(2, try(r.reader().Map(r.words[1], r.options))) },
	"reader.verify": func(r *runner) { r.put(1, try(r.reader().Verify(context.Background(), r.options))) },
	"reader.copy":   func(r *runner) { r.put(2, try(r.reader().Copy(r.context(), get[*ckpt.Store](r, 1), r.options))) },
	"reader.diff":   func(r *runner) { r.put(2, try(r.reader().Diff(r.context(), get[*ckpt.Reader](r, 1), r.options))) },
	"reader.tree":   runReaderTree,
	"reader.export": func(r *runner) { must(r.reader().Export(r.context(), r.words[1], r.options)) },
	"reader.tensors": func(r *runner) {
		expectAll(r, 1, r.reader().Tensors(), func(t ckpt.TensorInfo) string { return t.Name })
	},
	"reader.tensor":  runReaderTensor,
	"reader.alias":   runReaderAlias,
	"reader.segment": runReaderSegment,
	"reader.objects": runReaderObjects,
	"reader.object":  runReaderObject,
	"reader.part":    runReaderPart,
	"reader.attrs":   runReaderAttrs,
	"reader.attr":    runReaderAttr,
})

func (r *runner) reader() *ckpt.Reader { return get[*ckpt.Reader](r, 0) }

// expectAll compares the words from `first` on with what an iterator yields.
func expectAll[T any](r *runner, first int, from iter.Seq2[T, error], text func(T) string) {
	var found []string
	for _, value := range try(ckpt.Collect(from)) {
		found = append(found, text(value))
	}
	r.expectWords(first, found...)
}

func runReaderTensor(r *runner) {
	info := try(r.reader().Tensor(r.words[1]))
	r.expectWords(1, info.Name)
	r.expect("dtype", info.DType)
	r.expect("shape", info.Shape)
	r.expect("bytes", info.Bytes)
	r.expect("stored_bytes", info.StoredBytes)
	r.expect("segment_count", info.SegmentCount)
	r.expect("alias_of", info.AliasOf)
}

func runReaderAlias(r *runner) {
	view := try(r.reader().Alias(r.words[1]))
	r.expect("shape", view.Shape)
	r.expect("strides", view.Strides)
	r.expect("offset", view.FlatOffset)
	r.expect("dtype", view.DType)
}

func runReaderSegment(r *runner) {
	s := try(r.reader().Segment(r.words[1], r.rank(2)))
	box, flat := "", ""
	if s.Region == ckpt.RegionFlat {
		flat = fmt.Sprintf("%d:%d", s.FlatOffset, s.FlatSize)
	} else {
		box = textOf(s.Offset) + ":" + textOf(s.Extent)
	}
	r.expect("box", box)
	r.expect("flat", flat)
	r.expect("part", s.Part)
	r.expect("codec", int32(s.Codec))
	r.expect("filter", int32(s.Filter))
	r.expect("chunk_count", s.ChunkCount)
	r.expect("stored_bytes", s.StoredBytes)
}

func runReaderObjects(r *runner) {
	expectAll(r, 1, r.reader().Objects(), func(o ckpt.ObjectInfo) string {
		if o.Scope == ckpt.Shared {
			return o.Name + ":-"
		}
		return fmt.Sprintf("%s:%d", o.Name, o.Rank)
	})
}

func runReaderObject(r *runner) {
	info := try(r.reader().Object(r.words[1], r.rank(2)))
	r.expect("scope", info.Scope)
	r.expect("rank", info.Rank)
	r.expect("size", info.Size)
	r.expect("media_type", info.MediaType)
}

func runReaderPart(r *runner) {
	info := try(r.reader().Part(r.rank(1)))
	r.expect("name", info.Name)
	r.expect("rank", info.Rank)
}

func runReaderAttrs(r *runner) {
	attrs := r.reader().Attrs()
	if r.words[1] != "" {
		attrs = r.reader().TensorAttrs(r.words[1])
	}
	expectAll(r, 2, attrs, func(a ckpt.Attr) string { return a.Key + "=" + a.Value })
}

func runReaderAttr(r *runner) {
	found, _, err := r.reader().Attr(r.words[1])
	if tensor, given := r.value("tensor"); given {
		found, _, err = r.reader().TensorAttr(tensor, r.words[1])
	}
	must(err)
	r.expectWords(2, found)
}

func runReaderTree(r *runner) {
	if rank, given := r.list("rank"); given {
		r.put(1, try(r.reader().TreeOfRank(r.optionalName(), uint32(rank[0]))))
	} else {
		r.put(1, try(r.reader().Tree(r.optionalName())))
	}
}
