//! Numbers, shapes, names and regions as scenarios write them.

use ckpt::{Device, DeviceKind, Dtype, Region, TensorDesc};

use crate::line::Line;
use crate::objects::{refused, wrong, Outcome};

pub fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub fn parse_int(text: &str) -> Outcome<i64> {
    if !is_integer(text) {
        return wrong(format!("expected a number, found '{text}'"));
    }
    text.parse().or_else(|_| wrong(format!("expected a number of 64 bits, found '{text}'")))
}

pub fn parse_unsigned<T: std::str::FromStr>(text: &str) -> Outcome<T> {
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return wrong(format!("expected a number >= 0, found '{text}'"));
    }
    text.parse().or_else(|_| wrong(format!("expected a number >= 0, found '{text}'")))
}

/// As strtod: decimal, hexadecimal, `inf`, `nan`.
pub fn parse_float(text: &str) -> Outcome<f64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1.0, text), |digits| (-1.0, digits));
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return hex_float(hex).map_or_else(|| wrong(format!("expected a number, found '{text}'")), |x| Ok(sign * x));
    }
    text.parse().or_else(|_| wrong(format!("expected a number, found '{text}'")))
}

/// `1.8p3`: at most 53 bits, so exact.
fn hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    let mut exponent = exponent.parse::<i32>().ok()? - 4 * i32::try_from(fraction.len()).ok()?;
    let mut value = digits as f64;
    // In steps, so that subnormal results do not pass through a power that is 0.
    while exponent != 0 {
        let step = exponent.clamp(-1000, 1000);
        value *= 2f64.powi(step);
        exponent -= step;
    }
    Some(value)
}

pub fn parse_hex(text: &str) -> Outcome<Vec<u8>> {
    if text.len() % 2 != 0 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return wrong(format!("expected pairs of hexadecimal digits, found '{text}'"));
    }
    let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap_or_default();
    Ok((0..text.len()).step_by(2).map(pair).collect())
}

pub fn parse_dtype(text: &str) -> Outcome<Dtype> {
    if is_integer(text) {
        return parse_unsigned(text).map(Dtype);
    }
    Dtype::find(text).map_or_else(|| wrong(format!("expected a dtype, found '{text}'")), Ok)
}

/// Extents; a negative one cannot be said in Rust, and C calls it INVALID.
pub fn parse_shape(text: &str, tensor: Option<&str>) -> Outcome<Vec<usize>> {
    if text == "-" {
        return Ok(Vec::new());
    }
    let extent = |word: &str| {
        let value = parse_int(word).or_else(|_| wrong(format!("expected a shape, found '{text}'")))?;
        usize::try_from(value).or_else(|_| refused(&format!("{value} as an extent, offset or stride"), tensor))
    };
    text.split('x').map(extent).collect()
}

pub fn shape_text(shape: &[usize]) -> String {
    if shape.is_empty() {
        return "-".to_owned();
    }
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// The place of a name in a list.
pub fn parse_name(names: &[(&str, i32)], text: &str) -> Outcome<i32> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map_or_else(|| wrong(format!("expected a name such as '{}', found '{text}'", names[0].0)), |(_, n)| Ok(*n))
}

pub fn name_of<'n>(names: &[(&'n str, i32)], number: i32) -> &'n str {
    names.iter().find(|(_, own)| *own == number).map_or("?", |(name, _)| name)
}

fn divided(text: &str) -> Outcome<(&str, &str)> {
    text.split_once(':').map_or_else(|| wrong(format!("expected A:B, found '{text}'")), Ok)
}

/// What the memory of `save.tensor` and `load.tensor` is.
pub fn parse_region(line: &Line, tensor: &str, dtype: usize, shape: usize) -> Outcome<TensorDesc> {
    let tensor = Some(tensor);
    let mut desc = TensorDesc::new(parse_dtype(line.name(dtype)?)?, &parse_shape(line.name(shape)?, tensor)?);
    if let Some(text) = line.value_text("box")? {
        let (offset, extent) = divided(text)?;
        let (offset, extent) = (parse_shape(offset, tensor)?, parse_shape(extent, tensor)?);
        desc = desc.region(Region::Box { offset: &offset, extent: &extent });
    }
    if let Some(text) = line.value_text("flat")? {
        let (offset, size) = divided(text)?;
        let number =
            |text| usize::try_from(parse_int(text)?).or_else(|_| refused(&format!("{text} in a flat range"), tensor));
        desc = desc.region(Region::Flat { offset: number(offset)?, size: number(size)? });
    }
    if let Some(text) = line.value_text("strides")? {
        desc = desc.strides(&parse_shape(text, tensor)?);
    }
    if let Some(text) = line.value_text("replica")? {
        let (group, rest) = divided(text)?;
        let (index, count) = divided(rest)?;
        desc = desc.replica(parse_unsigned(group)?, parse_unsigned(index)?, parse_unsigned(count)?);
    }
    Ok(desc)
}

pub fn parse_device(line: &Line) -> Outcome<Option<Device>> {
    let Some(text) = line.value_text("device")? else { return Ok(None) };
    let (kind, id) = divided(text)?;
    Ok(Some(Device { kind: DeviceKind(parse_unsigned(kind)?), id: parse_unsigned(id)? }))
}
