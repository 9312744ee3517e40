//! The text twin of a trace, one line an event: for eyes, tests and golden files.
//!
//! ```text
//! vtrace schema=1 process=0 unix_zero=0 command="vramscope run"
//! 0 120 NameDefined name=0 text="host:0"
//! 1 180 SegmentReserved device=0 segment=0 stream=0 bytes=2097152
//! end events=2 digest=0123456789abcdef
//! ```
//! Numbers are place and time in nanoseconds; an absent id is `-`. Without the last line the trace is truncated; a trace
//! that was cut ends with `cut events=2`. Where events were left out at the beginning, the second line says
//! `kept events=45 lost=633 from=678`: then follow 45 events with numbers below 678, and all from 678 on.

use std::fmt;
use std::fmt::Write as _;

use crate::base::{IdSpace, Nanos, Seq};
use crate::event::{Event, FieldSink, FieldSource, Stamped};
use crate::trace::copy::End;
use crate::trace::format::{Header, SCHEMA_VERSION, Start};

/// What is wrong with a line of text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TextError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// One event as a line, without the line's end.
#[must_use]
pub fn line(stamped: &Stamped) -> String {
    let mut out = format!("{} {} {}", stamped.seq, stamped.at.0, stamped.event.info().name);
    stamped.event.put(&mut Printer(&mut out));
    out
}

/// A whole trace in memory. Its `Display` is its text form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTrace {
    /// What it says of its run.
    pub header: Header,
    /// Where events were left out at the beginning. The gap that this stands for is not among the events.
    pub start: Option<Start>,
    /// Kept events, then all from the start on.
    pub events: Vec<Stamped>,
    /// How it ends.
    pub end: End,
}

impl fmt::Display for TextTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text_head(&self.header, self.start))?;
        for event in &self.events {
            writeln!(f, "{}", line(event))?;
        }
        f.write_str(&text_end(self.count(), &self.end))
    }
}

impl TextTrace {
    /// The number of the event that would be next.
    fn count(&self) -> u64 {
        let last = self.events.last().map_or(0, |last| last.seq.0.saturating_add(1));
        self.start.map_or(last, |start| last.max(start.from.0))
    }
}

/// What stands before the events, with the ends of its lines.
#[must_use]
pub fn text_head(header: &Header, start: Option<Start>) -> String {
    let mut out = format!(
        "vtrace schema={} process={} unix_zero={} command={}\n",
        header.schema,
        header.process,
        header.unix_zero.0,
        quote(&header.command)
    );
    if let Some(start) = start {
        let Start { from, kept, lost } = start;
        let _ = writeln!(out, "kept events={kept} lost={lost} from={from}");
    }
    out
}

/// What stands after the events, with the end of its line; `count` is the number of events of the run up to here.
#[must_use]
pub fn text_end(count: u64, end: &End) -> String {
    match end {
        End::Truncated => String::new(),
        End::Complete { digest } => format!("end events={count} digest={digest:016x}\n"),
        End::Cut => format!("cut events={count}\n"),
    }
}

/// Reads the text form of a trace.
///
/// # Errors
/// The first line that is not as it should be.
pub fn assemble(text: &str) -> Result<TextTrace, TextError> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let (_, first) = lines.next().ok_or(TextError {
        line: 1,
        reason: "text is empty".to_owned(),
    })?;
    let header = read_header(first).map_err(|reason| TextError { line: 1, reason })?;
    let mut trace = TextTrace {
        header,
        start: None,
        events: Vec::new(),
        end: End::Truncated,
    };
    let mut last = 1;
    for (number, text) in lines {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        last = number;
        if trace.end != End::Truncated {
            let reason = "nothing may follow the end of a trace".to_owned();
            return Err(TextError { line: number, reason });
        }
        take_line(&mut trace, text).map_err(|reason| TextError { line: number, reason })?;
    }
    let missing = trace
        .start
        .map_or(0, |start| start.kept)
        .saturating_sub(trace.events.len() as u64);
    if missing > 0 {
        let reason = format!("text ends before {missing} of its kept events");
        return Err(TextError { line: last, reason });
    }
    Ok(trace)
}

