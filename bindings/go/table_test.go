package ckpt_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

const slab = 32 // rows of rank 1's slabs

// rowsOf returns the rows of some ids: two numbers each, and a counter.
func rowsOf(ids []int64) (rows []float32, counts []int32) {
	for _, id := range ids {
		rows = append(rows, float32(id), float32(-id))
		counts = append(counts, int32(id))
	}
	return rows, counts
}

func allIDs() []int64 {
	var ids []int64
	for id := int64(-100); id < 100; id++ {
		ids = append(ids, id)
	}
	return ids
}

// saveTables saves with two ranks, each the table `t` that `rows` makes for it, and opens the checkpoint.
func saveTables(t *testing.T, rows func(rank int) ckpt.Rows) *ckpt.Reader {
	t.Helper()
	store, text := openStore(t), ""
	var jobs []*ckpt.Job
	for rank := range 2 {
		session := need[*ckpt.Session](t)(ckpt.OpenSession(t.Context(), store, uint32(rank), 2, text, nil))
		t.Cleanup(func() { session.Close() })
		text = session.String()
		save := newSave(t, session, "a", nil)
		ok(t, save.AddTable("t", rows(rank)))
		jobs = append(jobs, need[*ckpt.Job](t)(save.StartInPlace(context.Background())))
	}
	for _, job := range jobs {
		ok(t, job.Wait(context.Background(), ckpt.JobCommitted))
	}
	return openReader(t, store)
}

// sampleTable has the even ids on rank 0 in one piece, and the odd ones on rank 1 backwards in slabs.
func sampleTable(t *testing.T) *ckpt.Reader {
	return saveTables(t, func(rank int) ckpt.Rows {
		ids := slices.DeleteFunc(allIDs(), func(id int64) bool { return int(id&1) != rank })
		var made ckpt.Rows
		if rank == 0 {
			rows, counts := rowsOf(ids)
			made = ckpt.RowsOf(ids, ckpt.ColumnOf("row", rows, 2), ckpt.ColumnOf("count", counts))
		} else {
			backwards := slices.Clone(ids)
			slices.Reverse(backwards)
			rows, counts := rowsOf(backwards)
			made = ckpt.RowsOf(ids, ckpt.ColumnInBlocks("row", slices.Collect(slices.Chunk(rows, 2*slab)), 2),
				ckpt.ColumnInBlocks("count", slices.Collect(slices.Chunk(counts, slab))))
			made.RowsPerBlock = slab
			for i := range ids {
				made.Positions = append(made.Positions, uint64(len(ids)-1-i))
			}
		}
		made.Buckets = 64
		return made
	})
}

func openShare(t testing.TB, reader *ckpt.Reader, rows ckpt.Rowset) *ckpt.Share {
	t.Helper()
	share := need[*ckpt.Share](t)(reader.Share(t.Context(), "t", rows, nil))
	t.Cleanup(func() { share.Close() })
	return share
}

// loadAll returns the ids of all windows, and checks that each has its own row.
func loadAll(t *testing.T, reader *ckpt.Reader, share *ckpt.Share) []int64 {
	t.Helper()
	var all []int64
	for window := range share.WindowCount() {
		count := need[uint64](t)(share.WindowRows(window))
		if count > share.MostRows() {
			t.Errorf("%d rows in window %d, at most %d expected", count, window, share.MostRows())
		}
		ids, rows, counts := make([]int64, count), make([]float32, 2*count), make([]int32, count)
		load := newLoad(t, reader)
		ok(t, load.AddTable(share, window, ckpt.RowsOf(ids, ckpt.ColumnOf("count", counts), ckpt.ColumnOf("row", rows))))
		runtime.GC() // moves nothing that is pinned
		ok(t, load.Run(context.Background()))
		if wantedRows, wantedCounts := rowsOf(ids); !slices.Equal(rows, wantedRows) ||
			!slices.Equal(counts, wantedCounts) {
			t.Errorf("ids %v have rows %v and counts %v", ids, rows, counts)
		}
		all = append(all, ids...)
	}
	if uint64(len(all)) != share.RowCount() {
		t.Errorf("%d rows, expected %d", len(all), share.RowCount())
	}
	return all
}

func sameIDs(t *testing.T, found, wanted []int64) {
	t.Helper()
	if found = slices.Sorted(slices.Values(found)); !slices.Equal(found, wanted) {
		t.Errorf("expected ids %v, found %v", wanted, found)
	}
}

func TestTablesThatTwoRanksSaveAreLoadedByThreeEachRowOnce(t *testing.T) {
	reader := sampleTable(t)
	for _, part := range []func(index, count uint64) ckpt.Rowset{ckpt.RowsSlice, ckpt.RowsMod} {
		var loaded []int64
		for rank := range uint64(3) {
			ids := loadAll(t, reader, openShare(t, reader, part(rank, 3)))
			if len(ids) > 100 {
				t.Errorf("rank %d of 3 has %d of 200 rows", rank, len(ids))
			}
			loaded = append(loaded, ids...)
		}
		sameIDs(t, loaded, allIDs())
	}
	sameIDs(t, loadAll(t, reader, openShare(t, reader, ckpt.AllRows())), allIDs())
	bucket := slices.DeleteFunc(allIDs(), func(id int64) bool { return uint64(id)%64 != 5 })
	sameIDs(t, loadAll(t, reader, openShare(t, reader, ckpt.RowsInBuckets(5, 6))), bucket)
}

