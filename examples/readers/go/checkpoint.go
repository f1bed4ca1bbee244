package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
)

type (
	// A partFile is a part of the checkpoint, or a base.
	partFile struct {
		file
		rec   Part
		copy  []byte // of its index, in MANIFEST
		x     *Index
		bases []*partFile
		own   map[Chunk]bool // of a base: its chunks, without their raw sizes
	}
	// A Checkpoint is open: all indexes agree. Its chunks have not been read.
	Checkpoint struct {
		*Index
		parts  []*partFile
		bases  map[string]*partFile
		wholes map[string][]*region // of a tensor, with the segments of all parts
	}
)

const trailerSize = 88

func openCheckpoint(dir string) *Checkpoint {
	f := open(dir, "MANIFEST")
	where := f.where
	rule(f.size >= trailerSize, where, "size", "at least 88", f.size)
	end := f.size - trailerSize
	b, t := f.read(0, end), f.read(end, trailerSize)
	equal(where, "magic", "CKPTMANI", string(t[72:80]))
	if le.Uint64(t[80:]) != sum64(t[:80]) {
		old := t[16:] // a trailer of revision 0 was the last 72 bytes
		need(le.Uint64(old[64:]) != sum64(old[:64]) || le.Uint32(old[52:]) != 0, revision, where, "revision", 1, 0)
		same(corrupt, where, "checksum of the trailer", sum64(t[:80]), le.Uint64(t[80:]))
	}
	same(revision, where, "revision", 1, le.Uint32(t[68:]))
	index, root, copies, summary, kind := le.Uint64(t), le.Uint64(t[8:]), le.Uint64(t[16:]), le.Uint64(t[24:]),
		le.Uint32(t[64:])
	rule(kind == 1 || kind == 2 && root|copies|summary == 0 && index <= 1<<20, where, "kind", "1, or 2 and sizes 0", kind)
	rule(index <= end && copies <= end && copies%64 == 0 && summary <= 1<<20, where, "sizes", "inside the file",
		fmt.Sprint(index, copies, summary))
	copiesAt := align(index, 64)
	summaryAt := copiesAt + copies
	equal(where, "size by its trailer", align(summaryAt+summary, 8), end)
	if kind == 2 {
		root = index
	}
	checkSizes(index, root, where)
	same(corrupt, where, "digest of the root", digestAt(t[32:]), hash128(b[index-root:index]))
	same(corrupt, where, "digest of the summary", digestAt(t[48:]), hash128(b[summaryAt:summaryAt+summary]))
	zero(where, b[index:copiesAt], index)
	zero(where, b[summaryAt+summary:], summaryAt+summary)
	if kind == 2 {
		flat(b[:index], "CKPX", where)
		need(false, incomplete, where, "kind", "a checkpoint", "a tombstone")
	}
	var tail Summary
	flat(b[summaryAt:summaryAt+summary], "CKPS", where+" summary").fill(&tail)
	x := readIndex(where, b[:index], uint32(root), digestAt(t[32:]), true)
	equal(where, "summary at the end", *x.Summary, tail)
	c := &Checkpoint{Index: x, bases: map[string]*partFile{}, wholes: map[string][]*region{}}
	c.checkManifest()
	c.openIndexes(dir, b[copiesAt:summaryAt])
	for _, n := range sortedKeys(c.tensors) {
		c.joinTensor(c.tensors[n], path("MANIFEST tensor", n))
	}
	c.joinRest()
	c.openFiles(dir)
	return c
}

// openIndexes reads the indexes of all parts, from the copies in MANIFEST if it has some.
func (c *Checkpoint) openIndexes(dir string, copies []byte) {
	total, at, ranks := uint64(0), uint64(0), c.Index.parts[:c.Summary.World]
	for _, p := range ranks {
		total = min(total+align(p.IndexSize, 64), 1<<21)
	}
	if total > 1<<20 {
		total = 0
	}
	equal(c.where, "copies of indexes", total, uint64(len(copies)))
	for i, rec := range ranks {
		w := fmt.Sprintf("MANIFEST, copy of part %d", i)
		p := &partFile{file: file{where: fmt.Sprintf("PART_%03d", i)}, rec: rec}
		equal(w, "copy_offset", at, rec.CopyOffset)
		if total > 0 {
			end := at + rec.IndexSize
			p.copy, at = copies[at:end], align(end, 64)
			zero(w, copies[end:at], end)
			p.x = readIndex(w, p.copy, rec.RootSize, rec.Root, false)
		} else {
			p.open(dir, c.Summary)
		}
		c.parts = append(c.parts, p)
	}
	s := *c.parts[0].x.Summary
	s.Features, s.Counts = c.Summary.Features, c.Summary.Counts
	equal(c.where, "summary, as part 0 has it", s, *c.Summary)
}

