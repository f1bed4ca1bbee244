//! A small real trainer: logistic regression with momentum. It saves in the background every few steps, and resumes
//! from the newest checkpoint when it is started again.
//!
//! `trainer STORE STEPS` trains up to that step. `trainer STORE` proves that an interrupted and resumed run ends with
//! the same bits as one without interruption.

use ckpt::{Checkpointer, Load, Options, Reader, Result, Save, Store, TensorDesc, Value};

const FEATURES: usize = 16;
const SAMPLES: u64 = 2000;
const BATCH: usize = 32;

/// All state that the next step depends on: what a checkpoint must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Trainer {
    /// The state of the generator that draws samples.
    rng: u64,
    weights: Vec<f64>,
    momentum: Vec<f64>,
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn uniform(state: &mut u64) -> f64 {
    (splitmix(state) >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
}

/// Sample `index` of the data set: its features, and its side of a plane.
fn sample(index: u64) -> ([f64; FEATURES], f64) {
    let mut state = index;
    let features = std::array::from_fn(|_| uniform(&mut state));
    let side: f64 = features.iter().enumerate().map(|(i, x)| x * (i as f64 - 7.0)).sum();
    (features, if side > 0.0 { 1.0 } else { 0.0 })
}

impl Trainer {
    fn new() -> Self {
        Trainer { rng: 42, weights: vec![0.0; FEATURES], momentum: vec![0.0; FEATURES] }
    }

    fn predict(&self, features: &[f64; FEATURES]) -> f64 {
        let score: f64 = features.iter().zip(&self.weights).map(|(x, w)| x * w).sum();
        1.0 / (1.0 + (-score).exp())
    }

    fn train_step(&mut self) {
        let mut gradient = [0.0; FEATURES];
        for _ in 0..BATCH {
            let (features, label) = sample(splitmix(&mut self.rng) % SAMPLES);
            let error = self.predict(&features) - label;
            for (g, x) in gradient.iter_mut().zip(features) {
                *g += error * x / BATCH as f64;
            }
        }
        for ((w, m), g) in self.weights.iter_mut().zip(&mut self.momentum).zip(gradient) {
            *m = 0.9 * *m + g;
            *w -= 0.5 * *m;
        }
    }

    /// The share of samples on the right side.
    pub fn accuracy(&self) -> f64 {
        let right = |index| {
            let (features, label) = sample(index);
            (self.predict(&features) > 0.5) == (label > 0.5)
        };
        (0..SAMPLES).filter(|&index| right(index)).count() as f64 / SAMPLES as f64
    }

    /// Adds the state to a save.
    fn add_to<'a>(&'a self, save: &mut Save<'a>) -> Result<()> {
        let state = Value::dict([
            ("rng", format!("{:016x}", self.rng).into()),
            ("model", Value::dict([("weights", Value::tensor())])),
            ("optimizer", Value::dict([("momentum", Value::tensor())])),
        ]);
        let desc = TensorDesc::of::<f64>(&[FEATURES]);
        save.add_value(None, &state)?;
        save.add_tensor("model/weights", &desc, &self.weights)?;
        save.add_tensor("optimizer/momentum", &desc, &self.momentum)
    }

    fn load(&mut self, reader: &Reader) -> Result<()> {
        let desc = TensorDesc::of::<f64>(&[FEATURES]);
        let mut load = Load::new_with(reader, &Options::new().set("strict", "exact"))?;
        load.add_tensor("model/weights", &desc, &mut self.weights)?;
        load.add_tensor("optimizer/momentum", &desc, &mut self.momentum)?;
        load.run()?;
        let state = reader.tree(None)?.to_value()?;
        let rng = state.get("rng").and_then(Value::as_text).expect("the tree has the generator's state");
        self.rng = u64::from_str_radix(rng, 16).expect("it is hexadecimal");
        Ok(())
    }
}

/// Trains up to `steps`, from the newest checkpoint if there is one, and returns the state after the last step.
pub fn train(place: &str, run: &str, steps: u64) -> Result<Trainer> {
    let store = Store::open(place)?;
    let policy = Options::new().set("run", run).set("every", "25 steps").set("keep_last", 3);
    let mut keeper = Checkpointer::new(&store, &policy)?;
    let mut trainer = Trainer::new();
    let start = keeper.restore(|reader| trainer.load(reader))?.map_or(0, |restored| restored.step);
    println!("{run}: from step {start}");
    for step in start + 1..=steps {
        trainer.train_step();
        keeper.step(step, |save| trainer.add_to(save))?;
        if let Some(why) = keeper.stopping() {
            println!("{run}: {why}, saved step {step}");
            break;
        }
    }
    keeper.close()?;
    Ok(trainer)
}

/// Trains once without an interruption, once with two, and compares every bit.
pub fn prove(place: &str) -> Result<Trainer> {
    let whole = train(place, "whole", 200)?;
    train(place, "resumed", 60)?; // stops 10 steps behind its last checkpoint, as a crash would
    train(place, "resumed", 133)?;
    let resumed = train(place, "resumed", 200)?;
    assert_eq!(whole, resumed, "a resumed run must equal an uninterrupted one");
    let bits = |trainer: &Trainer| trainer.weights.iter().map(|w| w.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&whole), bits(&resumed));
    Ok(resumed)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let trainer = match arguments.as_slice() {
        [place] => prove(place)?,
        [place, steps] => train(place, "main", steps.parse().expect("STEPS is a number"))?,
        _ => {
            eprintln!("usage: trainer STORE [STEPS]");
            std::process::exit(2);
        }
    };
    println!("{:.1} % of the samples are right", 100.0 * trainer.accuracy());
    Ok(())
}
