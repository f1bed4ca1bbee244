//! table.*, share.*: sparse tables, and what saves, readers and loads say of them.

use std::ops::Range;
use std::sync::Arc;

use ckpt::{Reader, Rows, RowsMut, Rowset, Share, SharedMemory};

use crate::call::{dtype_text, nothing, shape_text, word, words, Call, Reply};
use crate::load;
use crate::objects::{failed, wrong, Outcome, Runner};
use crate::save;
use crate::{record, Command};

/// The rows of a rank, and what its columns are cut into blocks by.
struct Table {
    rows: Rows<'static>,
    rows_per_block: usize,
}

/// Some bytes of a memory.
struct Part(Arc<Vec<u8>>, Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1.clone()]
    }
}

/// The bytes that word `index` names; none for `%`.
fn bytes(runner: &Runner, call: &Call, index: usize) -> Outcome<Arc<Vec<u8>>> {
    if call.words[index].is_empty() {
        return Ok(Arc::default());
    }
    runner.bytes(call, index)
}

fn new(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let mut rows = Rows::with_ids(call.dtype(1)?, SharedMemory::from(bytes(runner, call, 2)?));
    if let Some(buckets) = call.key_number("buckets")? {
        rows = rows.buckets(buckets as u64);
    }
    let rows_per_block = call.key_number("rows_per_block")?.unwrap_or(0) as usize;
    if let Some(positions) = call.key("positions") {
        rows = rows.positions(SharedMemory::from(runner.bytes_named(positions)?));
    }
    runner.put(call, 0, Table { rows: rows.rows_per_block(rows_per_block), rows_per_block })
}

fn column(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let (all, name, dtype) = (bytes(runner, call, 4)?, call.text(1)?.to_owned(), call.dtype(2)?);
    let row = call.shape(3, &name)?;
    let table = runner.get::<Table>(call, 0)?;
    let block = table.rows_per_block * row.iter().product::<usize>() * dtype.bits() as usize / 8;
    let starts = (0..all.len()).step_by(if block == 0 { all.len().max(1) } else { block });
    let parts = starts.map(|start| {
        let end = if block == 0 { all.len() } else { all.len().min(start + block) };
        SharedMemory::from_owner::<u8, _>(Part(Arc::clone(&all), start..end))
    });
    let rows = table.rows.clone().column_in_blocks(&name, dtype, &row, parts);
    let rows_per_block = table.rows_per_block;
    runner.put(call, 0, Table { rows, rows_per_block })
}

fn table(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let info = runner.get::<Reader>(call, 0)?.table(call.text(1)?)?;
    Ok(record!(info: name row_count bucket_count bytes stored_bytes column_count;
        id_dtype = dtype_text(info.id_dtype())))
}

fn column_info(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let columns = runner.get::<Reader>(call, 0)?.columns(call.text(1)?)?;
    let index: usize = call.number(2)?;
    let Some(info) = columns.get(index) else { return failed(ckpt::Status::NOT_FOUND, "no such column", None) };
    Ok(record!(info: name row_bytes stored_bytes; dtype = dtype_text(info.dtype()), shape = shape_text(info.shape())))
}

fn open(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let pair = |key: &str| -> Outcome<Option<(u64, u64)>> {
        Ok(call.key_numbers(key)?.map(|numbers| (numbers[0] as u64, numbers[1] as u64)))
    };
    let rows = if let Some((first, end)) = pair("buckets")? {
        Rowset::buckets(first..end)
    } else if let Some((index, count)) = pair("slice")? {
        Rowset::slice(index, count)
    } else if let Some((index, count)) = pair("mod")? {
        Rowset::modulo(index, count)
    } else if let Some(ids) = call.key("ids") {
        let bytes = runner.bytes_named(ids)?;
        let ids = bytes.chunks_exact(8).map(|id| u64::from_le_bytes(id.try_into().expect("it has 8 bytes")));
        Rowset::ids(&ids.collect::<Vec<_>>())
    } else {
        Rowset::all()
    };
    let window = call.key_number("window")?.unwrap_or(0) as usize;
    let (reader, settings) = (runner.get::<Reader>(call, 1)?, runner.settings(call)?);
    let share = reader.share_with(call.text(2)?, &rows.window(window), &settings)?;
    runner.put(call, 0, share)
}

fn info(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let share = runner.get::<Share>(call, 0)?;
    Ok(record!(share: row_count window_count most_rows; missing_count = share.missing::<u64>()?.len()))
}

/// `COLUMN:M`
fn target(runner: &Runner, call: &Call, word: &[u8]) -> Outcome<(String, ckpt::Slot<u8>)> {
    let Some(colon) = word.iter().rposition(|byte| *byte == b':') else { return wrong("expected COLUMN:M") };
    let name = String::from_utf8_lossy(&word[..colon]).into_owned();
    Ok((name, load::lend(runner, call, &word[colon + 1..])?))
}

fn load_table(runner: &mut Runner, call: &Call) -> Outcome<Reply> {
    let share = runner.get::<Share>(call, 1)?;
    let mut rows = RowsMut::new();
    if !call.words[3].is_empty() {
        rows = rows.ids_into(load::lend(runner, call, &call.words[3])?, ..);
    }
    for word in &call.words[4..] {
        let (name, slot) = target(runner, call, word)?;
        rows = rows.column_into(&name, slot, ..);
    }
    nothing(load::load(runner, call)?.load.add_table(share, call.number(2)?, rows)?)
}

pub const COMMANDS: &[Command] = &[
    ("table.new", new),
    ("table.column", column),
    ("save.table", |r, c| nothing(save::save(r, c)?.add_table(c.text(1)?, &r.get::<Table>(c, 2)?.rows)?)),
    ("reader.tables", |r, c| {
        words(r.get::<Reader>(c, 0)?.tables().map(|info| Ok(info?.name())).collect::<Outcome<Vec<_>>>()?)
    }),
    ("reader.table", table),
    ("reader.column", column_info),
    ("share.open", open),
    ("share.info", info),
    ("share.rows", |r, c| word(r.get::<Share>(c, 0)?.window_rows(c.number(1)?)?)),
    ("share.missing", |r, c| words(r.get::<Share>(c, 0)?.missing::<u64>()?)),
    ("load.table", load_table),
];
