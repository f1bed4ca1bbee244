//! One command: its words, keys and options; and what is said in reply.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use ckpt::{Device, DeviceKind, Dtype, Options, Region, TensorDesc};

use crate::objects::{refused, wrong, Outcome};

/// A word, or `KEY=VALUE`.
pub type Field = (Option<String>, Vec<u8>);
pub type Reply = Vec<Field>;

/// A command that says no more than that it succeeded.
pub fn nothing(_: impl Sized) -> Outcome<Reply> {
    Ok(Vec::new())
}

pub fn words(found: impl IntoIterator<Item = impl Display>) -> Outcome<Reply> {
    Ok(found.into_iter().map(|word| (None, word.to_string().into_bytes())).collect())
}

pub fn word(found: impl Display) -> Outcome<Reply> {
    words([found])
}

pub fn field(key: &str, value: impl Display) -> Field {
    (Some(key.to_owned()), value.to_string().into_bytes())
}

/// `record!(info: a b; c = x)`: `info.a()` and `info.b()`, and x as c; with `.info`, the fields `info.a` and `info.b`.
#[macro_export]
macro_rules! record {
    (.$info:ident: $($name:ident)*; $($key:ident = $value:expr),* $(,)?) => {
        vec![
            $($crate::call::field(stringify!($name), &$info.$name),)*
            $($crate::call::field(stringify!($key), $value),)*
        ]
    };
    ($info:ident: $($name:ident)*; $($key:ident = $value:expr),* $(,)?) => {
        vec![
            $($crate::call::field(stringify!($name), $info.$name()),)*
            $($crate::call::field(stringify!($key), $value),)*
        ]
    };
}

#[derive(Default)]
pub struct Call {
    pub name: String,
    pub words: Vec<Vec<u8>>,
    keys: Vec<(String, Vec<u8>)>,
    options: Vec<(bool, String, Vec<u8>)>, // whether it is an integer
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

fn numbers_of(text: &[u8]) -> Outcome<Vec<i64>> {
    text.split(|byte| b" :".contains(byte)).filter(|piece| !piece.is_empty()).map(number_in).collect()
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

fn unquoted(text: &str) -> Vec<u8> {
    let mut pieces = text.split('%');
    let mut out = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        out.push(u8::from_str_radix(&piece[..2], 16).expect("two digits follow"));
        out.extend_from_slice(&piece.as_bytes()[2..]);
    }
    out
}

pub fn quoted(bytes: &[u8]) -> String {
    let show = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'/' | b':' => char::from(*byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    bytes.iter().map(show).collect()
}

impl Call {
    pub fn parse(line: &str) -> Self {
        let mut fields = line.split(' ');
        let mut call = Call { name: fields.next().unwrap_or_default().to_owned(), ..Call::default() };
        for text in fields {
            let pair = text.get(1..).and_then(|rest| rest.split_once('='));
            match (text.as_bytes().first(), pair) {
                (Some(b'='), Some((key, value))) => call.keys.push((key.to_owned(), unquoted(value))),
                (Some(sign @ (b'@' | b'$')), Some((key, value))) => {
                    call.options.push((*sign == b'@', key.to_owned(), unquoted(value)));
                }
                _ => call.words.push(unquoted(text)),
            }
        }
        call
    }

    pub fn text(&self, index: usize) -> Outcome<&str> {
        text_of(&self.words[index])
    }

    pub fn number<T: FromStr>(&self, index: usize) -> Outcome<T> {
        number_in(&self.words[index])
    }

    pub fn key(&self, key: &str) -> Option<&[u8]> {
        self.keys.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_slice())
    }

    pub fn key_text(&self, key: &str) -> Outcome<Option<&str>> {
        self.key(key).map(text_of).transpose()
    }

    pub fn key_number(&self, key: &str) -> Outcome<Option<i64>> {
        self.key(key).map(number_in).transpose()
    }

    pub fn key_numbers(&self, key: &str) -> Outcome<Option<Vec<i64>>> {
        self.key(key).map(numbers_of).transpose()
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
        extents(&numbers_of(&self.words[index])?, name)
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
        self.options.iter().try_fold(Options::new(), |options, (is_integer, key, value)| {
            Ok(if *is_integer { options.set(key, number_in::<i64>(value)?) } else { options.set(key, text_of(value)?) })
        })
    }
}