// openFiles opens the parts whose indexes MANIFEST had, and the bases.
func (c *Checkpoint) openFiles(dir string) {
	used, world := map[string]uint64{}, int(c.Summary.World)
	for _, rec := range c.Index.parts[world:] {
		b := &partFile{file: file{where: baseName(rec)}, rec: rec}
		b.open(dir, nil)
		c.bases[b.where] = b
	}
	for _, p := range c.parts {
		if p.copy != nil {
			p.open(dir, c.Summary)
		}
		p.linkBases(c, used)
	}
	for i, rec := range c.Index.parts[world:] {
		equal(c.where, "used of "+baseName(rec), used[baseName(rec)], c.used[world+i])
	}
}

func baseName(p Part) string { return fmt.Sprintf("BASE_%v_%03d", p.SaveID, p.Rank) }

// open checks everything of a part but its chunks. sum is nil for a base, which belongs to another checkpoint.
func (p *partFile) open(dir string, sum *Summary) {
	name, rec := p.where, p.rec
	p.file = open(dir, name)
	same(incomplete, name, "size", rec.Size, p.size)
	h, t := p.read(0, 4096), p.read(p.size-72, 72)
	equal(name, "magics", "CKPTPART CKPTTAIL", string(h[:8])+" "+string(t[56:64]))
	same(corrupt, name, "checksum of the header", sum64(h[:72]), le.Uint64(h[72:]))
	same(corrupt, name, "checksum of the trailer", sum64(t[:64]), le.Uint64(t[64:]))
	same(revision, name, "revision", 1, le.Uint32(h[8:]))
	equal(name, "size of the header", 4096, le.Uint32(h[12:]))
	zero(name, h[80:], 80)
	rank, world := le.Uint32(h[32:]), le.Uint32(h[36:])
	same(corrupt, name, "save id", rec.SaveID, digestAt(h[16:]))
	equal(name, "save id in the trailer", rec.SaveID, digestAt(t[40:]))
	same(corrupt, name, "rank", rec.Rank, rank)
	rule(rank < world, name, "rank", "below world_size", rank)
	if sum != nil {
		want := fmt.Sprint(sum.World, sum.Store, sum.Token, sum.Attempt)
		equal(name, "world size and ids", want, fmt.Sprint(world, digestAt(h[40:]), le.Uint64(h[56:]), le.Uint64(h[64:])))
	}
	want := fmt.Sprint(rec.IndexOffset, rec.IndexSize, rec.RootSize, rec.Root)
	same(corrupt, name, "its index", want, fmt.Sprint(le.Uint64(t), le.Uint64(t[8:]), le.Uint64(t[16:]), digestAt(t[24:])))
	p.zero(rec.IndexOffset+rec.IndexSize, p.size-72)
	if index := p.read(rec.IndexOffset, rec.IndexSize); p.copy == nil {
		p.x = readIndex(name, index, rec.RootSize, rec.Root, false)
	} else {
		need(bytes.Equal(index, p.copy), corrupt, name, "the index", "that of MANIFEST", "another")
	}
	own := p.x.Summary
	p.own = map[Chunk]bool{}
	rule(own.Save == rec.SaveID && own.World == world, name, "save id and world size of its summary", rec.SaveID, own.Save)
	places := []Chunk{{Offset: rec.IndexOffset, Digest: hash128(nil)}}
	for _, c := range p.x.chunks {
		if c.home == 0 {
			places = append(places, c.Chunk)
		}
	}
	for _, g := range p.x.Groups {
		rule(g.Index < g.Count && g.Count > 1, name, "a group", "of several members", g)
		checkList([]placed{{g.List, 0}}, uint64(g.List.Raw), false, name+" list of a group")
		places = append(places, g.List)
	}
	for _, c := range places { // before gaps, where such a chunk should be
		rule(c.Offset >= 4096 && inside(c.Offset, uint64(c.Stored), rec.IndexOffset), name, "a chunk", "before the index", c)
	}
	slices.SortFunc(places, func(a, b Chunk) int { return cmp.Compare(a.Offset, b.Offset) })
	at := uint64(4096)
	for _, c := range places {
		w := fmt.Sprintf("%s at %d", name, c.Offset)
		rule(c.Offset >= at, w, "a chunk", "without overlap", c)
		p.zero(at, c.Offset)
		at = c.Offset + uint64(c.Stored)
		same(corrupt, w, "digest of a chunk", c.Digest, hash128(p.read(c.Offset, uint64(c.Stored))))
		p.own[Chunk{c.Offset, c.Stored, 0, c.Digest}] = true
	}
}

