package ckpt

// #include "ckpt_go.h"
import "C"

import (
	"context"
	"iter"
	"runtime"
	"unsafe"
)

// TableBuckets is the usual number of buckets of a sparse table: enough for thousands of ranks.
const TableBuckets = C.CKPT_TABLE_BUCKETS

// ID is the id of a row of a sparse table. The bucket of an id, and its place in order, are those of uint64(id).
type ID interface{ int64 | uint64 }

// ---- memory ----

// Column is the memory of a column of a sparse table: plain data, made by [ColumnOf] or [ColumnInBlocks] or filled by
// hand. A load looks at Name, DType and the one block.
type Column struct {
	Name   string
	DType  DType
	Row    []int64  // the shape of one row; empty is one element
	Blocks [][]byte // the rows one after the other: in one block or, as a hash table has them, in slabs

	element DType // of the slice that ColumnOf got
}

// ColumnOf describes a column whose rows, each of shape `row`, lie in a slice. The dtype is the slice's; As sets
// another one, as for [AddSlice].
func ColumnOf[T Element](name string, data []T, row ...int64) Column {
	return ColumnInBlocks(name, [][]T{data}, row...)
}

// ColumnInBlocks is ColumnOf for rows that lie in several slices: each but the last has Rows.RowsPerBlock rows, and all
// columns have equally many.
func ColumnInBlocks[T Element](name string, blocks [][]T, row ...int64) Column {
	made := Column{Name: name, DType: DTypeOf[T](), Row: row, element: DTypeOf[T]()}
	for _, block := range blocks {
		made.Blocks = append(made.Blocks, BytesOf(block))
	}
	return made
}

// As sets the dtype, for a slice whose type does not give it: []uint16 as BF16.
func (c Column) As(dtype DType) Column {
	c.DType = dtype
	return c
}

// Rows are rows of a sparse table: their ids and columns. Row i of all columns is that of id i. IDs and Positions are
// memory of the host; so are the columns' blocks, unless Device names another.
type Rows struct {
	IDs          []byte // of IDType
	IDType       DType  // I64 or U64; of a load also U8, for bytes of either
	Columns      []Column
	Buckets      uint64   // save only: the buckets of the table, the same on all ranks; 0 is TableBuckets
	RowsPerBlock uint64   // save only: of columns in several blocks
	Positions    []uint64 // save only: row i is at Positions[i] of each column's blocks taken together; nil: at i
	Changes      *Changes // save only: nil if nobody knows what changed

	// Where the columns' blocks are: 0 is the CPU. Of a device, a block is unsafe.Slice of its address, which Go must
	// not touch, and lives as that of AddMemory; Stream is as in Tensor.
	Device   DeviceType
	DeviceID int32
	Stream   int64
}

// Changes say what changed since this session's last save of the table on this rank, whether that one succeeded or not:
// the numbers of rows that are new or changed, and ids that are gone. All rows are given nevertheless; with option
// incremental a save writes only these, where it can.
type Changes struct {
	Rows, Removed []uint64
	ByDigest      bool // in place of both: the engine finds it out (CKPT_TABLE_DIGESTS)
}

// RowsOf makes rows of slices. A save needs ids that differ; a load of [RowsByID] can do without ids: []int64(nil).
func RowsOf[I ID](ids []I, columns ...Column) Rows {
	return Rows{IDs: BytesOf(ids), IDType: DTypeOf[I](), Columns: columns}
}

// blocks is memory as C takes it: pointers and sizes.
type blocks struct {
	data  []*C.uint8_t
	bytes []C.uint64_t
}

// add pins a block, in `to` until the save or load is done with it. C may keep its address even if the call fails.
func (b *blocks) add(to *memory, block []byte) {
	var pointer unsafe.Pointer
	if len(block) > 0 {
		pointer = unsafe.Pointer(unsafe.SliceData(block))
	}
	to.keep(pointer)
	b.data = append(b.data, (*C.uint8_t)(pointer))
	b.bytes = append(b.bytes, C.uint64_t(len(block)))
}

