//! Reads one line of a scenario: words, `KEY=VALUE`, `@OPTION=VALUE`, and what stands behind `->`.

use std::cell::Cell;

use ckpt::Options;

use crate::notation::{is_integer, parse_int};
use crate::objects::{refused, wrong, Fail, Outcome, Runner};

/// What a command takes behind its words: any number of further words, pairs, options.
pub const NOTHING: u32 = 0;
pub const MORE: u32 = 1;
pub const PAIRS: u32 = 2;
pub const OPTIONS: u32 = 4;

pub struct Command {
    pub name: &'static str,
    pub words: usize,
    pub takes: u32,
    pub run: fn(&mut Runner, &Line) -> Outcome,
}

pub struct Pair {
    pub key: String,
    pub value: Vec<u8>,
    /// `~`: the text contains the value.
    pub contains: bool,
    used: Cell<bool>,
}

pub struct Line {
    pub command: &'static Command,
    /// The line as it is to be printed, of `timed`.
    pub timed: Option<String>,
    pub words: Vec<Vec<u8>>,
    pub pairs: Vec<Pair>,
    pub options: Vec<Pair>,
    pub status: Option<String>,
    pub details: Vec<Pair>,
}

impl Line {
    /// Text for a call; one that Rust's `str` cannot hold is refused by its type.
    pub fn text(&self, index: usize) -> Result<&str, Fail> {
        text_of(&self.words[index])
    }

    /// A name of the scenario, or other text that is not for the library.
    pub fn name(&self, index: usize) -> Result<&str, Fail> {
        std::str::from_utf8(&self.words[index]).or_else(|_| wrong("expected text, found other bytes"))
    }

    pub fn value(&self, key: &str) -> Option<&[u8]> {
        let pair = self.pairs.iter().find(|pair| pair.key == key)?;
        pair.used.set(true);
        Some(&pair.value)
    }

    pub fn value_text(&self, key: &str) -> Result<Option<&str>, Fail> {
        self.value(key).map(text_of).transpose()
    }

    pub fn unused_pair(&self) -> Option<&str> {
        self.pairs.iter().find(|pair| !pair.used.get()).map(|pair| pair.key.as_str())
    }

    pub fn settings(&self) -> Result<Options, Fail> {
        let mut options = Options::new();
        for Pair { key, value, .. } in &self.options {
            let value = text_of(value)?;
            options = if is_integer(value) {
                options.set(key, parse_int(value)?)
            } else {
                options.set(key, value.strip_prefix('"').unwrap_or(value))
            };
        }
        Ok(options)
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, Fail> {
    std::str::from_utf8(bytes).or_else(|_| refused("text that is not UTF-8", None))
}

/// The words of a line as they stand there; a word that begins with `#` ends it.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split_ascii_whitespace().take_while(|token| !token.starts_with('#'))
}

fn replaced(runner: &Runner, token: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = token;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end == 0 {
            out.push('$');
            continue;
        }
        let (name, behind) = rest.split_at(end);
        out.push_str(runner.variable(name).ok_or_else(|| format!("expected a value of ${name}, found none"))?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

fn decoded(runner: &Runner, token: &str) -> Result<Vec<u8>, String> {
    let text = replaced(runner, token)?;
    if text == "%" {
        return Ok(Vec::new());
    }
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.filter(|two| !two.starts_with('+')).and_then(|two| u8::from_str_radix(two, 16).ok());
        out.push(byte.ok_or_else(|| format!("expected two hexadecimal digits behind %, found '{token}'"))?);
        rest = &behind[2..];
    }
    Ok(out)
}

/// `KEY=VALUE`, divided before anything is replaced; with `or_contains`, `KEY~VALUE` too.
fn pair(runner: &Runner, token: &str, or_contains: bool) -> Result<Pair, String> {
    let at = token.find(|c| c == '=' || (or_contains && c == '~'));
    let at = at.ok_or_else(|| format!("expected KEY=VALUE, found '{token}'"))?;
    let key = String::from_utf8_lossy(&decoded(runner, &token[..at])?).into_owned();
    let (value, contains) = (decoded(runner, &token[at + 1..])?, token.as_bytes()[at] == b'~');
    Ok(Pair { key, value, contains, used: Cell::new(false) })
}

fn take(runner: &Runner, line: &mut Line, token: &str) -> Result<(), String> {
    let takes = |what| line.command.takes & what != 0;
    if line.status.is_some() {
        line.details.push(pair(runner, token, true)?);
    } else if line.words.len() < line.command.words || takes(MORE) {
        line.words.push(decoded(runner, token)?);
    } else if let Some(option) = token.strip_prefix('@') {
        if !takes(OPTIONS) {
            return Err(format!("expected no options, found '{token}'"));
        }
        line.options.push(pair(runner, option, false)?);
    } else {
        if !takes(PAIRS) {
            return Err(format!("expected no more words, found '{token}'"));
        }
        line.pairs.push(pair(runner, token, false)?);
    }
    Ok(())
}

type Find = fn(&str) -> Option<&'static Command>;

/// The line, `None` where it says nothing; or the command and what is wrong with it.
pub fn parse(runner: &Runner, text: &str, find: Find) -> Result<Option<Line>, (String, String)> {
    let mut tokens = tokens(text);
    let Some(mut first) = tokens.next() else { return Ok(None) };
    let mut timed = None;
    if first == "timed" {
        let complaint = || ("timed".to_owned(), "expected a command to time, found none".to_owned());
        first = tokens.next().ok_or_else(complaint)?;
        let from = first.as_ptr() as usize - text.as_ptr() as usize;
        timed = Some(replaced(runner, &text[from..]).map_err(|why| ("timed".to_owned(), why))?);
    }
    let unknown = || ("line".to_owned(), format!("expected a command, found '{first}'"));
    let command = find(first).ok_or_else(unknown)?;
    let (words, pairs, options, details) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut line = Line { command, timed, words, pairs, options, status: None, details };
    fill(runner, &mut line, &mut tokens).map_err(|why| (command.name.to_owned(), why))?;
    Ok(Some(line))
}

fn fill<'t>(runner: &Runner, line: &mut Line, tokens: &mut impl Iterator<Item = &'t str>) -> Result<(), String> {
    while let Some(token) = tokens.next() {
        if line.status.is_some() || token != "->" {
            take(runner, line, token)?;
            continue;
        }
        line.status = Some(tokens.next().ok_or("expected a status behind '->', found none")?.to_owned());
    }
    if line.words.len() < line.command.words {
        return Err(format!("expected {} words, found {}", line.command.words, line.words.len()));
    }
    Ok(())
}
