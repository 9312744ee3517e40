//! Properties of the fold.

use proptest::prelude::*;
use vramscope::base::{
    BufferId, Bytes, DeviceId, Generation, GraphId, NameId, Nanos, OwnerId, PurgeId, SegmentId, Seq, StreamId,
};
use vramscope::event::{
    BufferAllocated, BufferHeld, BufferKilled, Event, ReleaseCause, ReleaseCompleted, ReleaseRequested,
    ReturnCause, SegmentReserved, SegmentReturned, Stage, Stamped,
};
use vramscope::ledger::{Account, Ledger};

fn event(kind: u8, id: u32, g: u32, bytes: u64) -> Event {
    let (buffer, generation, segment, stream) = (BufferId(id), Generation(g), SegmentId(id % 2), StreamId(0));
    match kind {
        0 => SegmentReserved {
            device: DeviceId(0),
            segment,
            stream,
            bytes: Bytes(bytes),
        }
        .into(),
        1 => SegmentReturned {
            segment,
            cause: ReturnCause::Purge,
        }
        .into(),
        2 => ReleaseRequested {
            buffer,
            generation,
            cause: ReleaseCause::Dropped,
        }
        .into(),
        3 => BufferHeld {
            buffer,
            generation,
            graph: GraphId(0),
        }
        .into(),
        4 => ReleaseCompleted { buffer, generation }.into(),
        5 => BufferKilled {
            buffer,
            generation,
            purge: PurgeId(1),
            stage: Stage::StorageKill,
        }
        .into(),
        _ => BufferAllocated {
            buffer,
            generation,
            segment,
            offset: Bytes(0),
            requested: Bytes(bytes),
            slack: Bytes(bytes / 3),
            stream,
            owner: OwnerId(0),
            site: NameId(0),
        }
        .into(),
    }
}

fn stamp(events: &[Event], step: u64) -> Vec<Stamped> {
    let at = |i: u64| Nanos(i.wrapping_mul(step));
    (0..)
        .zip(events)
        .map(|(i, e)| Stamped {
            seq: Seq(i),
            at: at(i),
            event: e.clone(),
        })
        .collect()
}

fn fold(events: &[Stamped]) -> Ledger {
    let mut ledger = Ledger::default();
    events.iter().for_each(|e| ledger.apply(e));
    ledger
}

fn balanced(ledger: &Ledger) -> bool {
    use Account::{Cached, Context, Held, Live, Pending, Slack};
    let none_owes = |a: &vramscope::ledger::Accounts| {
        [Cached, Context, Held, Live, Pending, Slack]
            .iter()
            .all(|x| a.get(*x) >= 0)
    };
    ledger
        .memory()
        .accounts
        .values()
        .all(|a| a.sum() == 0 && none_owes(a))
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let bytes = prop_oneof![9 => 0u64..4096, 1 => any::<u64>()];
    prop::collection::vec(
        (0u8..9, 0u32..4, 0u32..3, bytes).prop_map(|(k, i, g, b)| event(k, i, g, b)),
        0..80,
    )
}

proptest! {
    #[test]
    fn any_sequence_folds_and_balances(events in events(), cut in 0usize..80, step in any::<u64>()) {
        let stamped = stamp(&events, 1);
        let mut ledger = Ledger::default();
        for e in &stamped {
            ledger.apply(e);
            prop_assert!(balanced(&ledger));
        }
        let cut = cut.min(stamped.len());
        let mut split = fold(&stamped[..cut]).clone();
        stamped[cut..].iter().for_each(|e| split.apply(e));
        prop_assert_eq!(&split, &ledger);
        prop_assert_eq!(fold(&stamp(&events, step)).digest(), ledger.digest());
    }
}

#[test]
fn a_life_moves_bytes_and_a_missing_event_shows() {
    let all = [
        event(0, 0, 0, 100),
        event(6, 0, 0, 30),
        event(2, 0, 0, 0),
        event(3, 0, 0, 0),
        event(4, 0, 0, 0),
    ];
    let expect = [
        (100, 0, 0, 0, 0),
        (60, 30, 10, 0, 0),
        (60, 0, 0, 40, 0),
        (60, 0, 0, 0, 40),
        (100, 0, 0, 0, 0),
    ];
    for (i, want) in expect.iter().enumerate() {
        let a = fold(&stamp(&all[..=i], 1)).device(DeviceId(0));
        let got = [
            Account::Cached,
            Account::Live,
            Account::Slack,
            Account::Pending,
            Account::Held,
        ];
        let [c, l, s, p, h] = got.map(|x| a.get(x));
        assert_eq!((c, l, s, p, h), *want);
    }
    assert_eq!(fold(&stamp(&all, 1)).memory().anomalies.total(), 0);
    for left_out in 0..2 {
        let mut some = all.to_vec();
        some.remove(left_out);
        assert!(fold(&stamp(&some, 1)).memory().anomalies.total() > 0);
    }
}

#[test]
fn a_kill_moves_the_generation_on_and_keeps_an_obituary() {
    let all = [event(0, 0, 0, 100), event(6, 0, 0, 30), event(5, 0, 0, 0)];
    let ledger = fold(&stamp(&all, 1));
    let slot = &ledger.memory().slots[&BufferId(0)];
    assert_eq!(slot.generation, Generation(1));
    assert_eq!(slot.obituary.as_ref().map(|o| o.seq), Some(Seq(2)));
    assert_eq!(ledger.device(DeviceId(0)).get(Account::Cached), 100);
}