// columnNames are the names of columns as C takes them. The texts are pinned until the pinner lets them go.
func columnNames(in *arguments, pinner *runtime.Pinner, columns []Column) []*C.char {
	var names []*C.char
	for _, column := range columns {
		name := in.text(column.Name)
		pinner.Pin(name)
		names = append(names, name)
	}
	return names
}

// ---- save ----

// AddTable adds this rank's rows of sparse table `name`. All ranks give it the same columns, dtypes, shapes and buckets
// (ErrMismatch); a rank without rows may leave it out. The memory is pinned, not copied, as that of tensors; the save
// sorts row numbers, in 8 bytes of memory for each row. Errors: ErrInvalid (also for memory that is too small),
// ErrExists (the name was added before). An id that is there twice is ErrMismatch when the save runs, before it writes;
// one of two ranks is found by [Load.AddTable] and [Reader.Verify].
func (s *Save) AddTable(name string, rows Rows) error {
	save, err := s.h.enterAlone()
	if err != nil {
		return err
	}
	defer s.h.leaveAlone()
	columns, perColumn, err := rows.columns(name)
	if err != nil {
		return err
	}
	var in arguments
	var pinner runtime.Pinner
	defer pinner.Unpin()
	text := in.text(name)
	names := columnNames(&in, &pinner, rows.Columns)
	if in.err != nil {
		return in.err
	}
	desc := C.ckpt_table_desc{
		struct_size: C.sizeof_ckpt_table_desc, id_dtype: C.int32_t(rows.IDType), row_count: C.uint64_t(rows.count()),
		bucket_count: C.uint64_t(rows.Buckets), rows_per_block: C.uint64_t(rows.RowsPerBlock),
		column_count: C.uint32_t(len(columns)), block_count: C.uint32_t(perColumn),
	}
	if rows.Buckets == 0 {
		desc.bucket_count = TableBuckets
	}
	if changes := rows.Changes; changes != nil {
		changed, removed := unsafe.SliceData(changes.Rows), unsafe.SliceData(changes.Removed)
		s.memory.keep(unsafe.Pointer(changed))
		s.memory.keep(unsafe.Pointer(removed))
		if desc.flags = C.CKPT_TABLE_CHANGES; changes.ByDigest {
			desc.flags = C.CKPT_TABLE_DIGESTS
		}
		desc.changed, desc.changed_count = (*C.uint64_t)(changed), C.uint64_t(len(changes.Rows))
		desc.removed, desc.removed_count = (*C.uint64_t)(removed), C.uint64_t(len(changes.Removed))
	}
	var data blocks
	for _, column := range rows.Columns {
		for _, block := range column.Blocks {
			data.add(s.memory, block)
		}
		if len(column.Blocks) == 0 {
			data.add(s.memory, nil)
		}
	}
	ids, positions := unsafe.SliceData(rows.IDs), unsafe.SliceData(rows.Positions)
	s.memory.keep(unsafe.Pointer(ids))
	s.memory.keep(unsafe.Pointer(positions))
	var cerr *C.ckpt_error
	status := C.ckpt_go_save_add_table(save, text, &desc, (*C.uint8_t)(ids), C.uint64_t(len(rows.IDs)),
		unsafe.SliceData(names), unsafe.SliceData(columns), unsafe.SliceData(data.data), unsafe.SliceData(data.bytes),
		(*C.uint64_t)(positions), rows.deviceType(), C.int32_t(rows.DeviceID), C.int64_t(rows.Stream), &cerr)
	return fail(status, cerr)
}

func (r Rows) count() int { return len(r.IDs) / 8 }

func (r Rows) deviceType() C.int32_t {
	if r.Device == 0 {
		return C.CKPT_DEVICE_CPU
	}
	return C.int32_t(r.Device)
}

