//! What recording costs on the thread that records, against tracers that are given the same facts in the same run.
//!
//! Percentiles need a time for each event, which criterion does not take; so this bench has a loop of its own.

#[path = "recording/peers.rs"]
mod peers;
mod support;

use quanta::Clock;
use vramscope::event::Event;

use peers::{Chrome, Ours, Perfetto, Subject, Tracy};
use support::{allocations, is_measuring};

/// What one subject did in one round; times in nanoseconds an event.
struct Round {
    p50: f64,
    p99: f64,
    /// Over a stretch without a clock reading around each event.
    mean: f64,
    /// Of its file; `None` where it has none.
    bytes: Option<f64>,
}

/// Times of single events, less what reading the clock twice takes by itself.
fn percentiles(clock: &Clock, events: &[Event], mut record: impl FnMut(&Event)) -> (f64, f64) {
    let empty = sorted_times(clock, events, |event| {
        std::hint::black_box(event);
    });
    let times = sorted_times(clock, events, &mut record);
    let timer = empty[empty.len() / 2];
    let at = |share: usize| (times[times.len() * share / 100] - timer).max(0.0);
    (at(50), at(99))
}

fn sorted_times(clock: &Clock, events: &[Event], mut each: impl FnMut(&Event)) -> Vec<f64> {
    let mut ticks: Vec<u64> = Vec::with_capacity(events.len());
    for event in events {
        let from = clock.raw();
        each(event);
        ticks.push(clock.raw().saturating_sub(from));
    }
    ticks.sort_unstable();
    // Ticks may be shorter than a nanosecond, and scaling a single one would round it.
    let scale = clock.delta_as_nanos(0, 1 << 30) as f64 / f64::from(1 << 30);
    ticks.into_iter().map(|ticks| ticks as f64 * scale).collect()
}

fn round<S: Subject>(clock: &Clock, events: &[Event]) -> Round {
    let mut subject = S::start();
    let (timed, plain) = events.split_at(events.len() / 2);
    let (p50, p99) = percentiles(clock, timed, |event| subject.record(event));
    let from = clock.raw();
    for event in plain {
        subject.record(event);
    }
    let spent = clock.delta_as_nanos(from, clock.raw());
    Round {
        p50,
        p99,
        mean: spent as f64 / plain.len() as f64,
        bytes: subject.finish().map(|bytes| bytes as f64 / events.len() as f64),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One round of each subject in turn, so that a slow minute of the machine meets all of them.
fn rounds(count: usize, events: &[Event]) -> Vec<(&'static str, Vec<Round>)> {
    let clock = Clock::new();
    type Run = fn(&Clock, &[Event]) -> Round;
    let subjects: [(&'static str, Run); 4] = [
        ("vramscope", round::<Ours>),
        ("perfetto-recorder", round::<Perfetto>),
        ("tracy-client", round::<Tracy>),
        ("tracing-chrome", round::<Chrome>),
    ];
    let mut table = subjects.map(|(name, _)| (name, Vec::new()));
    for _ in 0..count {
        for ((_, rounds), (_, run)) in table.iter_mut().zip(subjects) {
            rounds.push(run(&clock, events));
        }
    }
    table.into()
}

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let (count, events) = if is_measuring() { (15, 40_000) } else { (2, 300) };
    let events = allocations(events);
    println!("medians of {count} interleaved rounds of {} events", events.len());
    println!("| recorder | p50 ns | p99 ns | mean ns | mean ratio | bytes an event |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let table = rounds(count, &events);
    for (name, rounds) in &table {
        let column = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
        let ratios = rounds
            .iter()
            .zip(&table[0].1)
            .map(|(own, ours)| own.mean / ours.mean);
        let bytes = rounds[rounds.len() - 1].bytes;
        println!(
            "| {name} | {:.0} | {:.0} | {:.0} | {:.1} | {} |",
            column(|round| round.p50),
            column(|round| round.p99),
            column(|round| round.mean),
            median(ratios),
            bytes.map_or_else(|| "–".to_owned(), |bytes| format!("{bytes:.1}")),
        );
    }
}
