package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

type (
	// A partFile is a part of the checkpoint, or a base.
	partFile struct {
		file
		rec   Part
		x     *Index
		bases []*partFile
		own   map[Chunk]bool // its chunks, without their raw sizes
		used  uint64         // by parts, if it is a base
	}
	// A Checkpoint is open: all indexes agree, its tensors have the regions of all parts, and no chunk is damaged.
	Checkpoint struct {
		*Index
		parts []*partFile
		files []*partFile // the parts, then the bases
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
	rule(max(index, copies) <= end && copies%64 == 0 && summary <= 1<<20, where, "sizes", "inside the file", t[:32])
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
	c := &Checkpoint{Index: x}
	c.checkAliases()
	c.openIndexes(dir, b[copiesAt:summaryAt])
	for _, n := range sortedKeys(c.tensors) {
		c.joinTensor(c.tensors[n], path("MANIFEST tensor", n))
	}
	for _, n := range sortedKeys(c.objects) {
		c.joinObject(c.objects[n], path("MANIFEST object", n))
	}
	c.joinRest()
	c.checkFiles(dir)
	return c
}

// openIndexes reads the indexes of all parts, from the copies in MANIFEST if it has some.
func (c *Checkpoint) openIndexes(dir string, copies []byte) {
	total, at := uint64(0), uint64(0)
	for _, rec := range c.Index.parts {
		c.files = append(c.files, &partFile{file: file{where: rec.file()}, rec: rec, own: map[Chunk]bool{}})
	}
	c.parts = c.files[:c.Summary.World]
	for _, p := range c.parts {
		total = min(total+align(p.rec.IndexSize, 64), 1<<21)
	}
	if total > 1<<20 {
		total = 0
	}
	equal(c.where, "copies of indexes", total, uint64(len(copies)))
	for _, p := range c.parts {
		w := "MANIFEST, copy of " + p.where
		equal(w, "copy_offset", at, p.rec.CopyOffset)
		if total == 0 {
			p.open(dir, c.Summary)
			continue
		}
		end := at + p.rec.IndexSize
		p.x = readIndex(w, copies[at:end], p.rec.RootSize, p.rec.Root, false)
		at = align(end, 64)
		zero(w, copies[end:at], end)
	}
	s := *c.parts[0].x.Summary
	s.Features, s.Counts = c.Summary.Features, c.Summary.Counts
	equal(c.where, "summary, as part 0 has it", s, *c.Summary)
}

// checkFiles checks all files, and which chunks of parts lie in bases.
func (c *Checkpoint) checkFiles(dir string) {
	bases := map[string]*partFile{}
	for _, f := range slices.Backward(c.files) { // bases first
		if bases[f.where] = f; f.h == nil {
			f.open(dir, c.Summary)
		}
		if f.checkChunks(); f.rec.Kind == 0 {
			f.linkBases(bases)
		}
	}
	for i, f := range c.files {
		equal(c.where, "used of "+f.where, f.used, c.used[i])
	}
}

func (p Part) file() string {
	if p.Kind == 1 {
		return fmt.Sprintf("BASE_%v_%03d", p.SaveID, p.Rank)
	}
	return fmt.Sprintf("PART_%03d", p.Rank)
}

// open checks everything of a part but its chunks. Its index has the digests of that in MANIFEST.
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
	if rec.Kind == 0 { // a base belongs to another checkpoint
		want := fmt.Sprint(sum.World, sum.Store, sum.Token, sum.Attempt)
		equal(name, "world size and ids", want, fmt.Sprint(world, digestAt(h[40:]), le.Uint64(h[56:]), le.Uint64(h[64:])))
	}
	want := fmt.Sprint(rec.IndexOffset, rec.IndexSize, rec.RootSize, rec.Root)
	same(corrupt, name, "its index", want, fmt.Sprint(le.Uint64(t), le.Uint64(t[8:]), le.Uint64(t[16:]), digestAt(t[24:])))
	p.zero(rec.IndexOffset+rec.IndexSize, p.size-72)
	p.x = readIndex(name, p.read(rec.IndexOffset, rec.IndexSize), rec.RootSize, rec.Root, false)
	own := p.x.Summary
	rule(own.Save == rec.SaveID && own.World == world, name, "save id and world size of its summary", rec.SaveID, own.Save)
}