// linkBases finds the chunks that lie in bases.
func (p *partFile) linkBases(c *Checkpoint, used map[string]uint64) {
	sums := make([]uint64, len(p.x.Bases))
	for _, b := range p.x.Bases {
		f := c.bases[baseName(b.Part)]
		rule(f != nil, p.where, "a base", "in MANIFEST", baseName(b.Part))
		same(mismatched, p.where, "record of "+f.where, f.rec, b.Part)
		p.bases = append(p.bases, f)
	}
	for _, k := range p.x.chunks {
		if k.home > 0 {
			b := p.bases[k.home-1]
			rule(b.own[Chunk{k.Offset, k.Stored, 0, k.Digest}], p.where, "a chunk of "+b.where, "its own", k.Chunk)
			sums[k.home-1] += uint64(k.Stored)
		}
	}
	for i, b := range p.x.Bases {
		equal(p.where, "used of "+p.bases[i].where, sums[i], b.Used)
		used[p.bases[i].where] += b.Used
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// checkManifest checks what MANIFEST says of aliases and tensors by itself.
func (c *Checkpoint) checkManifest() {
	for _, n := range sortedKeys(c.aliases) {
		a, w := c.aliases[n], path("MANIFEST alias", n)
		t := c.tensors[a.target]
		rule(t != nil, w, "target", "a tensor", quoted(a.target))
		if measure(a.extents, t.bits, w); !a.view || slices.Contains(a.extents, 0) {
			continue
		}
		rule(a.offset < t.elems, w, "offset of the view", "inside the target", a)
		left := t.elems - 1 - a.offset
		for i, e := range a.extents {
			hi, way := bits.Mul64(e-1, a.strides[i])
			rule(hi == 0 && way <= left, w, "elements of the view", "inside the target", a)
			left -= way
		}
	}
	for _, n := range sortedKeys(c.tensors) {
		m, w := c.tensors[n], path("MANIFEST tensor", n)
		parts := c.sequence(m.holding.Layout, w)
		l := c.Layouts[m.holding.Layout]
		rule((m.elems > 0) == (len(parts) > 0), w, "parts of a tensor without elements", "none", parts)
		rule(l.Kind != 1 || len(m.shape) == int(l.Ndim), w, "dimensions of the grid", len(m.shape), l.Ndim)
		for i := 0; l.Kind == 1 && i < len(m.shape); i++ {
			cells := c.Numbers[int(l.Cells)+i]
			hi, before := bits.Mul64(cellSize(m.shape[i], cells), cells-1)
			rule(hi == 0 && before < m.shape[i], w, "cells of the grid", "none empty", cells)
		}
		rule(l.Kind != 2 || len(m.shape) > 0 && m.shape[0] >= uint64(len(parts)) && wholeBytes(m.elems/m.shape[0], m.bits),
			w, "rows", "of whole bytes, at least one of each part", m.shape)
	}
}

func cellSize(extent, cells uint64) uint64  { return extent/cells + min(1, extent%cells) }
func (c *Checkpoint) isRows(m *tensor) bool { return c.Layouts[m.holding.Layout].Kind == 2 }

// joinTensor checks what MANIFEST and parts say together of a tensor.
func (c *Checkpoint) joinTensor(m *tensor, w string) {
	var list []*region
	segments, stored, sum, rows, known := uint64(0), uint64(0), uint64(0), uint64(0), false
	byKey, parts := map[string]*region{}, []uint32{}
	for rank, p := range c.parts {
		t := p.x.tensors[m.name]
		if t == nil {
			continue
		}
		equal(w, "dtype and dimensions in "+p.where, fmt.Sprint(m.dtype, len(m.shape)), fmt.Sprint(t.dtype, len(t.shape)))
		own := slices.Clone(m.shape)
		if c.isRows(m) {
			own[0] = t.shape[0]
			rule(len(t.regions) > 0 || own[0] == 0, w, "rows without a region in "+p.where, 0, t.shape)
		}
		rule(slices.Equal(own, t.shape), w, "shape in "+p.where, m.shape, t.shape)
		if known = true; len(t.regions) > 0 {
			parts = append(parts, uint32(rank))
		}
		for _, r := range t.regions {
			rule(c.isRows(m) == (r.kind == 3), w, "kind of a region", "3 if and only if the layout is of rows", r.kind)
			key := fmt.Sprint(r.kind, r.nums)
			reg := byKey[key]
			if reg == nil || r.kind == 3 {
				rule(r.elems <= m.elems-sum, w, "elements of its regions", m.elems, "more")
				sum, reg = sum+r.elems, &region{kind: r.kind, nums: r.nums, elems: r.elems, rows: r.rows}
				byKey[key], list, rows = reg, append(list, reg), rows+r.rows
			}
			reg.ranks = append(reg.ranks, uint32(rank))
			for _, s := range r.segs {
				segments, stored, s.part = segments+1, stored+s.stored, p
				reg.segs = append(reg.segs, s)
			}
		}
	}
	rule(known && sum == m.elems, w, "elements of its regions in all parts", m.elems, sum)
	rule(!c.isRows(m) || rows == m.shape[0], w, "rows of its parts", m.shape, rows)
	equal(w, "segments and stored bytes", fmt.Sprint(segments, stored), fmt.Sprint(m.holding.Segments, m.holding.Stored))
	for _, r := range list {
		slices.SortFunc(r.segs, func(a, b segment) int { return cmp.Compare(a.Start, b.Start) })
		at := uint64(0)
		for _, s := range r.segs {
			equal(w, "start of a segment of all parts", at, s.Start)
			at += s.Count
		}
		equal(w, "elements of a region's segments", r.elems, at)
	}
	seq := c.sequence(m.holding.Layout, w)
	if l := c.Layouts[m.holding.Layout]; l.Kind == 1 {
		c.checkGrid(m, l, seq, list, w)
	} else {
		equal(w, "parts of its layout", fmt.Sprint(parts), fmt.Sprint(seq))
	}
	c.wholes[m.name] = list
}

func (c *Checkpoint) checkGrid(m *tensor, l Layout, seq []uint32, list []*region, w string) {
	n, seen := len(m.shape), make([]bool, len(list))
	equal(w, "regions, one for each cell", len(seq)/int(l.PerCell), len(list))
	for _, r := range list {
		rule(r.kind == 1, w, "kind of a region of a grid", 1, r.kind)
		cell := uint64(0)
		for i, e := range m.shape {
			cells := c.Numbers[int(l.Cells)+i]
			size := cellSize(e, cells)
			k := r.nums[i] / size
			rule(r.nums[i] == k*size && r.nums[n+i] == min(size, e-k*size), w, "a region of a grid", "a cell", r.nums)
			cell = cell*cells + k
		}
		equal(w, "a cell in two regions", false, seen[cell])
		seen[cell] = true
		parts := slices.Clone(seq[cell*uint64(l.PerCell) : (cell+1)*uint64(l.PerCell)])
		k := len(parts)
		for k > 1 && parts[k-1] == parts[k-2] {
			k--
		}
		slices.Sort(parts[:k])
		equal(w, "parts of a cell", fmt.Sprint(r.ranks), fmt.Sprint(parts[:k]))
	}
}

// joinRest checks that MANIFEST has the objects, aliases and attributes of the parts, all tensors, and whole groups.
func (c *Checkpoint) joinRest() {
	seen, holders, groups := map[any]bool{}, map[string][]uint32{}, map[uint64][]Group{}
	for i, p := range c.parts {
		for n := range p.x.tensors {
			rule(c.tensors[n] != nil, path(p.where, n), "a tensor", "in MANIFEST", "not there")
		}
		for n, a := range p.x.aliases {
			equal(path(p.where, n), "alias", fmt.Sprint(c.aliases[n]), fmt.Sprint(a))
			seen[n] = true
		}
		for k, v := range p.x.attrs {
			found, ok := c.attrs[k]
			rule(ok && found == v, path(p.where, k.owner), "attribute "+quoted(k.key), "that of MANIFEST", "another")
			seen[k] = true
		}
		for n, o := range p.x.objects {
			m, w := c.objects[n], path(p.where, n)
			rule(m != nil && m.Scope == o.Scope, w, "scope", "that of MANIFEST", o.Scope)
			rule(o.Scope != 0 || (o.Placement == 2) == (i != 0) && o.Size == m.Size && o.Digest == m.Digest, w,
				"placement, size and digest of a shared object", "2 but on rank 0, those of MANIFEST", o.Object)
			parts, k, fresh := c.sequence(m.Layout, w), len(holders[n]), o.Placement != 2
			for _, r := range holders[n] {
				fresh = fresh && (o.Scope != 2 || c.parts[r].x.objects[n].Digest != o.Digest)
			}
			rule(!fresh || k < len(parts) && parts[k] == uint32(i) && (k > 0 || o.media == m.media), w,
				"parts and media type in MANIFEST", fmt.Sprint(i, o.media), fmt.Sprint(parts, m.media))
			if fresh {
				holders[n] = append(holders[n], uint32(i))
			}
		}
		for _, g := range p.x.Groups {
			groups[g.ID] = append(groups[g.ID], g)
		}
	}
	equal(c.where, "aliases and attributes of all parts", len(c.aliases)+len(c.attrs), len(seen))
	for n, o := range c.objects {
		equal(path(c.where, n), "parts of the object", len(holders[n]), len(c.sequence(o.Layout, n)))
	}
	for id, members := range groups {
		slices.SortFunc(members, func(a, b Group) int { return cmp.Compare(a.Index, b.Index) })
		for i, g := range members {
			want := Group{id, members[0].Digest, members[0].EntryCount, g.List, uint32(i), uint32(len(members))}
			same(mismatched, c.where, fmt.Sprintf("member %d of group %d", i, id), want, g)
		}
	}
}