func TestTablesPassThroughInWindows(t *testing.T) {
	reader := sampleTable(t)
	share := openShare(t, reader, ckpt.AllRows().Window(30))
	if share.WindowCount() < 7 || share.MostRows() > 30 {
		t.Errorf("%d windows of at most %d rows", share.WindowCount(), share.MostRows())
	}
	sameIDs(t, loadAll(t, reader, share), allIDs())
	_, err := share.WindowRows(share.WindowCount())
	is(t, err, ckpt.ErrNotFound)
}

func TestListedIDsComeInTheirOrderAndMissingOnesAreListed(t *testing.T) {
	reader := sampleTable(t)
	share := openShare(t, reader, ckpt.RowsByID[int64](7, 1000, -100, 8, -101))
	if ids := loadAll(t, reader, share); !slices.Equal(ids, []int64{7, -100, 8}) {
		t.Errorf("found ids %v", ids)
	}
	missing := need[[]uint64](t)(share.Missing())
	if len(missing) != 2 || int64(missing[0]) != 1000 || int64(missing[1]) != -101 {
		t.Errorf("missing are %v", missing)
	}
	rows, load := make([]float32, 6), newLoad(t, reader)
	ok(t, load.AddTable(share, 0, ckpt.RowsOf([]int64(nil), ckpt.ColumnOf("row", rows)))) // the ids are known
	ok(t, load.Run(t.Context()))
	if wanted, _ := rowsOf([]int64{7, -100, 8}); !slices.Equal(rows, wanted) {
		t.Errorf("the rows are %v", rows)
	}
}

func TestAReaderTellsTablesAndColumns(t *testing.T) {
	reader := sampleTable(t)
	tables := need[[]ckpt.TableInfo](t)(ckpt.Collect(reader.Tables()))
	table := need[ckpt.TableInfo](t)(reader.Table("t"))
	if len(tables) != 1 || tables[0] != table || table.StoredBytes == 0 {
		t.Errorf("the tables are %+v, and t is %+v", tables, table)
	}
	table.StoredBytes = 0
	wanted := ckpt.TableInfo{Name: "t", IDType: ckpt.I64, RowCount: 200, BucketCount: 64, ColumnCount: 2, Bytes: 200 * 20}
	if table != wanted {
		t.Errorf("the table is %+v", table)
	}
	columns := need[[]ckpt.ColumnInfo](t)(reader.Columns("t"))
	row, count := columns[0], columns[1]
	if row.Name != "row" || row.DType != ckpt.F32 || !slices.Equal(row.Row, []int64{2}) || row.RowBytes != 8 {
		t.Errorf("the first column is %+v", row)
	}
	if count.Name != "count" || count.DType != ckpt.I32 || len(count.Row) != 0 || count.RowBytes != 4 {
		t.Errorf("the second column is %+v", count)
	}
	_, ofTensor := reader.Table("t/row")
	_, ofColumns := reader.Columns("u")
	_, ofShare := reader.Share(t.Context(), "u", ckpt.AllRows(), nil)
	for _, err := range []error{ofTensor, ofColumns, ofShare} {
		is(t, err, ckpt.ErrNotFound)
	}
}

func TestTablesAndColumnsMayBeEmptyAndOfAnyType(t *testing.T) {
	reader := saved(t, nil, func(save *ckpt.Save) {
		ok(t, save.AddTable("none", ckpt.RowsOf([]int64{}, ckpt.Column{Name: "x", DType: ckpt.F32, Row: []int64{3}})))
		half := ckpt.ColumnOf("half", []uint16{1, 2}).As(ckpt.BF16)
		ok(t, save.AddTable("t", ckpt.RowsOf([]uint64{1 << 63, 5}, half, ckpt.ColumnOf("seen", []bool{true, false}))))
	})
	none := need[*ckpt.Share](t)(reader.Share(t.Context(), "none", ckpt.AllRows(), nil))
	defer none.Close()
	if none.RowCount() != 0 || none.WindowCount() != 1 {
		t.Errorf("%d rows in %d windows", none.RowCount(), none.WindowCount())
	}
	share, load := openShare(t, reader, ckpt.RowsByID[uint64](1<<63, 5)), newLoad(t, reader)
	ids, half, seen := make([]uint64, 2), make([]uint16, 2), make([]byte, 2)
	halves := ckpt.ColumnOf("half", half).As(ckpt.BF16)
	ok(t, load.AddTable(share, 0, ckpt.RowsOf(ids, halves, ckpt.ColumnOf("seen", seen))))
	ok(t, load.Run(t.Context()))
	if ids[0] != 1<<63 || ids[1] != 5 || !slices.Equal(half, []uint16{1, 2}) || !slices.Equal(seen, []byte{1, 0}) {
		t.Errorf("loaded %v, %v, %v", ids, half, seen)
	}
}

