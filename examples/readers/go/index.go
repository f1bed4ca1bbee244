package main

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

type (
	tensor struct {
		name               string
		dtype              uint16
		bits, elems, bytes uint64
		shape              []uint64
		holding            Holding // in MANIFEST
		layout             layout  // in MANIFEST
		regions            []*region
	}
	layout struct {
		Layout
		cells []uint64 // of a grid, in each dimension
		parts []uint32
	}
	region struct {
		kind  uint8
		nums  []uint64
		elems uint64
		segs  []segment
		ranks []uint32 // that wrote it; for rows, only one
	}
	segment struct {
		Segment
		chunks []placed
		stored uint64    // bytes of its chunks
		part   *partFile // that has it
	}
	placed struct {
		Chunk
		home uint16
	}
	alias struct {
		target           string
		view             bool
		offset           uint64
		extents, strides []uint64
	}
	object struct {
		Object
		name, media string
		inline      []byte
		chunks      []placed
		parts       []uint32 // in MANIFEST
	}
	attrKey struct{ owner, key string }

	// An Index is that of MANIFEST or of one part, with all that its pages say.
	Index struct {
		Root
		where    string
		manifest bool
		parts    []Part
		used     []uint64
		tensors  map[string]*tensor
		aliases  map[string]alias
		objects  map[string]*object
		attrs    map[attrKey]string
		chunks   []placed
		layouts  []layout
		count    uint64 // of objects, those of ranks once for each
	}
)

// readIndex checks the root and every page of an index. The caller has compared rootSize with len(raw).
func readIndex(where string, raw []byte, rootSize uint32, digest Digest, manifest bool) *Index {
	x := &Index{where: where, manifest: manifest, tensors: map[string]*tensor{}, aliases: map[string]alias{},
		objects: map[string]*object{}, attrs: map[attrKey]string{}}
	rootAt := uint64(len(raw)) - uint64(rootSize)
	where += " root"
	same(corrupt, where, "digest", digest, hash128(raw[rootAt:]))
	flat(raw[rootAt:], "CKPR", where).fill(&x.Root)
	rule(len(x.Pages) > 0, where, "pages", "at least one", 0)
	x.checkRoot(where)
	at, refs, first := uint64(0), append(slices.Clone(x.Pages), x.PartPages...), []string{}
	for i, r := range refs {
		first = append(first, textOf(*x.Names, r.First, where))
		rule((i == 0 || i >= len(x.Pages)) == (first[i] == "") && (first[i] == "" || first[i] > first[i-1]), where,
			"first names of pages", "empty, then ascending", quoted(first[i]))
	}
	for i, r := range refs {
		w, end := fmt.Sprintf("%s page %d", x.where, i), at+uint64(r.Size)
		rule(r.Offset == at && align(end, 64) <= rootAt, w, "place", fmt.Sprintf("at %d, before the root", at), r.Offset)
		at = align(end, 64)
		same(corrupt, w, "digest", r.Digest, hash128(raw[r.Offset:end]))
		zero(x.where+"'s index", raw[end:at], end)
		var p Page
		flat(raw[r.Offset:end], "CKPI", w).fill(&p)
		need(len(p.Parity) == 0, unsupported, w, "parity", "none", "some")
		if i < len(x.Pages) {
			equal(w, "name_first and object_first", fmt.Sprint(x.names(), x.count), fmt.Sprint(r.NameFirst, r.ObjectFirst))
			(&pageReader{Page: p, x: x, where: w, first: first[i], last: i+1 == len(x.Pages)}).read(append(first, "")[i+1])
		} else {
			equal(w, "name_first and object_first of a page of parts", 0, r.NameFirst+r.ObjectFirst)
			x.readParts(p, w, i+1 == len(refs))
		}
	}
	equal(where, "its place, name_count", fmt.Sprint(at, x.names()), fmt.Sprint(rootAt, x.NameCount))
	x.checkCounts(where)
	return x
}

func (x *Index) names() uint64 { return uint64(len(x.tensors) + len(x.aliases)) }

