//! One rank of a save by ranks in four languages: this one in Rust. What is saved: README.md.
//!
//!     CKPT_SESSION=... rank_rust STORE RANK WORLD

use ckpt::{ObjectScope, Options, Region, Save, Session, Store, TensorDesc};

const ROWS: usize = 96;
const COLUMNS: usize = 32;
const TABLE_ROWS: usize = 7;
const TABLE_COLUMNS: usize = 12;

/// This rank's range of `count` items: the first, and how many.
fn share(count: usize, rank: usize, world: usize) -> (usize, usize) {
    let first = count * rank / world;
    (first, count * (rank + 1) / world - first)
}

/// What this rank holds of the model; it must live until the save has run.
struct State {
    embedding: Vec<f32>,
    head: Vec<f64>,
    weight: Vec<f32>,
    momentum: Vec<f32>,
    table: Vec<u8>,
}

impl State {
    fn of(rank: usize, world: usize) -> State {
        let (row, rows) = share(ROWS, rank, world);
        let (low, count) = share(ROWS * COLUMNS, rank, world);
        let (left, wide) = share(TABLE_COLUMNS, rank, world);
        State {
            embedding: (0..65_536 * 64).map(|i| i as f32 / 2.0 - 7.0).collect(),
            head: (0..10).map(|i| f64::from(i) * 0.1).collect(),
            weight: (row * COLUMNS..(row + rows) * COLUMNS).map(|i| i as f32 / 4.0).collect(),
            momentum: (low..low + count).map(|i| 1.0 - i as f32 / 8.0).collect(),
            table: (0..TABLE_ROWS)
                .flat_map(|row| (left..left + wide).map(move |column| (row * TABLE_COLUMNS + column) as u8))
                .collect(),
        }
    }

    fn add_to<'a>(&'a self, save: &mut Save<'a>, rank: usize, world: usize) -> ckpt::Result<()> {
        let (row, rows) = share(ROWS, rank, world);
        let (offset, size) = share(ROWS * COLUMNS, rank, world);
        let (left, wide) = share(TABLE_COLUMNS, rank, world);
        let layer = TensorDesc::of::<f32>(&[ROWS, COLUMNS]);
        let table = TensorDesc::of::<u8>(&[TABLE_ROWS, TABLE_COLUMNS]);
        let rows = Region::Box { offset: &[row, 0], extent: &[rows, COLUMNS] };
        let columns = Region::Box { offset: &[0, left], extent: &[TABLE_ROWS, wide] };
        save.add_tensor("embedding.weight", &TensorDesc::of::<f32>(&[65536, 64]), &self.embedding)?;
        save.add_tensor("head.bias", &TensorDesc::of::<f64>(&[10]), &self.head)?;
        save.add_tensor("layer.weight", &layer.clone().region(rows), &self.weight)?;
        save.add_tensor("layer.weight.momentum", &layer.region(Region::Flat { offset, size }), &self.momentum)?;
        save.add_tensor("table", &table.region(columns), &self.table)
    }
}

fn run(place: &str, rank: u32, world: u32) -> ckpt::Result<()> {
    let state = State::of(rank as usize, world as usize);
    let options = Options::new().set("timeout_ms", 60_000);
    let store = Store::open(place)?;
    let string = std::env::var("CKPT_SESSION").ok();
    let session = Session::open_rank(&store, rank, world, string.as_deref(), &options)?;
    let mut save = Save::new_with(&session, "step-3", Some(3), &options)?;
    state.add_to(&mut save, rank as usize, world as usize)?;
    save.add_object("rng", "text/plain", ObjectScope::PER_RANK, b"Rust")?;
    save.run()?;
    println!("rank {rank} (Rust): saved {}", save.id()?);
    Ok(())
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, place, rank, world] = &words[..] else {
        eprintln!("usage: rank_rust STORE RANK WORLD");
        std::process::exit(2);
    };
    let number = |word: &str| word.parse().expect("a number");
    if let Err(error) = run(place, number(rank), number(world)) {
        eprintln!("rank_rust: {error}");
        std::process::exit(1);
    }
}