// columns returns the columns of a save as C takes them, and how many blocks each has.
func (r Rows) columns(table string) ([]C.ckpt_column_desc, int, error) {
	if r.Positions != nil && len(r.Positions) != r.count() {
		return nil, 0, invalid(table, "%d positions for %d rows", len(r.Positions), r.count())
	}
	var made []C.ckpt_column_desc
	perColumn := 0
	for i, column := range r.Columns {
		if i == 0 {
			perColumn = len(column.Blocks)
		}
		if len(column.Blocks) != perColumn {
			return nil, 0, invalid(table, "column %q: %d blocks, those before it have %d", column.Name,
				len(column.Blocks), perColumn)
		}
		if len(column.Row) >= MaxDims {
			return nil, 0, invalid(table, "column %q: a row of %d dimensions, at most %d", column.Name, len(column.Row),
				MaxDims-1)
		}
		if _, err := (Tensor{DType: column.DType}).of(table, column.element); err != nil {
			return nil, 0, err
		}
		desc := C.ckpt_column_desc{
			struct_size: C.sizeof_ckpt_column_desc, dtype: C.int32_t(column.DType), ndim: C.int32_t(len(column.Row)),
		}
		fill(&desc.shape, column.Row)
		made = append(made, desc)
	}
	return made, perColumn, nil
}

// ---- reader ----

// Tables yields the sparse tables in the order of their names. Their tensors are among Tensors too.
func (r *Reader) Tables() iter.Seq2[TableInfo, error] {
	return each(r, func(reader *C.ckpt_reader) uint64 {
		return uint64(C.ckpt_reader_table_count(reader))
	}, func(reader *C.ckpt_reader, index C.uint64_t, cerr **C.ckpt_error) (TableInfo, C.ckpt_status) {
		info := C.ckpt_table_info{struct_size: C.sizeof_ckpt_table_info}
		status := C.ckpt_reader_table_at(reader, index, &info, cerr)
		return makeTableInfo(&info), status
	})
}

// Table describes one sparse table. Errors: ErrNotFound, also for a tensor's name.
func (r *Reader) Table(name string) (TableInfo, error) {
	return sharing(&r.h, func(reader *C.ckpt_reader, in cTexts, cerr **C.ckpt_error) (TableInfo, C.ckpt_status) {
		info := C.ckpt_table_info{struct_size: C.sizeof_ckpt_table_info}
		status := C.ckpt_reader_table_find(reader, in[0], &info, cerr)
		return makeTableInfo(&info), status
	}, name)
}

// Columns describes the columns of a sparse table in the order in which they were saved. Errors: ErrNotFound.
func (r *Reader) Columns(table string) ([]ColumnInfo, error) {
	info, err := r.Table(table)
	if err != nil {
		return nil, err
	}
	return r.columns(info)
}

func (r *Reader) columns(info TableInfo) ([]ColumnInfo, error) {
	reader, err := r.h.enter()
	if err != nil {
		return nil, err
	}
	defer r.h.leave()
	var in arguments
	text := in.text(info.Name)
	var columns []ColumnInfo
	for index := range info.ColumnCount {
		c := C.ckpt_column_info{struct_size: C.sizeof_ckpt_column_info}
		var cerr *C.ckpt_error
		if status := C.ckpt_reader_table_column_at(reader, text, C.uint32_t(index), &c, &cerr); status != C.CKPT_OK {
			return nil, fail(status, cerr)
		}
		columns = append(columns, makeColumnInfo(&c))
	}
	return columns, nil
}

// ---- load ----

// Rowset says which rows of a sparse table to load. AllRows and the functions after it make one.
type Rowset struct {
	kind         C.int32_t
	first, end   uint64
	index, count uint64
	ids          []uint64
	windowRows   uint64
	since        *Reader
}

// AllRows are all rows of a table.
func AllRows() Rowset { return Rowset{kind: C.CKPT_SHARE_ALL} }

// RowsSlice is slice `index` of `count`: the buckets in equal ranges, the first ones one longer. It is what a rank of a
// trainer with `count` ranks wants.
func RowsSlice(index, count uint64) Rowset {
	return Rowset{kind: C.CKPT_SHARE_SLICE, index: index, count: count}
}

// RowsInBuckets are the rows of buckets [first, end). The bucket of an id is uint64(id) mod TableInfo.BucketCount.
func RowsInBuckets(first, end uint64) Rowset {
	return Rowset{kind: C.CKPT_SHARE_BUCKETS, first: first, end: end}
}

// RowsMod are the rows with uint64(id) mod count == index. They read all ids of the table, and chunks of most rows.
func RowsMod(index, count uint64) Rowset {
	return Rowset{kind: C.CKPT_SHARE_MOD, index: index, count: count}
}