func (x *Index) checkRoot(where string) {
	s := x.Summary
	same(revision, where, "revision of the summary", 1, s.Revision)
	need(s.Features&^3 == 0, revision, where, "required_features", "no bits but 1 and 2", s.Features)
	rule(utf8.ValidString(s.Run+s.Label+s.Writer), where, "text of the summary", "UTF-8", "other bytes")
	rule(labels.MatchString(s.Label) && labels.MatchString(s.Run), where, "names", "legal", quoted(s.Label+" "+s.Run))
	if !x.manifest {
		equal(where, "layouts, runs and pages of parts in a part", 0, len(x.Layouts)+len(x.Runs)+len(x.PartPages))
		rule(len(x.Bases) <= 65535, where, "bases", "at most 65535", len(x.Bases))
		for i, b := range x.Bases {
			rule(b.Part.Kind == 1 && b.Part.CopyOffset == 0 && (i == 0 || x.Bases[i-1].Part.before(b.Part)), where, "bases",
				"ascending, of kind 1, without copies", b.Part.SaveID)
			checkPart(b.Part, where+" base")
		}
		return
	}
	equal(where, "groups and bases in MANIFEST", 0, len(x.Groups)+len(x.Bases))
	rule(s.World >= 1 && s.World <= math.MaxInt32, where, "world_size", "1 to 2^31-1", s.World)
	id := append(append(s.Session.bytes(), s.Label...), 0)
	equal(where, "save_id", hash128(le.AppendUint64(id, s.Attempt)), s.Save)
	at, world, expanded := uint32(0), int64(s.World), uint64(0)
	for i, l := range x.Layouts {
		w := fmt.Sprintf("%s layout %d", where, i)
		last, all, parts := int64(-1), uint64(l.PerCell), []uint32{}
		for _, r := range own(x.Runs, &at, l.Runs, w) {
			end := int64(r.First) + int64(r.Stride)*(int64(r.Count)-1)
			rule(r.Count >= 1 && int64(r.First) < world && end >= 0 && end < world, w, "a run", "parts below world_size", r)
			rule(l.Kind == 1 || int64(r.First) > last && (r.Count == 1 || r.Stride > 0), w, "its parts", "ascending", r)
			expanded, last = expanded+uint64(r.Count), end
			need(expanded <= 1<<27, unsupported, w, "parts of all layouts", "at most 2^27 (a limit of this reader)", expanded)
			for k := range int64(r.Count) {
				parts = append(parts, uint32(int64(r.First)+k*int64(r.Stride)))
			}
		}
		rule(l.Kind <= 2, w, "kind", "0, 1 or 2", l.Kind)
		rule(l.Kind == 1 || l.Cells == 0 && l.Ndim == 0 && (l.Kind == 0 || l.PerCell >= 1), w, "cells", "0, some", l.Ndim)
		rule(l.Kind != 1 || l.Ndim >= 1 && l.Ndim <= 16 && l.PerCell >= 1 && int64(l.PerCell) <= world, w,
			"dimensions and parts of a cell", "1 to 16 and to world_size", l)
		cells := numbersAt(x.Numbers, l.Cells, uint64(l.Ndim), w) // none but of a grid
		for _, m := range cells {
			all = times(all, m)
		}
		equal(w, "parts of its runs, cells times parts of a cell", all, uint64(len(parts)))
		x.layouts = append(x.layouts, layout{l, cells, parts})
	}
	equal(where, "runs of all layouts", len(x.Runs), int(at))
}

func (x *Index) checkCounts(where string) {
	c, found, sizes := x.Summary.Counts, Counts{Rebuilt: x.Summary.Rebuilt}, [2]uint64{} // of parts, of bases
	if x.manifest {
		found.Parts, found.Tensors, found.Objects = x.Summary.World, uint64(len(x.tensors)), x.count
		for i, p := range x.parts {
			sizes[p.Kind] += p.Size
			found.Bases += uint32(p.Kind)
			found.UsedBytes += x.used[i] // 0 of a rank
		}
		found.Bytes, found.BaseBytes = sizes[0], sizes[1]
		equal(where, "records of parts", uint64(found.Parts)+uint64(found.Bases), uint64(len(x.parts)))
	}
	equal(where, "counts of the summary", found, c)
	equal(where, "bases, by required_features", x.Summary.Features&1 > 0, len(x.Bases)+int(c.Bases) > 0)
	runs := slices.ContainsFunc(slices.Collect(maps.Keys(x.attrs)), func(k attrKey) bool { return k.key == runsKey })
	equal(where, "tables in runs, by required_features", x.Summary.Features&2 > 0, runs)
}