func TestAnIDThatIsThereTwiceIsNamed(t *testing.T) {
	store := openStore(t)
	save := newSave(t, openSession(t, store), "a", nil)
	ok(t, save.AddTable("t", ckpt.RowsOf([]int64{4, 70000, 6, 70000})))
	err := save.Run(context.Background())
	is(t, err, ckpt.ErrMismatch)
	if !strings.Contains(err.Error(), "id 70000") {
		t.Error(err)
	}
	_, err = ckpt.OpenReader(store, "latest", nil)
	is(t, err, ckpt.ErrNotFound)
}

func TestAnIDThatTwoRanksSaveIsFoundByLoadAndLookup(t *testing.T) {
	reader := saveTables(t, func(rank int) ckpt.Rows { return ckpt.RowsOf([]int64{int64(rank), 5}) })
	load, ids := newLoad(t, reader), make([]int64, 4)
	ok(t, load.AddTable(openShare(t, reader, ckpt.AllRows()), 0, ckpt.RowsOf(ids)))
	_, lookup := reader.Share(t.Context(), "t", ckpt.RowsByID[int64](5), ckpt.Options{"threads": 1})
	for _, err := range []error{load.Run(context.Background()), lookup} {
		is(t, err, ckpt.ErrMismatch)
		if made, _ := err.(*ckpt.Error); made == nil || made.Detail("ranks") != "0, 1" {
			t.Errorf("the error names no ranks: %v", err)
		}
	}
}

func TestTablesThatDoNotFitAreRefusedAndNamed(t *testing.T) {
	session := openSession(t, openStore(t))
	ids, data := []int64{3, 1}, []float32{1, 2}
	refused := func(words string, rows ckpt.Rows) {
		t.Helper()
		save := newSave(t, session, "a", nil)
		defer save.Close()
		err := save.AddTable("t", rows)
		is(t, err, ckpt.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("expected %q in: %v", words, err)
		}
	}
	refused("memory for 1 rows", ckpt.RowsOf(ids, ckpt.ColumnOf("x", data, 2)))
	refused("16 dimensions", ckpt.RowsOf(ids, ckpt.ColumnOf("x", data, make([]int64, 16)...)))
	refused("NUL", ckpt.RowsOf(ids, ckpt.ColumnOf("a\x00b", data)))
	refused("as bf16", ckpt.RowsOf(ids, ckpt.ColumnOf("x", data).As(ckpt.BF16)))
	refused(`"y": 2 blocks`, ckpt.RowsOf(ids, ckpt.ColumnOf("x", data),
		ckpt.ColumnInBlocks("y", [][]float32{data[:1], data[1:]})))
	few := ckpt.RowsOf(ids)
	few.Positions = []uint64{0}
	refused("1 positions for 2 rows", few)
	there := ckpt.RowsOf(ids, ckpt.ColumnOf("x", data))
	there.Device = ckpt.CUDA // which no machine of the tests has
	is(t, newSave(t, session, "device", nil).AddTable("t", there), ckpt.ErrUnsupported)

	reader := saved(t, nil, func(save *ckpt.Save) {
		ok(t, save.AddTable("t", ckpt.RowsOf(ids, ckpt.ColumnOf("x", data), ckpt.ColumnOf("b", []bool{true, false}))))
	})
	share, load := openShare(t, reader, ckpt.AllRows()), newLoad(t, reader)
	is(t, load.AddTable(share, 0, ckpt.RowsOf(ids, ckpt.ColumnOf("x", []int32{0, 0}))), ckpt.ErrMismatch)
	is(t, load.AddTable(share, 0, ckpt.RowsOf([]uint64{0, 0})), ckpt.ErrMismatch)
	is(t, load.AddTable(share, 0, ckpt.RowsOf(ids, ckpt.ColumnOf("b", []bool{false, false}))), ckpt.ErrInvalid)
	is(t, load.AddTable(share, 0, ckpt.RowsOf(ids, ckpt.ColumnOf("x", data[:1]))), ckpt.ErrInvalid)
	is(t, load.AddTable(share, 0, ckpt.RowsOf(ids, ckpt.ColumnInBlocks("x", [][]float32{data, data}))), ckpt.ErrInvalid)
	is(t, load.AddTable(share, 0, ckpt.RowsOf(ids, ckpt.ColumnOf("y", data))), ckpt.ErrNotFound)
	is(t, load.AddTable(share, 0, there), ckpt.ErrUnsupported)
	is(t, load.AddTable(nil, 0, ckpt.RowsOf(ids)), ckpt.ErrInvalid)
	share.Close()
	is(t, load.AddTable(share, 0, ckpt.RowsOf(ids)), ckpt.ErrClosed)
}
