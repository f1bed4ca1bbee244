package conformance

import (
	"encoding/binary"
	"fmt"
	"strings"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner){
	"table.new":    runTableNew,
	"table.column": runTableColumn,
	"save.table":   func(r *runner) { must(r.save().AddTable(r.words[1], *get[*ckpt.Rows](r, 2))) },
	"reader.tables": func(r *runner) {
		expectAll(r, 1, r.reader().Tables(), func(t ckpt.TableInfo) string { return t.Name })
	},
	"reader.table":  runReaderTable,
	"reader.column": runReaderColumn,
	"share.open":    runShareOpen,
	"share.info":    runShareInfo,
	"share.rows":    func(r *runner) { r.expectWords(2, fmt.Sprint(try(r.share().WindowRows(r.unsigned(1))))) },
	"share.missing": runShareMissing,
	"load.table":    runLoadTable,
})

func (r *runner) share() *ckpt.Share { return get[*ckpt.Share](r, 0) }

// ids returns the numbers in the memory that a key names, and whether it is given.
func (r *runner) ids(key string) (numbers []uint64, given bool) {
	name, given := r.value(key)
	if given {
		data := getNamed[*memory](r, name).data
		numbers = make([]uint64, len(data)/8)
		for i := range numbers {
			numbers[i] = binary.LittleEndian.Uint64(data[8*i:])
		}
	}
	return numbers, given
}

// number returns the number of a key, 0 if it is not given.
func (r *runner) number(key string) uint64 {
	text, given := r.value(key)
	if !given {
		return 0
	}
	return r.parseUnsigned(text)
}

func runTableNew(r *runner) {
	made := &ckpt.Rows{
		IDs: r.bytes(2), IDType: r.dtype(1), Buckets: r.number("buckets"), RowsPerBlock: r.number("rows_per_block"),
	}
	made.Positions, _ = r.ids("positions")
	r.put(0, made)
}

func runTableColumn(r *runner) {
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
}

func runReaderTable(r *runner) {
	info := try(r.reader().Table(r.words[1]))
	r.expectWords(1, info.Name)
	r.expect("id_dtype", info.IDType)
	r.expect("row_count", info.RowCount)
	r.expect("bucket_count", info.BucketCount)
	r.expect("bytes", info.Bytes)
	r.expect("stored_bytes", info.StoredBytes)
	r.expect("column_count", info.ColumnCount)
}

func runReaderColumn(r *runner) {
	columns, index := try(r.reader().Columns(r.words[1])), r.unsigned(2)
	if index >= uint64(len(columns)) {
		must(&ckpt.Error{Status: ckpt.ErrNotFound, Message: "no such column"})
	}
	info := columns[index]
	r.expect("name", info.Name)
	r.expect("dtype", info.DType)
	r.expect("shape", info.Row)
	r.expect("row_bytes", info.RowBytes)
	r.expect("stored_bytes", info.StoredBytes)
}

func runShareOpen(r *runner) {
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
	r.put(0, try(get[*ckpt.Reader](r, 1).Share(r.context(), r.words[2], rows.Window(r.number("window")), r.options)))
}

func runShareInfo(r *runner) {
	share := r.share()
	r.expect("row_count", share.RowCount())
	r.expect("window_count", share.WindowCount())
	r.expect("most_rows", share.MostRows())
	r.expect("missing_count", len(try(share.Missing())))
}

func runShareMissing(r *runner) {
	var found []string
	for _, id := range try(r.share().Missing()) {
		found = append(found, fmt.Sprint(id))
	}
	r.expectWords(1, found...)
}

func runLoadTable(r *runner) {
	rows := ckpt.Rows{IDs: r.bytes(3), IDType: ckpt.U8}
	for _, word := range r.words[4:] {
		colon := strings.LastIndexByte(word, ':')
		if colon < 0 {
			r.fail("expected COLUMN:M, found %s", word)
		}
		data := getNamed[*memory](r, word[colon+1:]).data
		rows.Columns = append(rows.Columns, ckpt.Column{Name: word[:colon], DType: ckpt.U8, Blocks: [][]byte{data}})
	}
	must(r.load().AddTable(get[*ckpt.Share](r, 1), r.unsigned(2), rows))
}