// RowsByID are the rows of these ids, in this order, without those that the table lacks: [Share.Missing] lists them.
func RowsByID[I ID](ids ...I) Rowset {
	made := Rowset{kind: C.CKPT_SHARE_IDS, ids: make([]uint64, len(ids))}
	for i, id := range ids {
		made.ids[i] = uint64(id)
	}
	return made
}

// Window asks for windows of at most `rows` rows, so that a table larger than memory can be passed through. Without it,
// or with 0, one window has all rows.
func (r Rowset) Window(rows uint64) Rowset {
	r.windowRows = rows
	return r
}

// Since asks, of these rows but not of RowsByID, for those that are new or other than in checkpoint `earlier`, of any
// store: [Share.Missing] lists the ids that are gone.
func (r Rowset) Since(earlier *Reader) Rowset {
	r.since = earlier
	return r
}

// Share is the rows of a sparse table that a rank loads, counted before memory is made for them and cut into windows.
// [Reader.Share] makes it, [Load.AddTable] loads a window.
type Share struct {
	h       owned[*C.ckpt_share]
	info    C.ckpt_share_info
	idType  DType
	columns []ColumnInfo
}

// Share finds and counts rows of a sparse table. It reads what tells where buckets begin; of RowsMod all ids, of
// RowsByID those near to what is looked for. The context cancels it. Options: those used by share. Errors: ErrNotFound
// (no such table), ErrMismatch (two ranks saved an id of the list), ErrInvalid, ErrIncomplete, ErrCorrupt, ErrFormat,
// ErrGone, ErrIO, ErrCancelled.
func (r *Reader) Share(ctx context.Context, table string, rows Rowset, options Options) (*Share, error) {
	info, err := r.Table(table)
	if err != nil {
		return nil, err
	}
	columns, err := r.columns(info)
	if err != nil {
		return nil, err
	}
	desc := C.ckpt_share_desc{
		struct_size: C.sizeof_ckpt_share_desc, kind: rows.kind, bucket_first: C.uint64_t(rows.first),
		bucket_end: C.uint64_t(rows.end), index: C.uint64_t(rows.index), count: C.uint64_t(rows.count),
		window_rows: C.uint64_t(rows.windowRows),
	}
	if rows.since != nil {
		if desc.since, err = rows.since.h.hold(); err != nil {
			return nil, err
		}
		defer rows.since.h.drop()
	}
	open := func(reader *C.ckpt_reader, bag *C.ckpt_options, in cTexts) (*C.ckpt_share, error) {
		var out *C.ckpt_share
		var cerr *C.ckpt_error
		status := C.ckpt_share_open(&out, reader, in[0], &desc, (*C.uint64_t)(unsafe.SliceData(rows.ids)),
			C.uint64_t(len(rows.ids)), bag, &cerr)
		return out, fail(status, cerr)
	}
	out, err := withContextAndOptions(ctx, &r.h, options, open, table)
	if err != nil {
		return nil, err
	}
	made := &Share{
		info: C.ckpt_share_info{struct_size: C.sizeof_ckpt_share_info}, idType: info.IDType, columns: columns,
	}
	var cerr *C.ckpt_error
	own(made, &made.h, newHandle("share", out, func(p *C.ckpt_share) { C.ckpt_share_free(p) }))
	if status := C.ckpt_share_get(out, &made.info, &cerr); status != C.CKPT_OK {
		made.Close()
		return nil, fail(status, cerr)
	}
	return made, nil
}

// RowCount returns the rows of all windows.
func (s *Share) RowCount() uint64 { return uint64(s.info.row_count) }

// WindowCount returns the number of windows, at least 1.
func (s *Share) WindowCount() uint64 { return uint64(s.info.window_count) }

// MostRows returns the rows of the largest window.
func (s *Share) MostRows() uint64 { return uint64(s.info.most_rows) }

