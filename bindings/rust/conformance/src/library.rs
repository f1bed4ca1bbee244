//! The library's own lists: version, statuses, dtypes, options.

use std::fmt::Debug;

use ckpt::{Dtype, Status};

use crate::call::{name_of, Call};
use crate::objects::{wrong, Outcome, Runner};
use crate::Command;

fn version(_: &mut Runner, _: &Call) -> Outcome {
    let number = ckpt::version_number();
    let text = format!("{}.{}.{}", number / 1_000_000, number / 1_000 % 1_000, number % 1_000);
    if text != ckpt::version() {
        return wrong(format!("expected {text}, found {}", ckpt::version()));
    }
    let [major, minor, patch] =
        [ckpt::sys::CKPT_VERSION_MAJOR, ckpt::sys::CKPT_VERSION_MINOR, ckpt::sys::CKPT_VERSION_PATCH];
    let header = (major * 1_000_000 + minor * 1_000 + patch) as u32;
    if number < header {
        return wrong(format!("expected at least {header}, found {number}"));
    }
    Ok(())
}

/// The library and the constants must name the number as the first word does; if that is `unknown`, no constant may
/// have the number.
fn check_name(call: &Call, constant: impl Debug, name: &str, unknown: &str) -> Outcome {
    let (wanted, constant) = (call.text(0)?, name_of(constant));
    let same = if wanted == unknown { constant.ends_with(')') } else { constant.eq_ignore_ascii_case(wanted) };
    if name == wanted && same {
        return Ok(());
    }
    wrong(format!("expected {wanted}, found {name}, and constant {constant}"))
}

fn status(_: &mut Runner, call: &Call) -> Outcome {
    let status = Status(call.number(1)?);
    check_name(call, status, status.name(), "UNKNOWN")
}

fn dtype(_: &mut Runner, call: &Call) -> Outcome {
    let dtype = Dtype(call.number(1)?);
    check_name(call, dtype, dtype.name(), "dtype")?;
    call.expect_word(2, dtype.bits())?;
    let known = (dtype.name() != "dtype").then_some(dtype);
    if Dtype::find(dtype.name()) != known {
        return wrong(format!("expected {} to be found as {known:?}", dtype.name()));
    }
    Ok(())
}

fn option(_: &mut Runner, call: &Call) -> Outcome {
    for info in ckpt::options() {
        let info = info?;
        if info.key.as_bytes() != call.words[0] {
            continue;
        }
        call.expect("kind", name_of(info.kind))?;
        call.expect("min", info.min)?;
        call.expect("max", info.max)?;
        call.expect("fallback", info.fallback)?;
        call.expect("choices", info.choices)?;
        return call.expect("used_by", info.used_by);
    }
    wrong(format!("expected an option {}, found none", call.text(0)?))
}

pub const COMMANDS: &[Command] = &[("version", version), ("status", status), ("dtype", dtype), ("option", option)];