fn take_line(trace: &mut TextTrace, text: &str) -> Result<(), String> {
    if let Some(rest) = text.strip_prefix("kept ") {
        if trace.start.is_some() || !trace.events.is_empty() {
            return Err("`kept` does not stand right after the header".to_owned());
        }
        trace.start = Some(read_start(rest)?);
    } else if let Some(rest) = text.strip_prefix("end ") {
        let mut scanner = read_count(rest, trace.count())?;
        let word = scanner.value("digest")?;
        let digest = u64::from_str_radix(word, 16);
        let digest = digest.map_err(|_| format!("digest `{word}` is not hexadecimal"))?;
        trace.end = End::Complete { digest };
    } else if let Some(rest) = text.strip_prefix("cut ") {
        read_count(rest, trace.count())?;
        trace.end = End::Cut;
    } else {
        let event = parse_line(text)?;
        in_place(trace, event.seq.0)?;
        trace.events.push(event);
    }
    Ok(())
}

/// Whether the next event may have this number: any rising one while events are kept ones, the next one after that.
fn in_place(trace: &TextTrace, seq: u64) -> Result<(), String> {
    let given = trace.events.len() as u64;
    match trace.start {
        Some(start) if given < start.kept => {
            let least = trace.events.last().map_or(0, |last| last.seq.0 + 1);
            if seq < least || seq >= start.from.0 {
                return Err(format!(
                    "kept event has number {seq}, expected {least} or more, and less than {}",
                    start.from
                ));
            }
        }
        _ if seq != trace.count() => {
            return Err(format!("event has number {seq}, expected {}", trace.count()));
        }
        _ => {}
    }
    Ok(())
}

/// Reads one event from a line.
///
/// # Errors
/// What is wrong with it.
pub fn parse_line(text: &str) -> Result<Stamped, String> {
    let mut parts = text.splitn(4, ' ');
    let mut number = |what: &str| {
        let word = parts.next().unwrap_or("");
        word.parse::<u64>()
            .map_err(|_| format!("{what} `{word}` is not a number"))
    };
    let (seq, at) = (Seq(number("place")?), Nanos(number("time")?));
    let kind = parts.next().unwrap_or("");
    let info = Event::KINDS.iter().find(|info| info.name == kind);
    let info = info.ok_or_else(|| format!("no event is called `{kind}`"))?;
    let mut scanner = Scanner {
        rest: parts.next().unwrap_or(""),
    };
    let event = Event::take(info.tag, &mut scanner).ok_or("kind has no reader")??;
    if !scanner.rest.is_empty() {
        return Err(format!("`{}` is left over", scanner.rest));
    }
    Ok(Stamped { seq, at, event })
}

fn read_header(text: &str) -> Result<Header, String> {
    let rest = text
        .strip_prefix("vtrace ")
        .ok_or("text does not begin with `vtrace `")?;
    let mut scanner = Scanner { rest };
    let schema = scanner.number("schema")?;
    if schema > SCHEMA_VERSION {
        return Err(format!(
            "schema version {schema}, this build reads up to {SCHEMA_VERSION}"
        ));
    }
    Ok(Header {
        schema,
        process: scanner.number("process")?,
        unix_zero: Nanos(scanner.number("unix_zero")?),
        command: scanner.text("command")?.into(),
    })
}

fn read_start(rest: &str) -> Result<Start, String> {
    let mut scanner = Scanner { rest };
    let start = Start {
        kept: scanner.number("events")?,
        lost: scanner.number("lost")?,
        from: Seq(scanner.number("from")?),
    };
    if start.is_sound() {
        Ok(start)
    } else {
        Err(format!(
            "{} kept and {} lost events are not all before event {}",
            start.kept, start.lost, start.from
        ))
    }
}

fn read_count(rest: &str, count: u64) -> Result<Scanner<'_>, String> {
    let mut scanner = Scanner { rest };
    let stated = scanner.number("events")?;
    if stated == count {
        Ok(scanner)
    } else {
        Err(format!("end says {stated} events, there are {count}"))
    }
}

