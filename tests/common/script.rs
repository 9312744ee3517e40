//! Traces from short text: one event a line, numbered by itself, 1 µs apart.

use vramscope::event::Stamped;
use vramscope::ledger::Ledger;
use vramscope::trace::parse_line;

/// Reads lines such as `RunEnded outcome=complete`. Empty lines and those that begin with `#` are left out; `@SEQ`
/// before an event jumps to that number.
pub(crate) fn events(text: &str) -> Vec<Stamped> {
    let mut seq = 0;
    let mut events = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut event = line;
        if let Some((number, rest)) = line.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
            seq = number.parse().expect("a number follows `@`");
            event = rest;
        }
        let numbered = format!("{seq} {} {event}", seq * 1000);
        events.push(parse_line(&numbered).unwrap_or_else(|reason| panic!("`{line}`: {reason}")));
        seq += 1;
    }
    events
}

/// The state after all of them.
pub(crate) fn fold(events: &[Stamped]) -> Ledger {
    let mut ledger = Ledger::default();
    events.iter().for_each(|event| ledger.apply(event));
    ledger
}
