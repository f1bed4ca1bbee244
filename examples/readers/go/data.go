package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pierrec/lz4/v4"
)

// limit is what this reader puts together in memory: many chunks of a small file may lie at one place of a base.
const limit = 16 << 30

// data reads chunks, checks and decodes them.
func (p *partFile) data(list []placed, filter, width uint8, where string) (out []byte) {
	for _, c := range list {
		f := p
		if c.home > 0 {
			f = p.bases[c.home-1]
		}
		w := fmt.Sprintf("%s at %d (%s)", f.where, c.Offset, where)
		b := f.read(c.Offset, uint64(c.Stored))
		same(corrupt, w, "digest of a chunk", c.Digest, hash128(b))
		if c.Stored != c.Raw {
			raw := make([]byte, c.Raw)
			n, err := lz4.UncompressBlock(b, raw)
			rule(err == nil && n == len(raw), w, "LZ4 block of a sound chunk", c.Raw, fmt.Sprint(n, err))
			b = unfilter(raw, filter, int(width))
		}
		out = append(out, b...)
	}
	return out
}

func unfilter(in []byte, filter uint8, w int) []byte {
	if filter == 0 {
		return in
	}
	out, n := make([]byte, len(in)), len(in)/w
	if filter == 2 {
		n = n / 8 * 8
	}
	copy(out[n*w:], in[n*w:])
	for i := 0; filter == 1 && i < n*w; i++ {
		out[i%n*w+i/n] = in[i]
	}
	for i := 0; filter == 2 && i < n*w*8; i++ {
		plane, element := i/n, i%n
		out[element*w+plane/8] |= in[i/8] >> (i % 8) & 1 << (plane % 8)
	}
	return out
}

// data gives a region's bytes, from all parts.
func (r *region) data(where string) (b []byte) {
	for _, s := range r.segs {
		b = append(b, s.part.data(s.chunks, s.Filter, s.Width, where)...)
	}
	return b
}

// data puts a tensor together. Every byte must come from one region.
func (m *tensor) data() []byte {
	w := "tensor " + quoted(m.name)
	need(m.bytes <= limit, unsupported, w, "bytes", "at most 16 GiB (a limit of this reader)", m.bytes)
	out, seen := make([]byte, m.bytes), make([]byte, m.bytes)
	put := func(at uint64, b []byte) {
		mark := seen[at : at+uint64(len(b))]
		rule(bytes.IndexByte(mark, 1) < 0, w, "regions", "without overlap", "one that overlaps")
		copy(out[at:], b)
		copy(mark, bytes.Repeat([]byte{1}, len(mark)))
	}
	for _, r := range m.regions {
		data, n := r.data(w), len(m.shape)
		if r.kind != 1 {
			put(r.nums[0]*m.bits/8, data)
			continue
		}
		offsets, extents := r.nums[:n], r.nums[n:]
		width := extents[n-1] * m.bits / 8
		for i := uint64(0); len(data) > 0; i, data = i+1, data[width:] {
			at, stride, k := offsets[n-1], m.shape[n-1], i
			for d := n - 2; d >= 0; d-- {
				at += (offsets[d] + k%extents[d]) * stride
				stride, k = stride*m.shape[d], k/extents[d]
			}
			put(at*m.bits/8, data[:width])
		}
	}
	if rest := m.elems % 8 * m.bits % 8; rest > 0 {
		rule(out[len(out)-1]>>rest == 0, w, "unused bits at its end", 0, out[len(out)-1])
	}
	return out
}

// viewData gathers the elements of a view.
func viewData(from []byte, width uint64, a alias, where string) []byte {
	n, bytes := measure(a.extents, width, where)
	need(n <= 1<<26, unsupported, where, "elements of a view", "to 2^26 (a limit of this reader)", a.extents)
	out := make([]byte, bytes)
	for i := range n {
		at, k := a.offset, i
		for d := len(a.extents) - 1; d >= 0; d-- {
			at, k = at+k%a.extents[d]*a.strides[d], k/a.extents[d]
		}
		for b := range width { // bit by bit, as elements may be packed
			bit := from[(at*width+b)/8] >> ((at*width + b) % 8) & 1
			out[(i*width+b)/8] |= bit << ((i*width + b) % 8)
		}
	}
	return out
}

func (p *partFile) objectData(name string) []byte {
	o, w := p.x.objects[name], path(p.where, name)
	need(o.Size <= limit, unsupported, w, "bytes", "at most 16 GiB (a limit of this reader)", o.Size)
	b := o.inline
	if o.Placement == 1 {
		b = p.data(o.chunks, 0, 0, w)
	}
	same(corrupt, w, "digest", o.Digest, hash128(b))
	return b
}

type (
	// A sparse table, by FORMAT.md §4 and TABLE_RUNS.md. All its rows are checked.
	sparse struct {
		*Checkpoint
		where   string
		buckets uint64
		columns []string // "ids" first
	}
	// Rows: the bytes of all columns.
	rows  map[rowID][]byte
	rowID struct {
		part uint32
		id   uint64
	}
)

const runsKey = "ckpt.table.runs"