func (x *Index) layout(i uint32, where string) layout {
	rule(uint64(i) < uint64(len(x.layouts)), where, "layout", fmt.Sprintf("below %d", len(x.layouts)), i)
	return x.layouts[i]
}

// checkLayout checks that a tensor of MANIFEST can have its layout.
func (t *tensor) checkLayout(w string) {
	l := t.layout
	rule((t.elems > 0) == (len(l.parts) > 0), w, "parts of a tensor without elements", "none", l.parts)
	rule(l.Kind != 1 || len(t.shape) == len(l.cells), w, "dimensions of the grid", len(t.shape), l.Ndim)
	for i, cells := range l.cells {
		rule(times(cellSize(t.shape[i], cells), cells-1) < t.shape[i], w, "cells of the grid", "none empty", cells)
	}
	rule(l.Kind != 2 || len(t.shape) > 0 && t.shape[0] >= uint64(len(l.parts)) && wholeBytes(t.elems/t.shape[0], t.bits),
		w, "rows", "of whole bytes, at least one of each part", t.shape)
}

func cellSize(extent, cells uint64) uint64 { return extent/cells + min(1, extent%cells) }

func checkPart(p Part, where string) {
	rule(p.Size%4096 == 0 && p.Size >= 8192 && p.Size <= math.MaxInt64, where, "size", "a multiple of 4096", p.Size)
	at := p.IndexOffset
	rule(at >= 4096 && at%64 == 0 && inside(at, p.IndexSize, p.Size-72), where, "its index", "inside the part", at)
	checkSizes(p.IndexSize, uint64(p.RootSize), where)
}

func checkSizes(index, root uint64, where string) {
	rule(root >= 8 && root <= math.MaxInt32 && root <= index && (index-root)%64 == 0, where, "size of the root",
		"to 2^31-1, at a multiple of 64 of the index", root)
}

func (p Part) before(b Part) bool { return slices.Compare(p.order(), b.order()) < 0 }
func (p Part) order() []uint64    { return []uint64{p.SaveID.Lo, p.SaveID.Hi, uint64(p.Rank)} }

func (x *Index) readParts(p Page, where string, last bool) {
	n, s := uint64(len(p.Parts)), x.Summary
	others := len(p.Tensors) + len(p.Holdings) + len(p.Regions) + len(p.Segments) + len(p.Chunks) + len(p.Objects) +
		len(p.Inline) + len(p.Aliases) + len(p.Attrs) + len(p.Homes)
	rule(others == 0 && (len(p.Used) == 0 || len(p.Used) == len(p.Parts)), where, "columns", "parts, maybe used", others)
	rule(n >= 1 && (n == uint64(x.PerPage) || last && n < uint64(x.PerPage)), where, "parts on a page", x.PerPage, n)
	all := append(p.Used, make([]uint64, n)...)
	for i, r := range p.Parts {
		k, w, used := uint64(len(x.parts)), fmt.Sprintf("%s part %d", where, i), all[i]
		need(r.Kind != 2, unsupported, w, "kind", "0 or 1", 2)
		checkPart(r, w)
		if k < uint64(s.World) {
			rule(r.Kind == 0 && r.Rank == uint32(k) && r.SaveID == s.Save && used == 0, w, "a rank's record", "its own", r)
		} else {
			rule(r.Kind == 1 && r.CopyOffset == 0 && r.SaveID != s.Save && used > 0, w, "a base",
				"of kind 1, of another save, without a copy, used", r)
			rule(k == uint64(s.World) || x.parts[k-1].before(r), w, "bases", "ascending", r.SaveID)
		}
		x.parts, x.used = append(x.parts, r), append(x.used, used)
	}
}

func textOf(names string, t Text, where string) string {
	end := uint64(t.Offset) + uint64(t.Size)
	rule(end < uint64(len(names)) && names[end] == 0, where, "a text", "inside names, with a zero byte after it", end)
	s := names[t.Offset:end]
	rule(utf8.ValidString(s), where, "a text", "UTF-8", quoted(s))
	return s
}

