package ckpt_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

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

func openShare(t testing.TB, reader *ckpt.Reader, rows ckpt.Rowset) *ckpt.Share {
	t.Helper()
	share := need[*ckpt.Share](t)(reader.Share(t.Context(), "t", rows, nil))
	t.Cleanup(func() { share.Close() })
	return share
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

func TestAShareOfWhatChangedLeavesTheRestAndListsWhatIsGone(t *testing.T) {
	rows := func(values map[int64]int32) func(*ckpt.Save) {
		ids, x := []int64{}, []int32{}
		for id, value := range values {
			ids, x = append(ids, id), append(x, value)
		}
		return func(save *ckpt.Save) { ok(t, save.AddTable("t", ckpt.RowsOf(ids, ckpt.ColumnOf("x", x)))) }
	}
	earlier := saved(t, nil, rows(map[int64]int32{1: 10, 2: 20, 3: 30}))
	reader := saved(t, nil, rows(map[int64]int32{1: 10, 2: 21, 4: 40}))
	share, load, ids := openShare(t, reader, ckpt.AllRows().Since(earlier)), newLoad(t, reader), make([]int64, 2)
	ok(t, load.AddTable(share, 0, ckpt.RowsOf(ids)))
	ok(t, load.Run(t.Context()))
	gone := need[[]uint64](t)(share.Missing())
	if !slices.Equal(ids, []int64{2, 4}) || !slices.Equal(gone, []uint64{3}) {
		t.Errorf("changed %v, gone %v", ids, gone)
	}
	ok(t, earlier.Close())
	_, err := reader.Share(t.Context(), "t", ckpt.AllRows().Since(earlier), nil)
	is(t, err, ckpt.ErrClosed)
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
