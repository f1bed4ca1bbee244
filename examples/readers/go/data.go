package main

import (
	"bytes"
	"fmt"
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
			b = unfilter(lz4(b, int(c.Raw), w), filter, int(width))
		}
		out = append(out, b...)
	}
	return out
}

// lz4 decodes one LZ4 block that makes exactly n bytes.
func lz4(b []byte, n int, where string) []byte {
	out := make([]byte, 0, n)
	check := func(ok bool, what string) { rule(ok, where, "LZ4 block of a sound chunk", "whole", what) }
	take := func(k int, what string) (head []byte) {
		check(k <= len(b), what)
		head, b = b[:k], b[k:]
		return head
	}
	length := func(n int) int {
		for more := n == 15; more; {
			next := int(take(1, "a length without end")[0])
			n, more = n+next, next == 255
		}
		return n
	}
	for {
		token := int(take(1, "no last literals")[0])
		out = append(out, take(length(token>>4), "literals beyond the end")...)
		if len(b) == 0 {
			check(len(out) == n, fmt.Sprintf("%d bytes", len(out)))
			return out
		}
		from := len(out) - int(le.Uint16(take(2, "half an offset")))
		k := length(token&15) + 4
		check(from >= 0 && from < len(out) && k <= n-len(out), "a match outside")
		for ; k > 0; k-- {
			out, from = append(out, out[from]), from+1
		}
	}
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

// tensorData puts a tensor together. Every byte must come from one region.
func (c *Checkpoint) tensorData(m *tensor) []byte {
	w := "tensor " + quoted(m.name)
	need(m.bytes <= limit, unsupported, w, "bytes", "at most 16 GiB (a limit of this reader)", m.bytes)
	out, seen, row := make([]byte, m.bytes), make([]byte, m.bytes), uint64(0)
	put := func(at uint64, b []byte) {
		mark := seen[at : at+uint64(len(b))]
		rule(bytes.IndexByte(mark, 1) < 0, w, "regions", "without overlap", "one that overlaps")
		copy(out[at:], b)
		copy(mark, bytes.Repeat([]byte{1}, len(mark)))
	}
	for _, r := range c.wholes[m.name] {
		data, n := r.data(w), len(m.shape)
		switch r.kind {
		case 0, 3:
			put(row, data)
			row += uint64(len(data))
		case 1:
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
		case 2:
			put(r.nums[0]*m.bits/8, data)
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

// named gives dtype, shape and data of a tensor or an alias.
func (c *Checkpoint) named(name string) (*tensor, []byte) {
	if t := c.tensors[name]; t != nil {
		return t, c.tensorData(t)
	}
	a := c.aliases[name]
	t := *c.tensors[a.target]
	b := c.tensorData(&t)
	if a.view {
		t.shape, b = a.extents, viewData(b, t.bits, a, "alias "+quoted(name))
	}
	return &t, b
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
