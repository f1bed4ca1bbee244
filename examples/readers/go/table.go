package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type (
	// A sparse table, by FORMAT.md §4 and TABLE_RUNS.md. All its rows are checked.
	sparse struct {
		*Checkpoint
		where   string
		buckets uint64
		columns []string // "ids" first
	}
	// The rows of each part by id: the bytes of all columns.
	rows map[uint32]map[uint64][]byte
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
	for part, of := range newest {
		for id, row := range of {
			need(all[id] == nil, mismatched, w, fmt.Sprintf("id %d", id), "in one part", fmt.Sprintf("also in part %d", part))
			all[id] = row
		}
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[id]...)
	}
	return map[string]any{"buckets": buckets, "columns": t.columns[1:], "rows": len(all), "sha256": sha(sorted)}
}

// addRuns puts the rows of all later runs over those of run 0.
func (t *sparse) addRuns(name string, newest rows) {
	run := func(k int, of string) string { return fmt.Sprintf("%s/run-%d%s", name, k, of) }
	last, later := 0, map[uint32]bool{}
	for k := 1; k <= 64; k++ {
		if t.tensors[run(k, "/ids")] != nil || t.tensors[run(k, "-removed/ids")] != nil {
			last = k
		}
	}
	rule(last >= 1 && last < 64, t.where, "its last run", "1 to 63", last)
	for k := 1; k <= last; k++ {
		put, gone := t.layer(run(k, ""), name, t.columns), t.layer(run(k, "-removed"), name, t.columns[:1])
		for part, ids := range gone {
			later[part] = true
			for id := range ids {
				rule(put[part][id] == nil, t.where, fmt.Sprintf("id %d, removed in run %d", id, k), "gone", part)
				delete(newest[part], id)
			}
		}
		for part, of := range put {
			if later[part] = true; newest[part] == nil {
				newest[part] = of
			}
			maps.Copy(newest[part], of)
		}
	}
	for _, r := range t.wholes[t.column(name+"/run-live", numbers).name] {
		part := r.ranks[0]
		equal(t.where, fmt.Sprintf("rows of run-live in part %d", part), 1, r.rows)
		same(mismatched, t.where, fmt.Sprintf("rows of part %d", part), le.Uint64(r.data(t.where)), uint64(len(newest[part])))
		delete(later, part)
	}
	rule(len(later) == 0, t.where, "parts with runs", "a row of run-live in each", later)
}

// column finds a tensor that is stored as rows. `like` has the same dtype and extents of a row.
func (t *sparse) column(name string, like *tensor) *tensor {
	m, w := t.tensors[name], t.where+" "+quoted(name)
	rule(m != nil && len(m.shape) > 0 && (t.isRows(m) || m.elems == 0), w, "a tensor of rows", "there", "none")
	row, _ := measure(m.shape[1:], m.bits, w)
	rule(row > 0 && wholeBytes(row, m.bits), w, "a row", "elements, whole bytes", m.shape)
	rule(m.dtype == like.dtype && slices.Equal(m.shape[1:], like.shape[1:]), w, "dtype and row", like, m)
	return m
}

var numbers = &tensor{dtype: 0x140, shape: []uint64{0}}

// layer reads the tensors under `name`, of which each column is like that under `like`.
func (t *sparse) layer(name, like string, columns []string) rows {
	w, out, ids := t.where+" "+quoted(name), rows{}, map[uint32][]uint64{}
	index := t.wholes[t.column(name+"/buckets", numbers).name]
	for i, col := range columns {
		m := t.column(name+"/"+col, t.tensors[like+"/"+col])
		parts := t.wholes[m.name]
		rule(i > 0 || len(m.shape) == 1 && (m.dtype == 0x40 || m.dtype == 0x140), w, "ids", "i64 or u64", m.dtype)
		rule(len(parts) == len(index), w, "parts with "+col, "those with buckets", len(parts))
		for k, r := range parts {
			part, b := r.ranks[0], r.data(w)
			rule(index[k].ranks[0] == part, w, "parts with "+col, "those with buckets", part)
			if i == 0 {
				out[part], ids[part] = map[uint64][]byte{}, t.readIds(fmt.Sprintf("PART_%03d %s", part, w), b, index[k].data(w))
			}
			equal(w, "rows of "+col, uint64(len(ids[part])), r.rows)
			width := len(b) / len(ids[part])
			for k, id := range ids[part] {
				out[part][id] = append(out[part][id], b[k*width:(k+1)*width]...)
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
