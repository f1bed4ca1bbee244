//! One command: its tokens, and what its keys expect.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use ckpt::{CheckpointInfo, Device, DeviceKind, Dtype, Options, Region, TensorDesc};

use crate::objects::{refused, wrong, Outcome};

pub struct Token {
    pub kind: u8,
    /// Of `KEY=VALUE`, else empty.
    pub key: String,
    pub value: Vec<u8>,
}

impl Token {
    pub fn new(kind: u8, text: &[u8]) -> Self {
        let sign = text.iter().position(|byte| *byte == b'=').filter(|_| b"=>ise~".contains(&kind));
        let (key, value) = sign.map_or((&text[..0], text), |at| (&text[..at], &text[at + 1..]));
        Token { kind, key: lossy(key), value: value.to_vec() }
    }

    /// For comparisons and messages.
    pub fn text(&self) -> String {
        lossy(&self.value)
    }
}

#[derive(Default)]
pub struct Call {
    /// `FILE:LINE: COMMAND`
    pub at: String,
    pub name: String,
    pub timed: bool,
    pub words: Vec<Vec<u8>>,
    pub keys: Vec<Token>,
    pub options: Vec<Token>,
    pub status: Option<String>,
    pub details: Vec<Token>,
}

pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Text for a call; bytes that a Rust `str` cannot hold are refused.
fn text_of(bytes: &[u8]) -> Outcome<&str> {
    std::str::from_utf8(bytes).or_else(|_| refused("text that is not UTF-8", None))
}

fn number_in<T: FromStr>(text: &[u8]) -> Outcome<T> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.map_or_else(|| wrong(format!("expected another number, found {}", lossy(text))), Ok)
}

/// `RUNNING` of `JobState::RUNNING`.
pub fn name_of(value: impl Debug) -> String {
    format!("{value:?}").rsplit(':').next().unwrap_or_default().to_owned()
}

/// The value of this name.
pub fn named<T: Copy + Debug>(make: fn(i32) -> T, name: &str) -> Outcome<T> {
    let found = (0..64).map(make).find(|value| name_of(value) == name);
    found.map_or_else(|| wrong(format!("expected a name of the binding, found {name}")), Ok)
}

/// Extents; Rust's types cannot express a negative one, which C calls INVALID.
fn extents(numbers: &[i64], tensor: &str) -> Outcome<Vec<usize>> {
    let extent = |number: &i64| usize::try_from(*number).or_else(|_| refused(&format!("{number}"), Some(tensor)));
    numbers.iter().map(extent).collect()
}