func numbersAt(numbers []uint64, at uint32, n uint64, where string) []uint64 {
	rule(uint64(at)+n <= uint64(len(numbers)), where, "numbers", fmt.Sprintf("at most %d", len(numbers)), uint64(at)+n)
	return numbers[at : uint64(at)+n]
}

// own gives the range of a column that a record owns. Ranges follow each other.
func own[T any](column []T, at *uint32, s Span, where string) []T {
	rule(s.First == *at && int(s.Count) <= len(column)-int(*at), where, "records", fmt.Sprint(*at, len(column)), s)
	*at += s.Count
	return column[s.First:*at]
}

// measure gives the elements and bytes of a shape. Bytes are rounded up.
func measure(shape []uint64, width uint64, where string) (elems, bytes uint64) {
	rule(len(shape) == 0 || slices.Max(shape) <= math.MaxInt64, where, "extents", "at most 2^63-1", shape)
	if slices.Contains(shape, 0) {
		return 0, 0
	}
	elems = 1
	for _, e := range shape {
		elems = times(elems, e)
	}
	bytes = times(elems/8, width) + (elems%8*width+7)/8
	rule(elems <= math.MaxInt64 && bytes <= math.MaxInt64, where, "elements and bytes", "fewer than 2^63", shape)
	return elems, bytes
}

// times is at most 2^63, which stands for all that is too much.
func times(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return min(lo, 1<<63)
	}
	return 1 << 63
}

func wholeBytes(elems, width uint64) bool { return elems%8*width%8 == 0 }

// isRange tells whether elements lie inside others and have bytes of their own.
func (t *tensor) isRange(start, count, all uint64) bool {
	return count >= 1 && inside(start, count, all) && wholeBytes(start, t.bits) &&
		(start+count == all || wholeBytes(start+count, t.bits))
}

// A pageReader reads a page of names. It knows where the next range of each column begins.
type pageReader struct {
	Page
	x                              *Index
	where, first                   string
	last                           bool
	chunks                         []placed
	region, segment, chunk, inline uint32
}

