package conformance

import (
	"encoding/binary"
	"fmt"
	"strings"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner) any{
	"table.new":    runTableNew,
	"table.column": runTableColumn,
	"save.table":   func(r *runner) any { return done(r.save().AddTable(r.words[1], *get[*ckpt.Rows](r, 2))) },
	"reader.tables": func(r *runner) any {
		return all(r.reader().Tables(), func(t ckpt.TableInfo) string { return t.Name })
	},
	"reader.table": func(r *runner) any {
		info := try(r.reader().Table(r.words[1]))
		return record(info, fields{"id_dtype": info.IDType})
	},
	"reader.column": func(r *runner) any {
		columns, index := try(r.reader().Columns(r.words[1])), r.unsigned(2)
		if index >= uint64(len(columns)) {
			must(missing("no such column"))
		}
		return record(columns[index], fields{"shape": columns[index].Row})
	},
	"share.open": runShareOpen,
	"share.info": func(r *runner) any {
		share := r.share()
		return fields{
			"row_count": share.RowCount(), "window_count": share.WindowCount(), "most_rows": share.MostRows(),
			"missing_count": len(try(share.Missing())),
		}
	},
	"share.rows": func(r *runner) any { return words{fmt.Sprint(try(r.share().WindowRows(r.unsigned(1))))} },
	"share.missing": func(r *runner) any {
		found := words{}
		for _, id := range try(r.share().Missing()) {
			found = append(found, fmt.Sprint(id))
		}
		return found
	},
	"load.table": runLoadTable,
})

func (r *runner) share() *ckpt.Share { return get[*ckpt.Share](r, 0) }

// ids returns the numbers in the memory that a key names, and whether it is given.
func (r *runner) ids(key string) (numbers []uint64, given bool) {
	name, given := r.keys[key]
	if given {
		data := getNamed[*memory](r, name).data
		numbers = make([]uint64, len(data)/8)
		for i := range numbers {
			numbers[i] = binary.LittleEndian.Uint64(data[8*i:])
		}
	}
	return numbers, given
}

func runTableNew(r *runner) any {
	made := &ckpt.Rows{
		IDs: r.bytes(2), IDType: r.dtype(1), Buckets: r.number("buckets"), RowsPerBlock: r.number("rows_per_block"),
	}
	made.Positions, _ = r.ids("positions")
	return r.put(0, made)
}

func runTableColumn(r *runner) any {
	rows, all := get[*ckpt.Rows](r, 0), r.bytes(4)
	column := ckpt.Column{Name: r.words[1], DType: r.dtype(2), Row: r.numbers(r.words[3])}
	block := int(rows.RowsPerBlock) * column.DType.Bits() / 8
	for _, extent := range column.Row {
		block *= int(extent)
	}
	if block == 0 {
		block = len(all)
	}
	for start := 0; start < len(all); start += block {
		column.Blocks = append(column.Blocks, all[start:min(start+block, len(all))])
	}
	rows.Columns = append(rows.Columns, column)
	return nil
}

func runShareOpen(r *runner) any {
	rows := ckpt.AllRows()
	if ids, given := r.ids("ids"); given {
		rows = ckpt.RowsByID(ids...)
	}
	for key, rowset := range map[string]func(a, b uint64) ckpt.Rowset{
		"buckets": ckpt.RowsInBuckets, "slice": ckpt.RowsSlice, "mod": ckpt.RowsMod,
	} {
		if pair, given := r.list(key); given {
			rows = rowset(uint64(pair[0]), uint64(pair[1]))
		}
	}
	reader, wanted := get[*ckpt.Reader](r, 1), rows.Window(r.number("window"))
	return r.put(0, try(reader.Share(r.context(), r.words[2], wanted, r.options)))
}

func runLoadTable(r *runner) any {
	rows := ckpt.Rows{IDs: r.bytes(3), IDType: ckpt.U8}
	for _, word := range r.words[4:] {
		colon := strings.LastIndexByte(word, ':')
		if colon < 0 {
			r.fail("expected COLUMN:M, found %s", word)
		}
		data := getNamed[*memory](r, word[colon+1:]).data
		rows.Columns = append(rows.Columns, ckpt.Column{Name: word[:colon], DType: ckpt.U8, Blocks: [][]byte{data}})
	}
	return done(r.load().AddTable(get[*ckpt.Share](r, 1), r.unsigned(2), rows))
}