// readTable gives what the golden files say of a table.
func (c *Checkpoint) readTable(name, attr string) map[string]any {
	t := &sparse{c, "table " + quoted(name), 0, strings.Split(attr, "\n")}
	w := t.where
	word, number, blank := strings.Cut(t.columns[0], " ")
	need(word == "mod" && blank, unsupported, w, "placement", "mod", quoted(word))
	buckets, err := strconv.ParseUint(number, 10, 32)
	rule(err == nil && decimal.MatchString(number), w, "number of buckets", "1 to 2^32-1", quoted(number))
	t.buckets, t.columns[0] = buckets, "ids"
	a := c.aliases[name]
	rule(!a.view && a.target == name+"/ids", w, "its name", "an alias of its ids", a.target)
	for i, col := range t.columns[1:] {
		rule(legal(col) && col != "buckets" && !slices.Contains(t.columns[:i+1], col) && !strings.HasPrefix(col, "run-"), w,
			"a column", "legal, once, without run-", quoted(col))
	}
	newest := t.layer(name, name, t.columns)
	if by, ok := c.attrs[attrKey{name, runsKey}]; ok {
		need(by == "newest", unsupported, w, "runs", "newest", quoted(by))
		t.addRuns(name, newest)
	}
	all, sorted := map[uint64][]byte{}, []byte{}
	for at, row := range newest {
		need(all[at.id] == nil, mismatched, w, fmt.Sprintf("id %d", at.id), "in one part", "also in another")
		all[at.id] = row
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[id]...)
	}
	return map[string]any{"buckets": buckets, "columns": t.columns[1:], "rows": len(all), "sha256": sha(sorted)}
}

// addRuns puts the rows of all later runs over those of run 0.
func (t *sparse) addRuns(name string, newest rows) {
	run := func(k int, of string) string { return fmt.Sprintf("%s/run-%d%s", name, k, of) }
	last, later, live := 0, map[uint32]bool{}, map[uint32]uint64{}
	for k := 1; k <= 64; k++ {
		if t.tensors[run(k, "/ids")] != nil || t.tensors[run(k, "-removed/ids")] != nil {
			last = k
		}
	}
	rule(last >= 1 && last < 64, t.where, "its last run", "1 to 63", last)
	for k := 1; k <= last; k++ {
		put, gone := t.layer(run(k, ""), name, t.columns), t.layer(run(k, "-removed"), name, t.columns[:1])
		for at := range gone {
			rule(put[at] == nil, t.where, fmt.Sprintf("id %d, removed in run %d", at.id, k), "gone", at.part)
			later[at.part] = true
			delete(newest, at)
		}
		for at, row := range put {
			later[at.part], newest[at] = true, row
		}
	}
	for at := range newest {
		live[at.part]++
	}
	for _, r := range t.column(name+"/run-live", numbers).regions {
		part := r.ranks[0]
		equal(t.where, fmt.Sprintf("rows of run-live in part %d", part), 1, r.elems)
		same(mismatched, t.where, fmt.Sprintf("rows of part %d", part), le.Uint64(r.data(t.where)), live[part])
		delete(later, part)
	}
	rule(len(later) == 0, t.where, "parts with runs", "a row of run-live in each", later)
}

// column finds a tensor that is stored as rows. `like` has the same dtype and extents of a row.
func (t *sparse) column(name string, like *tensor) *tensor {
	m, w := t.tensors[name], t.where+" "+quoted(name)
	rule(m != nil && len(m.shape) > 0 && (m.layout.Kind == 2 || m.elems == 0), w, "a tensor of rows", "there", "none")
	row, _ := measure(m.shape[1:], m.bits, w)
	rule(row > 0 && wholeBytes(row, m.bits), w, "a row", "elements, whole bytes", m.shape)
	rule(m.dtype == like.dtype && slices.Equal(m.shape[1:], like.shape[1:]), w, "dtype and row", like, m)
	return m
}

var numbers = &tensor{dtype: 0x140, shape: []uint64{0}}

// layer reads the tensors under `name`, of which each column is like that under `like`.
func (t *sparse) layer(name, like string, columns []string) rows {
	w, out, ids := t.where+" "+quoted(name), rows{}, map[uint32][]uint64{}
	index := t.column(name+"/buckets", numbers).regions
	for i, col := range columns {
		m := t.column(name+"/"+col, t.tensors[like+"/"+col])
		parts := m.regions
		rule(i > 0 || len(m.shape) == 1 && (m.dtype == 0x40 || m.dtype == 0x140), w, "ids", "i64 or u64", m.dtype)
		rule(len(parts) == len(index), w, "parts with "+col, "those with buckets", len(parts))
		for k, r := range parts {
			part, b := r.ranks[0], r.data(w)
			rule(index[k].ranks[0] == part, w, "parts with "+col, "those with buckets", part)
			if i == 0 {
				ids[part] = t.readIds(fmt.Sprintf("PART_%03d %s", part, w), b, index[k].data(w))
			}
			equal(w, "elements of "+col, uint64(len(ids[part]))*(m.elems/m.shape[0]), r.elems)
			width := len(b) / len(ids[part])
			for k, id := range ids[part] {
				out[rowID{part, id}] = append(out[rowID{part, id}], b[k*width:(k+1)*width]...)
			}
		}
	}
	return out
}

// readIds checks the ids of a part, and where its buckets begin.
func (t *sparse) readIds(w string, b, index []byte) (ids []uint64) {
	g, n, row, before := uint64(len(index)/8), len(b)/8, uint64(0), uint64(0)
	width := (t.buckets + g - 1) / g
	equal(w, "rows of buckets", (t.buckets+width-1)/width, g)
	for i := 0; i <= n; i++ {
		bucket := t.buckets // after the last row
		if i < n {
			ids = append(ids, le.Uint64(b[8*i:]))
			bucket = ids[i] % t.buckets
			rule(i == 0 || before < bucket || before == bucket && ids[i-1] < ids[i], w, "ids", "by bucket, id", ids[i])
			before = bucket
		}
		for ; row < g && row*width <= bucket; row++ {
			equal(w, fmt.Sprintf("row %d of buckets", row), uint64(i), le.Uint64(index[8*row:]))
		}
	}
	return ids
}
