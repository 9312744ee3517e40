//! Pools: reuse, limits, dead and torn entries.

use std::sync::Arc;

use vramscope::base::Bytes;
use vramscope::event::{Event, OwnerKind, Refusal, ReleaseCause, Stage, TakeOutcome};
use vramscope::runtime::{Entry, Pool, PoolConfig, StalePolicy};

use crate::rig::{Rig, on_each, refused, with};

pub(crate) fn open(rig: &Rig, limit: Bytes) -> Arc<Pool<u32>> {
    let config = PoolConfig {
        name: "nvfp4_runtime.act_q_pool",
        kind: OwnerKind::Pool,
        cleared_by: Stage::OwnerCaches,
        limit,
    };
    Pool::open(&rig.runtime, &rig.stream, config)
}

/// An entry whose larger part dies from 1 MiB on, and whose smaller one does not.
fn take(pool: &Pool<u32>, key: u32) -> Arc<Entry> {
    pool.take(&key, &[("qx", Bytes(2_600_000)), ("scales", Bytes(320_000))])
        .expect("there is room")
}

fn outcomes(rig: &Rig) -> Vec<TakeOutcome> {
    let outcome = |event: &Event| match event {
        Event::PoolTaken(taken) => Some(taken.outcome),
        _ => None,
    };
    rig.events().iter().filter_map(outcome).collect()
}

#[test]
fn an_entry_is_given_out_again() {
    on_each(|rig| {
        let pool = open(rig, Bytes::mib(32));
        let (a, b) = (take(&pool, 1), take(&pool, 1));
        assert!(Arc::ptr_eq(&a, &b));
        take(&pool, 2);
        assert_eq!(
            outcomes(rig),
            [TakeOutcome::Miss, TakeOutcome::Hit, TakeOutcome::Miss]
        );
    });
}

#[test]
fn a_pool_over_its_limit_evicts_the_least_recently_used() {
    on_each(|rig| {
        let pool = open(rig, Bytes(2 * 2_920_000));
        let first = take(&pool, 1);
        take(&pool, 2);
        take(&pool, 1);
        take(&pool, 3);
        let evicted = rig.events().into_iter().filter_map(|event| match event {
            Event::EntryDropped(dropped) => Some((dropped.entry.0, dropped.cause)),
            _ => None,
        });
        assert_eq!(evicted.collect::<Vec<_>>(), [(1, ReleaseCause::Evicted)]);
        assert!(Arc::ptr_eq(&first, &take(&pool, 1)));
        let alone = pool.take(&9, &[("qx", Bytes::mib(9))]).unwrap();
        assert!(alone.part(0).is_alive(), "one entry over the limit is kept");
    });
}

#[test]
fn half_of_an_entry_dies_and_the_error_says_which() {
    on_each(|rig| {
        let pool = open(rig, Bytes::mib(32));
        take(&pool, 1);
        rig.kill();
        let entry = take(&pool, 1);
        assert!(!entry.part(0).is_alive() && entry.part(1).is_alive());
        let (refusal, report) = refused(rig.increment(&rig.stream, entry.part(0)));
        assert_eq!(refusal, Refusal::TornEntry);
        let text = report.to_string();
        assert!(
            text.contains("qx 2600000 B dead, scales 320000 B alive"),
            "{text}"
        );
        assert!(text.contains("nvfp4_runtime.act_q_pool key 1"), "{text}");
        rig.increment(&rig.stream, entry.part(1)).unwrap();
    });
}

#[test]
fn an_entry_that_died_whole_is_stale_not_torn() {
    on_each(|rig| {
        let pool = open(rig, Bytes::mib(32));
        let entry = pool
            .take(&1, &[("qx", Bytes::mib(2)), ("rx", Bytes::mib(1))])
            .unwrap();
        rig.kill();
        assert_eq!(
            refused(rig.increment(&rig.stream, entry.part(1))).0,
            Refusal::StaleBuffer
        );
    });
}

#[test]
fn a_torn_entry_is_built_again_where_the_policy_says_so() {
    with(StalePolicy::Rebuild, |rig| {
        let pool = open(rig, Bytes::mib(32));
        take(&pool, 1);
        rig.kill();
        let entry = take(&pool, 1);
        assert!(entry.part(0).is_alive() && entry.part(1).is_alive());
        rig.increment(&rig.stream, entry.part(0)).unwrap();
        assert_eq!(rig.runtime.healed().entries, 1);
        assert_eq!(outcomes(rig), [TakeOutcome::Miss, TakeOutcome::Rebuilt]);
        take(&pool, 1);
        assert_eq!(rig.runtime.healed().entries, 1);
    });
}

#[test]
fn a_pool_without_room_gives_an_error_and_keeps_nothing_half_built() {
    on_each(|rig| {
        let pool = open(rig, Bytes::mib(32));
        let parts = [("qx", Bytes::mib(8)), ("scales", Bytes::mib(60))];
        assert!(pool.take(&1, &parts).is_err());
        assert_eq!(rig.held(), Bytes::ZERO);
        assert!(outcomes(rig).is_empty());
    });
}