fn quote(text: &str) -> String {
    // A string always serializes.
    serde_json::to_string(text).unwrap_or_default()
}

struct Printer<'a>(&'a mut String);

impl FieldSink for Printer<'_> {
    fn number(&mut self, name: &'static str, value: u64) {
        let _ = write!(self.0, " {name}={value}");
    }
    fn id(&mut self, name: &'static str, _: IdSpace, value: u64) {
        self.number(name, value);
    }
    fn maybe_id(&mut self, name: &'static str, _: IdSpace, value: Option<u64>) {
        match value {
            Some(value) => self.number(name, value),
            None => {
                let _ = write!(self.0, " {name}=-");
            }
        }
    }
    fn ids(&mut self, name: &'static str, _: IdSpace, values: &[u32]) {
        let list: Vec<String> = values.iter().map(u32::to_string).collect();
        let _ = write!(self.0, " {name}=[{}]", list.join(","));
    }
    fn word(&mut self, name: &'static str, index: u8, vocabulary: &'static [&'static str]) {
        let _ = write!(self.0, " {name}={}", vocabulary[usize::from(index)]);
    }
    fn text(&mut self, name: &'static str, value: &str) {
        let _ = write!(self.0, " {name}={}", quote(value));
    }
}

struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    /// The text behind `name=`, up to the next blank.
    fn value(&mut self, name: &str) -> Result<&'a str, String> {
        let (value, rest) = self
            .after(name)?
            .split_once(' ')
            .unwrap_or((self.after(name)?, ""));
        self.rest = rest;
        Ok(value)
    }

    fn after(&self, name: &str) -> Result<&'a str, String> {
        let found = self
            .rest
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='));
        found.ok_or_else(|| format!("expected `{name}=` before `{}`", self.rest))
    }
}

fn parse<T: std::str::FromStr>(name: &str, word: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("{name} `{word}` is not a number in range"))
}

impl FieldSource for Scanner<'_> {
    type Error = String;

    fn number(&mut self, name: &'static str) -> Result<u64, String> {
        parse(name, self.value(name)?)
    }
    fn id(&mut self, name: &'static str, _: IdSpace, max: u64) -> Result<u64, String> {
        let value = self.number(name)?;
        if value > max {
            Err(format!("{name} {value} is over {max}"))
        } else {
            Ok(value)
        }
    }
    fn maybe_id(&mut self, name: &'static str, space: IdSpace, max: u64) -> Result<Option<u64>, String> {
        let after = self.after(name)?;
        if after == "-" || after.starts_with("- ") {
            self.value(name)?;
            return Ok(None);
        }
        self.id(name, space, max).map(Some)
    }
    fn ids(&mut self, name: &'static str, _: IdSpace, into: &mut [u32]) -> Result<usize, String> {
        let word = self.value(name)?;
        let list = word.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
        let list = list.ok_or_else(|| format!("{name} `{word}` is not a list in brackets"))?;
        let mut count = 0;
        for item in list.split(',').filter(|item| !item.is_empty()) {
            let limit = into.len();
            let slot = into
                .get_mut(count)
                .ok_or_else(|| format!("{name} has over {limit} members"))?;
            *slot = parse(name, item)?;
            count += 1;
        }
        Ok(count)
    }
    fn word(&mut self, name: &'static str, vocabulary: &'static [&'static str]) -> Result<u8, String> {
        let word = self.value(name)?;
        let index = vocabulary.iter().position(|known| *known == word);
        index
            .map(|index| index as u8)
            .ok_or_else(|| format!("{name} `{word}` is none of {}", vocabulary.join(", ")))
    }
    fn text(&mut self, name: &'static str) -> Result<Box<str>, String> {
        let after = self.after(name)?;
        let mut stream = serde_json::Deserializer::from_str(after).into_iter::<String>();
        let text = stream.next().and_then(Result::ok);
        let text = text.ok_or_else(|| format!("{name} is not a quoted string"))?;
        let end = stream.byte_offset();
        self.rest = after.get(end..).unwrap_or("").trim_start_matches(' ');
        Ok(text.into())
    }
}
