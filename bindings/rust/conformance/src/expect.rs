//! Compares what was found with the `KEY=VALUE` of a line, where it names the key.

use std::fmt::Display;

use ckpt::{CheckpointInfo, CheckpointState, Dtype};

use crate::line::Line;
use crate::notation::{name_of, parse_dtype, parse_float, parse_int, parse_name, parse_unsigned};
use crate::objects::{wrong, Outcome};

pub const CHECKPOINT_STATES: [(&str, i32); 4] = [
    ("COMMITTED", CheckpointState::COMMITTED.0),
    ("OPEN", CheckpointState::OPEN.0),
    ("ABORTED", CheckpointState::ABORTED.0),
    ("DAMAGED", CheckpointState::DAMAGED.0),
];

fn differs(key: &str, wanted: &str, found: impl Display) -> Outcome {
    wrong(format!("expected {key}={wanted}, found {found}"))
}

impl Line {
    pub fn expect_int(&self, key: &str, found: i64) -> Outcome {
        match self.value_text(key)? {
            Some(wanted) if parse_int(wanted)? != found => differs(key, wanted, found),
            _ => Ok(()),
        }
    }

    pub fn expect_unsigned(&self, key: &str, found: impl Into<u64>) -> Outcome {
        let found = found.into();
        match self.value_text(key)? {
            Some(wanted) if parse_unsigned::<u64>(wanted)? != found => differs(key, wanted, found),
            _ => Ok(()),
        }
    }

    /// NaN is NaN, and 0 is not -0.
    pub fn expect_float(&self, key: &str, found: f64) -> Outcome {
        let Some(wanted) = self.value_text(key)? else { return Ok(()) };
        let number = parse_float(wanted)?;
        let same = number.is_nan() && found.is_nan() || number.to_bits() == found.to_bits();
        if same {
            Ok(())
        } else {
            differs(key, wanted, found)
        }
    }

    pub fn expect_text(&self, key: &str, found: &str) -> Outcome {
        self.expect_bytes(key, found.as_bytes())
    }

    pub fn expect_bytes(&self, key: &str, found: &[u8]) -> Outcome {
        match self.value(key) {
            Some(wanted) if wanted != found => {
                differs(key, &String::from_utf8_lossy(wanted), format!("'{}'", String::from_utf8_lossy(found)))
            }
            _ => Ok(()),
        }
    }

    pub fn expect_name(&self, key: &str, names: &[(&str, i32)], found: i32) -> Outcome {
        match self.value_text(key)? {
            Some(wanted) if parse_name(names, wanted)? != found => differs(key, wanted, name_of(names, found)),
            _ => Ok(()),
        }
    }

    pub fn expect_dtype(&self, key: &str, found: Dtype) -> Outcome {
        match self.value_text(key)? {
            Some(wanted) if parse_dtype(wanted)? != found => differs(key, wanted, found),
            _ => Ok(()),
        }
    }

    pub fn expect_checkpoint(&self, info: &CheckpointInfo) -> Outcome {
        let step = info.step().map_or(Ok(-1), i64::try_from).or_else(|_| wrong("a step beyond 63 bits"))?;
        self.expect_text("id", info.id())?;
        self.expect_text("label", info.label())?;
        self.expect_text("run", info.run())?;
        self.expect_int("step", step)?;
        self.expect_unsigned("world_size", info.world_size())?;
        self.expect_unsigned("part_count", info.part_count())?;
        self.expect_unsigned("tensor_count", info.tensor_count())?;
        self.expect_unsigned("object_count", info.object_count())?;
        self.expect_name("state", &CHECKPOINT_STATES, info.state().0)?;
        self.expect_unsigned("flags", info.flags())?;
        self.expect_unsigned("revision", info.revision())?;
        self.expect_unsigned("attempt", info.attempt())?;
        self.expect_unsigned("token", info.token())?;
        self.expect_unsigned("sequence", info.sequence())?;
        self.expect_unsigned("bytes", info.bytes())
    }

    /// The words from `first` on are these, in this order.
    pub fn expect_list(&self, first: usize, found: &[impl AsRef<[u8]>]) -> Outcome {
        let wanted = &self.words[first..];
        let shown = |entry: Option<&[u8]>| {
            entry.map_or("no more".to_owned(), |entry| format!("'{}'", String::from_utf8_lossy(entry)))
        };
        for index in 0..wanted.len().max(found.len()) {
            let (wanted, found) = (wanted.get(index).map(Vec::as_slice), found.get(index).map(AsRef::as_ref));
            if wanted != found {
                return wrong(format!("expected {} at place {index}, found {}", shown(wanted), shown(found)));
            }
        }
        Ok(())
    }
}
