//! The library's own lists: version, statuses, dtypes, options.

use ckpt::{Dtype, OptionKind, Status};

use crate::line::{Command, Line, NOTHING, PAIRS};
use crate::notation::{parse_int, parse_unsigned};
use crate::objects::{wrong, Outcome, Runner};

fn version(_: &mut Runner, _: &Line) -> Outcome {
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

macro_rules! constants {
    ($type:ident: $($name:ident)*) => {
        [$((stringify!($name), $type::$name)),*]
    };
}

/// The binding's number of a name is `number`, and no other name has it.
fn check_constants<T: Copy + PartialEq>(known: &[(&str, T)], name: &str, number: T) -> Outcome {
    for (own, own_number) in known {
        if (own.eq_ignore_ascii_case(name)) != (*own_number == number) {
            return wrong(format!("expected {name} to have its number, found that it is {own}'s"));
        }
    }
    Ok(())
}

fn number_of(line: &Line) -> Outcome<i32> {
    parse_int(line.name(1)?)?.try_into().or_else(|_| wrong("expected a number of 32 bits"))
}

fn status(_: &mut Runner, line: &Line) -> Outcome {
    let (name, number) = (line.name(0)?, Status(number_of(line)?));
    if number.name() != name {
        return wrong(format!("expected {name} for {}, found {}", number.0, number.name()));
    }
    let known = constants! { Status:
        OK INVALID UNSUPPORTED FORKED CANCELLED NOT_FOUND EXISTS GONE CORRUPT FORMAT REVISION INCOMPLETE MISMATCH
        CONFLICT FENCED ABORTED TIMEOUT COMMIT_UNKNOWN IO NO_SPACE NOMEM INTERNAL
    };
    check_constants(&known, name, number)
}

fn dtype(_: &mut Runner, line: &Line) -> Outcome {
    let (name, number) = (line.name(0)?, Dtype(number_of(line)?));
    if number.name() != name {
        return wrong(format!("expected {name} for {}, found {}", number.0, number.name()));
    }
    if number.bits() != parse_unsigned::<u32>(line.name(2)?)? {
        return wrong(format!("expected {} bits, found {}", line.name(2)?, number.bits()));
    }
    let known = (name != "dtype").then_some(number);
    if Dtype::find(name) != known {
        return wrong(format!("expected {name} to be found as {known:?}, found {:?}", Dtype::find(name)));
    }
    let known = constants! { Dtype:
        I4 I8 I16 I32 I64 U4 U8 U16 U32 U64 F16 F32 F64 BF16 C32 C64 C128 BOOL F8_E3M4 F8_E4M3 F8_E4M3B11FNUZ F8_E4M3FN
        F8_E4M3FNUZ F8_E5M2 F8_E5M2FNUZ F8_E8M0FNU F6_E2M3FN F6_E3M2FN F4_E2M1FN
    };
    check_constants(&known, name, number)
}

fn option(_: &mut Runner, line: &Line) -> Outcome {
    for info in ckpt::options() {
        let info = info?;
        if info.key.as_bytes() != line.words[0] {
            continue;
        }
        line.expect_name("kind", &[("INT", OptionKind::INT.0), ("STR", OptionKind::STR.0)], info.kind.0)?;
        line.expect_int("min", info.min)?;
        line.expect_int("max", info.max)?;
        line.expect_text("fallback", info.fallback)?;
        line.expect_text("choices", info.choices)?;
        return line.expect_text("used_by", info.used_by);
    }
    wrong(format!("expected an option {}, found none", line.name(0)?))
}

pub const COMMANDS: &[Command] = &[
    Command { name: "version", words: 0, takes: NOTHING, run: version },
    Command { name: "status", words: 2, takes: NOTHING, run: status },
    Command { name: "dtype", words: 3, takes: NOTHING, run: dtype },
    Command { name: "option", words: 1, takes: PAIRS, run: option },
];
