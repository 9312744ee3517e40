//! The real runtime on simulated devices: one thread, one seed, faults on. After each step the runtime's own
//! books, the ledger of what it stated and the simulated truth must agree.
//!
//! `VRAMSCOPE_SIM_SEED=n` runs one seed, `VRAMSCOPE_SIM_SEEDS=n` that many.

mod check;
mod purges;
mod steps;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::{Canary, World};

const SEEDS: u64 = 600;
const STEPS: u64 = 160;

/// The first thing that did not agree, with the step.
fn run(seed: u64, canary: Canary) -> Result<World, String> {
    let mut world = World::open(seed, canary);
    for step in 0..STEPS {
        let did = world.step();
        let checked = did
            .clone()
            .and_then(|name| world.check().map_err(|e| format!("after {name}: {e}")));
        checked.map_err(|error| format!("step {step}: {error}"))?;
    }
    world.close()?;
    world.check()?;
    Ok(world)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("the variable holds a number"))
}

#[test]
fn books_ledger_and_truth_agree_after_each_step() {
    let seeds = match number("VRAMSCOPE_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("VRAMSCOPE_SIM_SEEDS").unwrap_or(SEEDS),
    };
    let alone = seeds.end - seeds.start == 1;
    let mut seen = world::Seen::default();
    for seed in seeds {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed, Canary::None)));
        match result {
            Ok(Ok(world)) => seen.add(&world.seen),
            Ok(Err(error)) => panic!("VRAMSCOPE_SIM_SEED={seed}: {error}"),
            Err(_) => panic!("VRAMSCOPE_SIM_SEED={seed} panics"),
        }
    }
    assert!(alone || seen.is_broad(), "the seeds miss something: {seen:?}");
}

#[test]
fn a_run_follows_from_its_seed() {
    for seed in [3, 4] {
        let digest = || run(seed, Canary::None).expect("the seed is a good one").digest();
        assert_eq!(digest(), digest());
    }
}

/// Each corruption must make the checkers fail under nearly every seed.
fn caught(canary: Canary, words: &str) {
    let errors: Vec<String> = (0..20).filter_map(|seed| run(seed, canary).err()).collect();
    assert!(errors.len() > 15, "only {} of 20 seeds fail", errors.len());
    let named = errors.iter().filter(|error| error.contains(words)).count();
    assert!(named > 15, "errors don't say `{words}`: {errors:?}");
}

#[test]
fn a_lost_release_is_caught() {
    caught(Canary::LosesRelease, "books say");
}

#[test]
fn a_leaked_segment_is_caught() {
    caught(Canary::LeaksSegment, "segments");
}

#[test]
fn a_segment_returned_under_work_is_caught() {
    caught(Canary::StopsWaiting, "touched");
}