func (r *pageReader) read(next string) {
	x, before, known := r.x, map[string]string{}, map[string]bool{"": true}
	columns := len(r.Regions) + len(r.Segments) + len(r.Chunks) + len(r.Homes) + len(r.Inline)
	rule(len(r.Parts)+len(r.Used) == 0, r.where, "parts on a page of names", 0, len(r.Parts))
	rule(!x.manifest && len(r.Holdings) == 0 || x.manifest && len(r.Holdings) == len(r.Tensors) && columns == 0, r.where,
		"columns", "those of MANIFEST or of a part", columns)
	rule(len(r.Homes) == 0 || len(r.Homes) == len(r.Chunks), r.where, "homes", "none or one for each chunk", len(r.Homes))
	homes := append(r.Homes, make([]uint16, len(r.Chunks))...)
	for i, c := range r.Chunks {
		rule(int(homes[i]) <= len(x.Bases), r.where, "home of a chunk", "a base", homes[i])
		r.chunks = append(r.chunks, placed{c, homes[i]})
	}
	x.chunks = append(x.chunks, r.chunks...)
	inside := func(s string) bool { return s >= r.first && (r.last || s < next) }
	name := func(t Text, what string) (string, string) {
		s := textOf(*r.Names, t, r.where)
		rule(legal(s) && s > before[what] && inside(s), r.where, "names of "+what, "legal, ascending, on its page", quoted(s))
		before[what], known[s] = s, known[s] || what != "objects"
		return s, path(r.where, s)
	}
	for i, rec := range r.Tensors {
		n, w := name(rec.Name, "tensors")
		shape := numbersAt(r.Numbers, rec.Shape, uint64(rec.Ndim), w)
		t := &tensor{name: n, dtype: rec.Dtype, bits: uint64(rec.Dtype & 255), shape: shape}
		rule(rec.Ndim <= 16 && t.bits >= 1, w, "dimensions and bits", "to 16, from 1", rec.Dtype)
		t.elems, t.bytes = measure(t.shape, t.bits, w)
		if x.manifest {
			t.holding, t.layout = r.Holdings[i], x.layout(r.Holdings[i].Layout, w)
			t.checkLayout(w)
		}
		for _, reg := range own(r.Regions, &r.region, rec.Regions, w) {
			t.regions = append(t.regions, r.readRegion(t, reg, w))
		}
		x.tensors[n] = t
	}
	for _, rec := range r.Aliases {
		n, w := name(rec.Name, "aliases")
		a := alias{target: textOf(*r.Names, rec.Target, w), view: rec.IsView == 1}
		rule(x.tensors[n] == nil && rec.IsView <= 1, w, "an alias", "of no tensor's name, is_view 0 or 1", rec.IsView)
		rule(a.view && rec.Ndim <= 16 || rec.Ndim == 0 && rec.View == 0, w, "ndim and view", "to 16, or both 0", rec.View)
		if a.view {
			v := numbersAt(r.Numbers, rec.View, 1+2*uint64(rec.Ndim), w)
			rule(slices.Max(v) <= math.MaxInt64, w, "offset, extents and strides", "at most 2^63-1", v)
			a.offset, a.extents, a.strides = v[0], v[1:1+rec.Ndim], v[1+rec.Ndim:]
		}
		x.aliases[n] = a
	}
	for _, rec := range r.Objects {
		n, w := name(rec.Name, "objects")
		o := &object{Object: rec, name: n, media: textOf(*r.Names, rec.MediaType, w)}
		r.readObject(o, w)
		x.objects[n] = o
	}
	rule(int(r.region) == len(r.Regions) && int(r.segment) == len(r.Segments) && int(r.chunk) == len(r.Chunks) &&
		int(r.inline) == len(r.Inline), r.where, "records and inline data", "an owner of each", "some without")
	for _, rec := range r.Attrs {
		k := attrKey{textOf(*r.Names, rec.Owner, r.where), textOf(*r.Names, rec.Key, r.where)}
		v, w := textOf(*r.Names, rec.Value, r.where), path(r.where, k.owner)+" attribute "+quoted(k.key)
		rule(keys.MatchString(k.key) && len(k.key) <= 255 && (k.owner == "" || legal(k.owner)) && len(v) <= 1<<20 &&
			!strings.Contains(v, "\x00"), w, "owner, key and value", "legal", len(v))
		rule(!x.manifest || known[k.owner], w, "owner", "on the same page", "absent")
		sorted := k.owner + "\x00" + k.key // no name has a zero byte
		rule(sorted > before[""] && inside(k.owner), w, "attributes", "ascending, in the page's range", "another order")
		before[""], x.attrs[k] = sorted, v
	}
}

func (r *pageReader) readRegion(t *tensor, rec Region, w string) *region {
	reg, nd := &region{kind: rec.Kind, nums: []uint64{0}, elems: t.elems}, uint64(len(t.shape))
	rule(rec.Kind <= 3, w, "kind of a region", "0 to 3", rec.Kind)
	switch rec.Kind {
	case 0, 3:
		rule(t.elems > 0 && rec.Geometry == 0, w, "a region of kind 0 or 3", "some elements, geometry 0", rec.Geometry)
	case 1:
		reg.nums, reg.elems = numbersAt(r.Numbers, rec.Geometry, 2*nd, w), 1
		for i, e := range reg.nums[nd:] {
			rule(e >= 1 && e <= t.shape[i] && reg.nums[i] <= t.shape[i]-e, w, "a box", "inside the tensor", reg.nums)
			reg.elems *= e
		}
		rule(nd > 0 && reg.elems < t.elems, w, "a box", "less than its tensor", reg.nums)
		rule(wholeBytes(reg.nums[nd-1]|reg.nums[2*nd-1]|t.shape[nd-1], t.bits), w, "a box", "at whole bytes", reg.nums)
	case 2:
		reg.nums = numbersAt(r.Numbers, rec.Geometry, 2, w)
		reg.elems = reg.nums[1]
		rule(reg.elems < t.elems && t.isRange(reg.nums[0], reg.elems, t.elems), w, "a range", "less, whole bytes", reg.nums)
	}
	if k := len(t.regions); k > 0 {
		l := t.regions[k-1]
		rule(l.kind < reg.kind && reg.kind != 3 || l.kind == reg.kind && slices.Compare(l.nums, reg.nums) < 0, w,
			"regions", "ascending, rows alone", reg.nums)
	}
	at := uint64(0)
	for _, s := range own(r.Segments, &r.segment, rec.Segments, w) {
		rule(s.Start >= at && t.isRange(s.Start, s.Count, reg.elems), w, "segments", "inside, ascending, whole bytes", s)
		at = s.Start + s.Count
		need(s.Codec <= 1 && s.Filter <= 2, unsupported, w, "codec and filter", "to 1 and 2", fmt.Sprint(s.Codec, s.Filter))
		rule(s.Filter == 0 && s.Width == 0 || s.Filter > 0 && s.Codec == 1 && slices.Contains([]uint8{1, 2, 4, 8}, s.Width),
			w, "filter and its width", "none, or 1, 2, 4, 8 with codec 1", s.Width)
		g := segment{Segment: s, chunks: own(r.chunks, &r.chunk, s.Chunks, w)}
		_, size := measure([]uint64{s.Count}, t.bits, w)
		g.stored = checkList(g.chunks, size, s.Codec == 0, w)
		for _, c := range g.chunks {
			rule(t.bits%8 != 0 || uint64(c.Raw)%(t.bits/8) == 0, w, "a chunk", "whole elements", c.Raw)
		}
		reg.segs = append(reg.segs, g)
	}
	rule(len(reg.segs) > 0, w, "segments of a region", "at least one", 0)
	return reg
}

