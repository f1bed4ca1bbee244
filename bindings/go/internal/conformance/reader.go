package conformance

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(
	command{"reader.open", 3, takesOptions, runReaderOpen},
	command{"reader.info", 1, takesPairs, runReaderInfo},
	command{"reader.map", 3, takesOptions, runReaderMap},
	command{"reader.verify", 2, takesOptions, runReaderVerify},
	command{"reader.diff", 3, takesOptions, runReaderDiff},
	command{"reader.tree", 2, takesPairs, runReaderTree},
	command{"reader.export", 2, takesOptions, runReaderExport},
	command{"reader.tensors", 1, takesMore, runReaderTensors},
	command{"reader.tensor", 2, takesPairs, runReaderTensor},
	command{"reader.alias", 2, takesPairs, runReaderAlias},
	command{"reader.segment", 3, takesPairs, runReaderSegment},
	command{"reader.objects", 1, takesMore, runReaderObjects},
	command{"reader.object", 3, takesPairs, runReaderObject},
	command{"reader.part", 2, takesPairs, runReaderPart},
	command{"reader.attrs", 1, takesMore, runReaderAttrs},
	command{"reader.attr", 3, takesPairs, runReaderAttr},
)

func (r *runner) reader(l *line) *ckpt.Reader { return get[*ckpt.Reader](r, l.words[0]) }

func runReaderOpen(r *runner, l *line) error {
	made, err := ckpt.OpenReader(get[*ckpt.Store](r, l.words[1]), l.words[2], r.optionsOf(l))
	return keep(r, l.words[0], made, err)
}

func runReaderInfo(r *runner, l *line) error {
	info, err := r.reader(l).Info()
	if err == nil {
		r.expectCheckpoint(l, info)
	}
	return err
}

func runReaderMap(r *runner, l *line) error {
	view, err := r.reader(l).Map(l.words[1], r.optionsOf(l))
	if err != nil {
		return err
	}
	defer view.Close()
	r.put(l.words[2], &memory{bytes.Clone(view.Bytes())})
	return nil
}

func runReaderVerify(r *runner, l *line) error {
	made, err := r.reader(l).Verify(context.Background(), r.optionsOf(l))
	return keep(r, l.words[1], made, err)
}

func runReaderDiff(r *runner, l *line) error {
	made, err := r.reader(l).Diff(get[*ckpt.Reader](r, l.words[1]), r.optionsOf(l))
	return keep(r, l.words[2], made, err)
}

func runReaderTree(r *runner, l *line) error {
	name, given := l.value("name")
	if given && name == "" {
		return refused("an empty name is the main tree's here")
	}
	made, err := r.reader(l).Tree(name)
	return keep(r, l.words[1], made, err)
}

func runReaderExport(r *runner, l *line) error {
	return r.reader(l).Export(r.path(l.words[1]), r.optionsOf(l))
}

// expectAll compares the words from `first` on with what an iterator gives.
func expectAll[T any](r *runner, l *line, first int, from iter.Seq2[T, error], text func(T) string) error {
	all, err := ckpt.Collect(from)
	if err != nil {
		return err
	}
	var found []string
	for _, value := range all {
		found = append(found, text(value))
	}
	r.expectList(l, first, found)
	return nil
}

func runReaderTensors(r *runner, l *line) error {
	return expectAll(r, l, 1, r.reader(l).Tensors(), func(t ckpt.TensorInfo) string { return t.Name })
}

func runReaderTensor(r *runner, l *line) error {
	info, err := r.reader(l).Tensor(l.words[1])
	if err != nil {
		return err
	}
	if info.Name != l.words[1] {
		r.fail("expected %s, found %s", l.words[1], info.Name)
	}
	r.expectDType(l, "dtype", info.DType)
	r.expectText(l, "shape", shapeText(info.Shape))
	expectUnsigned(r, l, "bytes", info.Bytes)
	expectUnsigned(r, l, "stored_bytes", info.StoredBytes)
	expectUnsigned(r, l, "segment_count", info.SegmentCount)
	r.expectText(l, "alias_of", info.AliasOf)
	return nil
}

func runReaderAlias(r *runner, l *line) error {
	view, err := r.reader(l).Alias(l.words[1])
	if err != nil {
		return err
	}
	r.expectText(l, "shape", shapeText(view.Shape))
	r.expectText(l, "strides", shapeText(view.Strides))
	expectInt(r, l, "offset", view.FlatOffset)
	r.expectDType(l, "dtype", view.DType)
	return nil
}

func runReaderSegment(r *runner, l *line) error {
	s, err := r.reader(l).Segment(l.words[1], uint32(r.parseUnsigned(l.words[2])))
	if err != nil {
		return err
	}
	box, flat := "", ""
	if s.Region == ckpt.RegionFlat {
		flat = fmt.Sprintf("%d:%d", s.FlatOffset, s.FlatSize)
	} else {
		box = shapeText(s.Offset) + ":" + shapeText(s.Extent)
	}
	r.expectText(l, "box", box)
	r.expectText(l, "flat", flat)
	expectUnsigned(r, l, "part", s.Part)
	expectInt(r, l, "codec", s.Codec)
	expectInt(r, l, "filter", s.Filter)
	expectUnsigned(r, l, "chunk_count", s.ChunkCount)
	expectUnsigned(r, l, "stored_bytes", s.StoredBytes)
	return nil
}

func runReaderObjects(r *runner, l *line) error {
	return expectAll(r, l, 1, r.reader(l).Objects(), func(o ckpt.ObjectInfo) string {
		if o.Scope == ckpt.Shared {
			return o.Name + ":-"
		}
		return fmt.Sprintf("%s:%d", o.Name, o.Rank)
	})
}

func runReaderObject(r *runner, l *line) error {
	info, err := r.reader(l).Object(l.words[1], uint32(r.parseUnsigned(l.words[2])))
	if err != nil {
		return err
	}
	expectName(r, l, "scope", info.Scope)
	expectUnsigned(r, l, "rank", info.Rank)
	expectUnsigned(r, l, "size", info.Size)
	r.expectText(l, "media_type", info.MediaType)
	return nil
}

func runReaderPart(r *runner, l *line) error {
	info, err := r.reader(l).Part(uint32(r.parseUnsigned(l.words[1])))
	if err != nil {
		return err
	}
	r.expectText(l, "name", info.Name)
	expectUnsigned(r, l, "rank", info.Rank)
	return nil
}

func runReaderAttrs(r *runner, l *line) error {
	first, attrs := 1, r.reader(l).Attrs()
	if len(l.words) > 1 && strings.HasPrefix(l.words[1], "tensor:") {
		first, attrs = 2, r.reader(l).TensorAttrs(strings.TrimPrefix(l.words[1], "tensor:"))
	}
	return expectAll(r, l, first, attrs, func(a ckpt.Attr) string { return a.Key + "=" + a.Value })
}

func runReaderAttr(r *runner, l *line) error {
	var found string
	var err error
	if tensor, given := l.value("tensor"); given {
		found, _, err = r.reader(l).TensorAttr(tensor, l.words[1])
	} else {
		found, _, err = r.reader(l).Attr(l.words[1])
	}
	if err == nil && found != l.words[2] {
		r.fail("expected '%s', found '%s'", l.words[2], found)
	}
	return err
}