// WindowRows returns the rows of a window; `window` counts from 0. Errors: ErrNotFound.
func (s *Share) WindowRows(window uint64) (uint64, error) {
	return sharing(&s.h, func(share *C.ckpt_share, _ cTexts, cerr **C.ckpt_error) (uint64, C.ckpt_status) {
		var rows C.uint64_t
		status := C.ckpt_share_window_rows(share, C.uint64_t(window), &rows, cerr)
		return uint64(rows), status
	})
}

// Missing returns, of RowsByID, the ids that the table lacks, in the order in which they were asked for. Of a table
// with ids of type I64 they are int64(id).
func (s *Share) Missing() ([]uint64, error) {
	share, err := s.h.enter()
	if err != nil {
		return nil, err
	}
	defer s.h.leave()
	missing := make([]uint64, s.info.missing_count)
	for i := range missing {
		var id C.uint64_t
		var cerr *C.ckpt_error
		if status := C.ckpt_share_missing_at(share, C.uint64_t(i), &id, &cerr); status != C.CKPT_OK {
			return nil, fail(status, cerr)
		}
		missing[i] = uint64(id)
	}
	return missing, nil
}

// Close releases the share and always returns nil. A load that has it goes on.
func (s *Share) Close() error {
	s.h.end()
	return nil
}

// AddTable asks for the rows of a window of a share of the same reader: their ids, and any columns, each in one block.
// The memory holds as many rows as [Share.WindowRows] tells, or more, and is pinned like a tensor's. Which rows are
// where, the ids tell; of RowsByID rows come in the order asked for. Ids are checked once they are read, so after
// memory has changed: then the load fails with ErrMismatch (two ranks saved an id, both are named) or ErrFormat (rows
// are not sorted as they should be). Errors: ErrNotFound (a column), ErrMismatch (another dtype; bytes hold any),
// ErrInvalid.
func (l *Load) AddTable(share *Share, window uint64, rows Rows) error {
	if share == nil {
		return nilError("share")
	}
	load, err := l.h.enterAlone()
	if err != nil {
		return err
	}
	defer l.h.leaveAlone()
	from, err := share.h.enter()
	if err != nil {
		return err
	}
	defer share.h.leave()
	if err := share.check(rows); err != nil {
		return err
	}
	var in arguments
	var pinner runtime.Pinner
	defer pinner.Unpin()
	names := columnNames(&in, &pinner, rows.Columns)
	if in.err != nil {
		return in.err
	}
	var data blocks
	for _, column := range rows.Columns {
		data.add(l.memory, column.Blocks[0])
	}
	ids := unsafe.SliceData(rows.IDs)
	l.memory.keep(unsafe.Pointer(ids))
	var cerr *C.ckpt_error
	status := C.ckpt_go_load_add_table(load, from, C.uint64_t(window), (*C.uint8_t)(ids), C.uint64_t(len(rows.IDs)),
		C.uint64_t(len(names)), unsafe.SliceData(names), unsafe.SliceData(data.data), unsafe.SliceData(data.bytes),
		rows.deviceType(), C.int32_t(rows.DeviceID), C.int64_t(rows.Stream), &cerr)
	return fail(status, cerr)
}

// check finds memory that is not what the table has.
func (s *Share) check(rows Rows) error {
	if len(rows.IDs) > 0 && rows.IDType != s.idType && rows.IDType != U8 {
		return mismatch("ids", s.idType, rows.IDType)
	}
	for _, column := range rows.Columns {
		if len(column.Blocks) != 1 {
			return invalid("", "column %q: a load takes one block, found %d", column.Name, len(column.Blocks))
		}
		if column.element == Bool {
			return invalid("", "column %q: a load into bools may leave values that are neither true nor false; use bytes",
				column.Name)
		}
		if _, err := (Tensor{DType: column.DType}).of("", column.element); err != nil {
			return err
		}
		for _, found := range s.columns {
			if found.Name == column.Name && column.DType != found.DType && column.DType != U8 {
				return mismatch("column "+column.Name, found.DType, column.DType)
			}
		}
	}
	return nil
}

func mismatch(what string, expected, found DType) error {
	return &Error{
		Status: ErrMismatch, Message: what + ": expected " + expected.String() + ", found memory of " + found.String(),
		Details: map[string]string{"expected": expected.String(), "found": found.String()},
	}
}