// checkList checks the chunks of a segment or object, which make `size` bytes.
func checkList(list []placed, size uint64, raw bool, where string) (stored uint64) {
	sum := uint64(0)
	for i, c := range list {
		rule(c.Raw == list[0].Raw || i == len(list)-1 && c.Raw < list[0].Raw, where, "raw size", "equal, but the last", c.Raw)
		rule(!raw || c.Stored == c.Raw, where, "stored size of a raw chunk", c.Raw, c.Stored)
		rule(c.Stored >= 1 && c.Stored <= c.Raw && c.Raw <= 64<<20 && c.Raw/255 <= c.Stored, where, "sizes of a chunk",
			"stored <= raw <= 64 MiB, which an LZ4 block can hold", c.Chunk)
		sum, stored = sum+uint64(c.Raw), stored+uint64(c.Stored)
	}
	equal(where, "bytes of all chunks", size, sum)
	return stored
}

func (r *pageReader) readObject(o *object, w string) {
	o.chunks = own(r.chunks, &r.chunk, o.Chunks, w)
	r.x.count++
	rule(o.Scope <= 2 && (o.Placement == 1) == (len(o.chunks) > 0), w, "scope, chunks", "0 to 2, some if placed", o.Scope)
	rule(o.InlineOffset == r.inline && !strings.Contains(o.media, "\x00"), w, "inline_offset", r.inline, o.InlineOffset)
	if r.x.manifest {
		l := r.x.layout(o.Layout, w)
		rule(o.Placement == 3 && l.Kind == 0 && len(l.parts) > 0, w, "place", "3, a list", o.Placement)
		rule(o.Scope != 0 || len(l.parts) == 1 && l.parts[0] == 0, w, "parts of a shared object", 0, l.parts)
		rule(o.Scope == 0 || o.Size == 0 && o.Digest == Digest{}, w, "size and digest of an object of ranks", 0, o.Size)
		r.x.count += uint64(len(l.parts)) - 1
		o.parts = l.parts
		return
	}
	rule(o.Placement <= 2 && o.Layout == 0 && (o.Placement != 2 || o.Scope == 0), w, "placement", "0 to 2", o.Placement)
	if rest := r.Inline[o.InlineOffset:]; o.Placement == 0 {
		rule(o.Size <= 4096 && o.Size <= uint64(len(rest)), w, "size of inline data", "to 4096, inside inline data", o.Size)
		o.inline = rest[:o.Size]
		r.inline += uint32(o.Size)
		same(corrupt, w, "digest", o.Digest, hash128(o.inline))
	} else if o.Placement == 1 {
		checkList(o.chunks, o.Size, true, w)
	}
}