// checkChunks reads the whole file: chunks, lists of groups, and the zeros between them.
func (p *partFile) checkChunks() {
	name, end := p.where, p.rec.IndexOffset
	places := []Chunk{{Offset: end, Digest: hash128(nil)}}
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
		rule(c.Offset >= 4096 && inside(c.Offset, uint64(c.Stored), end), name, "a chunk", "before the index", c)
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
func (p *partFile) linkBases(bases map[string]*partFile) {
	sums := make([]uint64, len(p.x.Bases))
	for _, b := range p.x.Bases {
		f := bases[b.Part.file()]
		rule(f != nil, p.where, "a base", "in MANIFEST", b.Part.file())
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
		p.bases[i].used += b.Used
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (c *Checkpoint) checkAliases() {
	for _, n := range sortedKeys(c.aliases) {
		a, w := c.aliases[n], path("MANIFEST alias", n)
		t := c.tensors[a.target]
		rule(t != nil, w, "target", "a tensor", quoted(a.target))
		if measure(a.extents, t.bits, w); !a.view || slices.Contains(a.extents, 0) {
			continue
		}
		last := a.offset
		for i, e := range a.extents {
			last = min(last, t.elems) + times(e-1, a.strides[i])
		}
		rule(last < t.elems, w, "last element of the view", "inside the target", a)
	}
}

// joinTensor checks what MANIFEST and parts say together of a tensor, and gives it the regions of all parts.
func (c *Checkpoint) joinTensor(m *tensor, w string) {
	found, sum, parts, byKey := Holding{Layout: m.holding.Layout}, uint64(0), []uint32{}, map[string]*region{}
	isRows := m.layout.Kind == 2
	for rank, p := range c.parts {
		t := p.x.tensors[m.name]
		if t == nil {
			continue
		}
		shape := slices.Clone(m.shape)
		if isRows && len(t.shape) > 0 {
			shape[0] = t.shape[0]
			rule(len(t.regions) > 0 || shape[0] == 0, w, "rows without a region in "+p.where, 0, t.shape)
		}
		equal(w, "dtype and shape in "+p.where, fmt.Sprint(m.dtype, shape), fmt.Sprint(t.dtype, t.shape))
		if len(t.regions) > 0 {
			parts = append(parts, uint32(rank))
		}
		for _, r := range t.regions {
			rule(isRows == (r.kind == 3), w, "kind of a region", "3 if and only if the layout is of rows", r.kind)
			if r.kind == 3 {
				r.nums = []uint64{sum} // where the rows of this part begin
			}
			key := fmt.Sprint(r.kind, r.nums)
			reg := byKey[key]
			if reg == nil {
				rule(r.elems <= m.elems-sum, w, "elements of its regions", m.elems, "more")
				sum, reg = sum+r.elems, &region{kind: r.kind, nums: r.nums, elems: r.elems}
				byKey[key], m.regions = reg, append(m.regions, reg)
			}
			reg.ranks = append(reg.ranks, uint32(rank))
			for _, s := range r.segs {
				found.Segments, found.Stored, s.part = found.Segments+1, found.Stored+s.stored, p
				reg.segs = append(reg.segs, s)
			}
		}
	}
	equal(w, "elements of its regions in all parts", m.elems, sum)
	equal(w, "segments and stored bytes", m.holding, found)
	for _, r := range m.regions {
		slices.SortFunc(r.segs, func(a, b segment) int { return cmp.Compare(a.Start, b.Start) })
		at := uint64(0)
		for _, s := range r.segs {
			equal(w, "start of a segment of all parts", at, s.Start)
			at += s.Count
		}
		equal(w, "elements of a region's segments", r.elems, at)
	}
	if m.layout.Kind == 1 {
		m.checkGrid(byKey, w)
	} else {
		equal(w, "parts of its layout", fmt.Sprint(parts), fmt.Sprint(m.layout.parts))
	}
}

// checkGrid checks that there is a region for each cell of a grid, from the parts that the layout names.
func (m *tensor) checkGrid(regions map[string]*region, w string) {
	n, per := len(m.shape), int(m.layout.PerCell)
	equal(w, "regions, one for each cell", len(m.layout.parts)/per, len(regions))
	for cell := range len(regions) {
		box, k := make([]uint64, 2*n), uint64(cell)
		for d := n - 1; d >= 0; d-- {
			cells := m.layout.cells[d]
			size := cellSize(m.shape[d], cells)
			box[d], k = k%cells*size, k/cells
			box[n+d] = min(size, m.shape[d]-box[d])
		}
		r, parts, own := regions[fmt.Sprint(1, box)], slices.Clone(m.layout.parts[cell*per:][:per]), per
		rule(r != nil, w, "regions of a grid", box, "none")
		for own > 1 && parts[own-1] == parts[own-2] {
			own--
		}
		slices.Sort(parts[:own])
		equal(w, "parts of a cell", fmt.Sprint(r.ranks), fmt.Sprint(parts[:own]))
	}
}

// joinObject checks what MANIFEST and parts say together of an object.
func (c *Checkpoint) joinObject(m *object, w string) {
	parts, known := []uint32{}, map[Digest]bool{}
	for i, p := range c.parts {
		if o := p.x.objects[m.name]; o != nil {
			equal(w, "scope in "+p.where, m.Scope, o.Scope)
			rule(o.Scope != 0 || (o.Placement == 2) == (i != 0) && o.Size == m.Size && o.Digest == m.Digest, w,
				"placement, size and digest of a shared object", "2 but on rank 0, those of MANIFEST", o.Object)
			if o.Placement != 2 && !(o.Scope == 2 && known[o.Digest]) {
				rule(len(parts) > 0 || o.media == m.media, w, "media type in "+p.where, m.media, o.media)
				parts, known[o.Digest] = append(parts, uint32(i)), true
			}
		}
	}
	equal(w, "parts of the object", fmt.Sprint(parts), fmt.Sprint(m.parts))
}

// joinRest checks that MANIFEST has the names and attributes of the parts, and no others, and that groups are whole.
func (c *Checkpoint) joinRest() {
	seen, groups := map[any]bool{}, map[uint64][]Group{}
	for _, p := range c.parts {
		for n := range p.x.tensors {
			rule(c.tensors[n] != nil, path(p.where, n), "a tensor", "in MANIFEST", "not there")
			seen[n] = true
		}
		for n := range p.x.objects {
			rule(c.objects[n] != nil, path(p.where, n), "an object", "in MANIFEST", "not there")
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
		for _, g := range p.x.Groups {
			groups[g.ID] = append(groups[g.ID], g)
		}
	}
	equal(c.where, "names and attributes of all parts", int(c.NameCount)+len(c.attrs), len(seen))
	for id, members := range groups {
		slices.SortFunc(members, func(a, b Group) int { return cmp.Compare(a.Index, b.Index) })
		for i, g := range members {
			want := Group{id, members[0].Digest, members[0].EntryCount, g.List, uint32(i), uint32(len(members))}
			same(mismatched, c.where, fmt.Sprintf("member %d of group %d", i, id), want, g)
		}
	}
}