pub fn shape_text(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

pub fn dtype_text(dtype: Dtype) -> String {
    if dtype.name() == "dtype" {
        dtype.0.to_string()
    } else {
        dtype.name().to_owned()
    }
}

impl Call {
    pub fn text(&self, index: usize) -> Outcome<&str> {
        text_of(&self.words[index])
    }

    pub fn number<T: FromStr>(&self, index: usize) -> Outcome<T> {
        number_in(&self.words[index])
    }

    pub fn key(&self, key: &str) -> Option<&Token> {
        self.keys.iter().find(|token| token.key == key)
    }

    pub fn key_text(&self, key: &str) -> Outcome<Option<&str>> {
        self.key(key).map(|token| text_of(&token.value)).transpose()
    }

    pub fn key_number(&self, key: &str) -> Outcome<Option<i64>> {
        self.key(key).map(|token| number_in(&token.value)).transpose()
    }

    fn numbers_of(text: &[u8]) -> Outcome<Vec<i64>> {
        text.split(|byte| b" :".contains(byte)).filter(|piece| !piece.is_empty()).map(number_in).collect()
    }

    pub fn key_numbers(&self, key: &str) -> Outcome<Option<Vec<i64>>> {
        self.key(key).map(|token| Self::numbers_of(&token.value)).transpose()
    }

    pub fn key_extents(&self, key: &str, tensor: &str) -> Outcome<Option<Vec<usize>>> {
        self.key_numbers(key)?.map(|numbers| extents(&numbers, tensor)).transpose()
    }

    pub fn dtype(&self, index: usize) -> Outcome<Dtype> {
        let dtype = match self.number(index) {
            Ok(number) => Some(Dtype(number)),
            Err(_) => Dtype::find(self.text(index)?),
        };
        dtype.map_or_else(|| wrong("expected a dtype, found none"), Ok)
    }

    pub fn shape(&self, index: usize, name: &str) -> Outcome<Vec<usize>> {
        extents(&Self::numbers_of(&self.words[index])?, name)
    }

    /// The descriptor that DTYPE, SHAPE (words `first` and the next) and the keys of a region give.
    pub fn tensor(&self, name: &str, first: usize) -> Outcome<TensorDesc> {
        let mut desc = TensorDesc::new(self.dtype(first)?, &self.shape(first + 1, name)?);
        if let Some(both) = self.key_extents("box", name)? {
            let (offset, extent) = both.split_at(both.len() / 2);
            desc = desc.region(Region::Box { offset, extent });
        }
        if let Some(flat) = self.key_extents("flat", name)? {
            desc = desc.region(Region::Flat { offset: flat[0], size: flat[1] });
        }
        if let Some(strides) = self.key_extents("strides", name)? {
            desc = desc.strides(&strides);
        }
        if self.key_numbers("first_replica")?.is_some_and(|given| given[0] != 0) {
            desc = desc.first_replica();
        }
        if let Some(replica) = self.key_numbers("replica")? {
            desc = desc.replica(replica[0] as u64, replica[1] as u32, replica[2] as u32);
        }
        Ok(desc)
    }

    /// The device, if it is not the host.
    pub fn device(&self) -> Outcome<Option<Device>> {
        let given = self.key_numbers("device")?;
        let device = given.map(|given| Device { kind: DeviceKind(given[0] as i32), id: given[1] as i32 });
        Ok(device.filter(|device| *device != Device::CPU))
    }

    pub fn settings(&self) -> Outcome<Options> {
        self.options.iter().try_fold(Options::new(), |options, Token { kind, key, value }| {
            Ok(if *kind == b'i' {
                options.set(key, number_in::<i64>(value)?)
            } else {
                options.set(key, text_of(value)?)
            })
        })
    }

    // ---- expectations: each looks only where the command has the key ----

    pub fn expect_bytes(&self, key: &str, found: &[u8]) -> Outcome {
        match self.key(key) {
            Some(wanted) if wanted.value != found => {
                wrong(format!("expected {key}={}, found '{}'", wanted.text(), lossy(found)))
            }
            _ => Ok(()),
        }
    }

    pub fn expect(&self, key: &str, found: impl Display) -> Outcome {
        let found = found.to_string();
        match self.key(key) {
            Some(least) if least.kind == b'>' => {
                if number_in::<u64>(found.as_bytes())? >= number_in(&least.value)? {
                    return Ok(());
                }
                wrong(format!("expected {key}>={}, found {found}", least.text()))
            }
            _ => self.expect_bytes(key, found.as_bytes()),
        }
    }

    /// NaN is NaN, and 0 is not -0.
    pub fn expect_float(&self, key: &str, found: f64) -> Outcome {
        let Some(wanted) = self.key(key) else { return Ok(()) };
        let number: f64 = number_in(&wanted.value)?;
        if number.is_nan() && found.is_nan() || number.to_bits() == found.to_bits() {
            return Ok(());
        }
        wrong(format!("expected {key}={}, found {found}", wanted.text()))
    }

    pub fn expect_checkpoint(&self, info: &CheckpointInfo) -> Outcome {
        self.expect("id", info.id())?;
        self.expect("label", info.label())?;
        self.expect("run", info.run())?;
        self.expect("step", info.step().map_or("-1".to_owned(), |step| step.to_string()))?;
        self.expect("world_size", info.world_size())?;
        self.expect("part_count", info.part_count())?;
        self.expect("tensor_count", info.tensor_count())?;
        self.expect("object_count", info.object_count())?;
        self.expect("state", name_of(info.state()))?;
        self.expect("flags", info.flags())?;
        self.expect("revision", info.revision())?;
        self.expect("attempt", info.attempt())?;
        self.expect("token", info.token())?;
        self.expect("sequence", info.sequence())?;
        self.expect("bytes", info.bytes())?;
        self.expect("passed_over", info.passed_over())
    }

    /// The words from `first` on are these, in this order.
    pub fn expect_words(&self, first: usize, found: impl IntoIterator<Item = impl Display>) -> Outcome {
        let found: Vec<_> = found.into_iter().map(|word| word.to_string().into_bytes()).collect();
        if self.words[first..] == found {
            return Ok(());
        }
        let shown = |words: &[Vec<u8>]| words.iter().map(|word| lossy(word)).collect::<Vec<_>>();
        wrong(format!("expected {:?}, found {:?}", shown(&self.words[first..]), shown(&found)))
    }

    pub fn expect_word(&self, index: usize, found: impl Display) -> Outcome {
        self.expect_words(index, [found])
    }
}
