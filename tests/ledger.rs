//! Properties of the fold.

mod common;

use common::reference::Reference;
use common::script;
use proptest::prelude::*;
use vramscope::base::{
    BufferId, DeviceId, EntryId, Generation, GraphId, Nanos, OwnerId, PoolId, PurgeId, Seq,
};
use vramscope::event::{Direction, GapCause, Outcome, Phase, Refusal, Stage, Stamped};
use vramscope::ledger::{Account, Buffer, Ledger, State, Vitality, Why, limits};

fn fold(events: &[Stamped]) -> Ledger {
    script::fold(events)
}

/// Accounts sum to zero, and only the driver owes.
fn balanced(ledger: &Ledger) -> bool {
    use Account::{Cached, Context, Held, Live, Pending, Slack};
    let all = [Cached, Context, Held, Live, Pending, Slack];
    let mut devices = ledger.memory().devices().iter();
    devices.all(|(_, device)| {
        let accounts = &device.accounts;
        accounts.sum() == 0 && all.iter().all(|account| accounts.get(*account) >= 0)
    })
}

/// Holds the ledger against the reference.
fn agree(ledger: &Ledger, events: &[Stamped]) -> Result<(), TestCaseError> {
    use Account::{Cached, Context, Held, Live, Pending, Slack};
    let reference = Reference::new(events);
    for (device, want) in reference.balances() {
        let accounts = ledger.device(device);
        let got = [Cached, Live, Slack, Pending, Held, Context].map(|account| accounts.get(account));
        prop_assert_eq!(got, want, "{}", device);
    }
    prop_assert_eq!(ledger.live_by_owner(), reference.live_by_owner());
    let entries = ledger.pools().entries().iter();
    let entries = entries.map(|(id, entry)| (*id, entry.vitality(ledger.memory())));
    prop_assert_eq!(
        entries.collect::<std::collections::BTreeMap<_, _>>(),
        reference.entries(events)
    );
    let graphs = ledger.graphs().graphs().iter();
    let graphs = graphs.map(|(id, graph)| (*id, graph.stale(ledger.memory()).count()));
    prop_assert_eq!(
        graphs.collect::<std::collections::BTreeMap<_, _>>(),
        reference.graphs(events)
    );
    Ok(())
}

/// Sums that are kept equal what counting gives.
fn sums_agree(ledger: &Ledger) -> Result<(), TestCaseError> {
    let memory = ledger.memory();
    for (id, owner) in memory.owners().iter() {
        let buffers: Vec<_> = memory.buffers().filter(|(_, _, b)| b.owner == id).collect();
        let live = |b: &Buffer| b.state == State::Live;
        let sum: i128 = buffers
            .iter()
            .filter(|(_, _, b)| live(b))
            .map(|(_, _, b)| i128::from(b.requested.0))
            .sum();
        let retained: i128 = buffers
            .iter()
            .filter(|(_, _, b)| !live(b))
            .map(|(_, _, b)| b.size())
            .sum();
        prop_assert_eq!(
            (owner.live, owner.retained, owner.buffers),
            (sum, retained, buffers.len() as u64)
        );
    }
    let inside = ledger.buffers_by_segment();
    for (id, segment) in memory.segments() {
        let buffers = inside.get(id).map_or(&[][..], Vec::as_slice);
        let used: i128 = buffers.iter().map(|(_, b)| b.size()).sum();
        prop_assert_eq!((segment.used, segment.buffers), (used, buffers.len() as u64));
    }
    for (id, pool) in ledger.pools().pools() {
        let entries = ledger
            .pools()
            .entries()
            .values()
            .filter(|entry| entry.pool == *id);
        let bytes: i128 = entries
            .clone()
            .flat_map(|entry| &entry.parts)
            .map(|part| part.bytes)
            .sum();
        prop_assert_eq!((pool.entries, pool.bytes), (entries.count() as u64, bytes));
        prop_assert!(pool.bytes_peak >= pool.bytes);
    }
    for (id, slot) in memory.slots() {
        let baked = ledger.graphs().graphs().values().flat_map(|graph| &graph.baked);
        let reached = baked.filter(|b| b.buffer == id && memory.reaches(id, b.generation, b.mark.seq));
        prop_assert_eq!(slot.graphs as usize, reached.count());
    }
    Ok(())
}

/// The same events at other times.
fn shifted(events: &[Stamped], by: u64) -> Vec<Stamped> {
    let shift = |stamped: &Stamped| Stamped {
        at: Nanos(stamped.at.0.saturating_mul(3).saturating_add(by)),
        ..stamped.clone()
    };
    events.iter().map(shift).collect()
}

proptest! {
    #[test]
    fn any_sequence_folds_and_balances(seed in any::<u64>(), count in 0u64..200) {
        let mut ledger = Ledger::default();
        for event in common::events(seed, count) {
            ledger.apply(&event);
            prop_assert!(balanced(&ledger));
        }
        prop_assert_eq!(ledger.run().events(), count);
        let _ = (ledger.digest(), ledger.census(), ledger.free_space());
    }

    #[test]
    fn events_that_meet_give_what_the_reference_says(seed in any::<u64>(), count in 0u64..120) {
        let events = common::crowded(seed, count);
        let mut ledger = Ledger::default();
        let mut peaks = std::collections::BTreeMap::<DeviceId, (i128, i128)>::new();
        for (n, event) in events.iter().enumerate() {
            ledger.apply(event);
            prop_assert!(balanced(&ledger));
            agree(&ledger, &events[..=n])?;
            sums_agree(&ledger)?;
            for (device, [cached, live, slack, pending, held, _]) in Reference::new(&events[..=n]).balances() {
                let peak = peaks.entry(device).or_default();
                *peak = (peak.0.max(cached + live + slack + pending + held), peak.1.max(live));
            }
        }
        for (id, device) in ledger.memory().devices().iter() {
            let want = peaks.get(&id).copied().unwrap_or_default();
            prop_assert_eq!((device.reserved_peak, device.live_peak), want);
        }
    }

    #[test]
    fn a_plausible_run_has_no_anomaly(seed in any::<u64>(), count in 0usize..400, cut in 0usize..400) {
        let events = common::plausible::run(seed, count);
        let ledger = fold(&events);
        prop_assert_eq!(ledger.anomalies().iter().next(), None);
        agree(&ledger, &events)?;
        sums_agree(&ledger)?;
        let cut = cut.min(events.len());
        agree(&fold(&events[..cut]), &events[..cut])?;
    }

    #[test]
    fn a_split_fold_equals_the_whole(seed in any::<u64>(), cut in 0usize..200, plausible in any::<bool>()) {
        let events = if plausible { common::plausible::run(seed, 200) } else { common::crowded(seed, 200) };
        let cut = cut.min(events.len());
        let mut split = fold(&events[..cut]).clone();
        events[cut..].iter().for_each(|event| split.apply(event));
        prop_assert_eq!(&split, &fold(&events));
        prop_assert_eq!(split.digest(), fold(&events).digest());
    }

    #[test]
    fn times_do_not_show_in_the_digest(seed in any::<u64>(), by in any::<u64>()) {
        for events in [common::events(seed, 100), common::crowded(seed, 100), common::plausible::run(seed, 100)] {
            prop_assert_eq!(fold(&shifted(&events, by)).digest(), fold(&events).digest());
        }
    }
}

const LIFE: [&str; 5] = [
    "SegmentReserved device=0 segment=0 stream=0 bytes=100",
    "BufferAllocated buffer=0 generation=0 segment=0 offset=0 requested=30 slack=10 stream=0 owner=0 site=0",
    "ReleaseRequested buffer=0 generation=0 cause=dropped",
    "BufferHeld buffer=0 generation=0 graph=3",
    "ReleaseCompleted buffer=0 generation=0",
];

#[test]
fn a_life_moves_bytes_and_a_missing_event_shows() {
    let expect = [
        (100, 0, 0, 0, 0),
        (60, 30, 10, 0, 0),
        (60, 0, 0, 40, 0),
        (60, 0, 0, 0, 40),
        (100, 0, 0, 0, 0),
    ];
    for (i, want) in expect.iter().enumerate() {
        let ledger = fold(&script::events(&LIFE[..=i].join("\n")));
        let accounts = ledger.device(DeviceId(0));
        use Account::{Cached, Held, Live, Pending, Slack};
        let [c, l, s, p, h] = [Cached, Live, Slack, Pending, Held].map(|x| accounts.get(x));
        assert_eq!((c, l, s, p, h), *want);
        assert_eq!(ledger.anomalies().total(), 0);
    }
    for left_out in 0..2 {
        let mut some = LIFE.to_vec();
        some.remove(left_out);
        assert!(fold(&script::events(&some.join("\n"))).anomalies().total() > 0);
    }
}

#[test]
fn retained_bytes_stay_with_their_owner_until_the_release_is_complete() {
    let ledger = fold(&script::events(&LIFE[..4].join("\n")));
    let owner = ledger.memory().owners().get(OwnerId(0)).expect("it allocated");
    assert_eq!((owner.live, owner.live_peak, owner.retained), (0, 30, 40));
    let buffer = ledger.memory().storage(BufferId(0), Generation(0)).expect("held");
    assert_eq!((buffer.state, buffer.held_by), (State::Held, Some(GraphId(3))));
    assert_eq!(buffer.release.map(|(_, mark)| mark.seq), Some(Seq(2)));
}

/// A pool entry of two parts; a purge kills one; the use is refused; a graph baked it too.
const INCIDENT: &str = r#"
NameDefined name=0 text="nvfp4_runtime.act_q_pool"
NameDefined name=1 text="qx"
NameDefined name=2 text="scales"
NameDefined name=3 text="64x64"
NameDefined name=4 text="full"
OwnerRegistered owner=7 name=0 kind=pool cleared_by=2c
SegmentReserved device=0 segment=0 stream=0 bytes=4096
PoolOpened pool=1 owner=7 stream=0 limit=9999
PoolTaken pool=1 entry=5 outcome=miss
BufferAllocated buffer=0 generation=4 segment=0 offset=0 requested=2048 slack=0 stream=0 owner=7 site=1
BufferAllocated buffer=1 generation=0 segment=0 offset=2048 requested=256 slack=0 stream=0 owner=7 site=2
EntryAdded pool=1 entry=5 key=3
EntryPartSet entry=5 part=1 buffer=0 generation=4
EntryPartSet entry=5 part=2 buffer=1 generation=0
CaptureBegan graph=2 stream=0 key=3
GraphBaked graph=2 buffer=0 generation=4 node=17 argument=1
CaptureEnded graph=2 nodes=20 outcome=complete
GraphReplayed graph=2 launch=0
PurgeBegan purge=1 profile=4 threshold=1024 in_flight=1
StageBegan purge=1 stage=3
BufferKilled buffer=0 generation=4 purge=1 stage=3
StageEnded purge=1 stage=3 device=0 claimed=2048 allocator_before=2304 allocator_after=256 device_before=4096 device_after=4096
PurgeEnded purge=1 outcome=complete
PoolTaken pool=1 entry=5 outcome=hit
AccessRefused refusal=TornEntry op=0 argument=1 buffer=0 expected=4 found=5 owner=7 graph=- purge=1
AccessRefused refusal=StaleGraph op=3 argument=1 buffer=0 expected=4 found=5 owner=7 graph=2 purge=1
"#;

#[test]
fn a_refusal_keeps_what_was_known_then() {
    let events = script::events(INCIDENT);
    let mut ledger = fold(&events);
    assert_eq!(ledger.anomalies().iter().next(), None);
    let entry = &ledger.pools().entries()[&EntryId(5)];
    assert_eq!(entry.vitality(ledger.memory()), Vitality::Torn);
    let census = ledger.census()[&PoolId(1)];
    assert_eq!(
        (census.torn, census.bytes_alive, census.bytes_gone),
        (1, 256, 2048)
    );
    let obituary = ledger
        .obituary(BufferId(0), Generation(4))
        .expect("it was killed");
    assert_eq!((obituary.entry, obituary.graphs), (Some(EntryId(5)), 1));
    assert_eq!(ledger.graphs_of(BufferId(0), Generation(4)), [GraphId(2)]);
    assert!(ledger.graphs().graphs()[&GraphId(2)].is_stale(ledger.memory()));

    let text = "@26 EntryDropped entry=5 cause=stale\nGraphDropped graph=2 cause=stale";
    script::events(text).iter().for_each(|event| ledger.apply(event));
    let [torn, graph] = ledger.refusals().kept() else {
        panic!("two uses were refused")
    };
    let then = torn.entry.as_ref().expect("the entry was there");
    assert_eq!((then.id, then.alive.as_slice()), (EntryId(5), &[false, true][..]));
    let obituary = torn.obituary.expect("it was killed");
    assert_eq!((obituary.purge, obituary.stage), (PurgeId(1), Stage::StorageKill));
    let then = graph.graph_then.expect("the graph was there");
    assert_eq!((then.stale, then.replays), (1, 1));
    assert_eq!(then.baked.map(|baked| baked.node), Some(17));
    assert_eq!(ledger.refusals().total(Refusal::StaleGraph), 1);
}

#[test]
fn a_purge_keeps_its_three_layers_apart() {
    let ledger = fold(&script::events(INCIDENT));
    let purge = &ledger.purges().purges()[&PurgeId(1)];
    assert_eq!(purge.killed(), (1, 2048));
    assert_eq!(purge.work.len(), 1);
    let [stage] = purge.stages.as_slice() else {
        panic!("one stage ran")
    };
    let layers = stage.layers[0];
    assert_eq!(
        (layers.claimed.0, layers.allocator_freed(), layers.device_freed()),
        (2048, 2048, 0)
    );
    assert!(
        purge
            .ended
            .is_some_and(|(outcome, _)| outcome == Outcome::Complete)
    );
}

#[test]
fn a_slot_that_is_used_again_does_not_revive_an_old_entry() {
    let text = INCIDENT.replace(
        "PurgeEnded purge=1 outcome=complete",
        "BufferAllocated buffer=0 generation=5 segment=0 offset=0 requested=9 slack=0 stream=0 owner=7 site=1",
    );
    let ledger = fold(&script::events(&text));
    let entry = &ledger.pools().entries()[&EntryId(5)];
    assert_eq!(entry.vitality(ledger.memory()), Vitality::Torn);
    let slot = ledger.memory().slot(BufferId(0)).expect("in use again");
    assert_eq!((slot.entry, slot.graphs), (None, 0));
}

#[test]
fn the_digest_shows_a_change() {
    let digest = |text: &str| fold(&script::events(text)).digest();
    let whole = digest(INCIDENT);
    assert_eq!(whole, digest(INCIDENT));
    for (from, to) in [
        ("requested=256", "requested=257"),
        ("owner=7 site=2", "owner=6 site=2"),
        ("text=\"qx\"", "text=\"qy\""),
        ("cleared_by=2c", "cleared_by=1"),
        ("limit=9999", "limit=9998"),
        ("outcome=hit", "outcome=miss"),
        ("node=17", "node=18"),
        ("launch=0", "launch=1"),
        ("in_flight=1", "in_flight=2"),
        ("device_after=4096", "device_after=4095"),
        ("purge=1 outcome=complete", "purge=1 outcome=partial"),
        ("refusal=TornEntry", "refusal=StaleBuffer"),
        ("found=5 owner=7 graph=2", "found=6 owner=7 graph=2"),
    ] {
        assert_ne!(digest(&INCIDENT.replace(from, to)), whole, "{from} -> {to}");
    }
}

/// The digest is part of the file format: it must be the same on every machine and in every build.
#[test]
fn the_digest_of_a_known_trace_is_known() {
    assert_eq!(fold(&script::events(INCIDENT)).digest(), 68060088024629643);
}

#[test]
fn numbers_that_a_ring_wrote_over_are_no_anomaly() {
    let folds = |text: &str| fold(&script::events(text));
    for own in [0, 4999, 5000] {
        let ring = format!("@{own} Gap lost=5000 cause=ring\n@5000 RunEnded outcome=complete");
        let ledger = folds(&ring);
        assert_eq!(ledger.anomalies().iter().next(), None, "gap at {own}");
        assert_eq!(ledger.run().lost(GapCause::RingOverwritten), 5000);
    }
    let parts = "Gap lost=50 cause=ring\n@20 RunEnded outcome=complete\n@51 Gap lost=1 cause=pressure";
    assert_eq!(folds(parts).anomalies().total(), 0);
    let far = "Gap lost=50 cause=ring\n@60 RunEnded outcome=complete";
    let hole = folds(far).anomalies().iter().next().map(|anomaly| anomaly.why);
    assert_eq!(hole, Some(Why::SeqHole));
    let pressure = "Gap lost=50 cause=pressure\n@50 RunEnded outcome=complete";
    assert_eq!(folds(pressure).anomalies().total(), 1);
}

#[test]
fn work_is_timed_and_a_gap_makes_its_fate_unknown() {
    let text = r#"
        NameDefined name=0 text="gemm"
        KernelLaunched launch=1 kernel=0 stream=0 uses=[]
        KernelLaunched launch=2 kernel=0 stream=0 uses=[]
        CopyIssued launch=3 direction=h2d bytes=100 uses=[] stream=0
        WorkCompleted launch=1 took=50
        WorkCompleted launch=3 took=7
        WorkCompleted launch=9 took=7
        QuantizeCounted kernel=0 blocks=10 saturated=1 flushed=2 nan=0
        Gap lost=4 cause=pressure
    "#;
    let ledger = fold(&script::events(text));
    let (_, kernel) = ledger.launches().kernels().next().expect("one kernel ran");
    assert_eq!(
        (
            kernel.launches.count,
            kernel.launches.timed,
            kernel.launches.total
        ),
        (2, 1, Nanos(50))
    );
    assert_eq!(kernel.quantized.blocks, 10);
    let copies = ledger.launches().copies(Direction::HostToDevice);
    assert_eq!((copies.bytes.0, copies.issued.longest), (100, Nanos(7)));
    assert_eq!(
        (ledger.launches().unmatched(), ledger.launches().fate_unknown()),
        (1, 1)
    );
    assert_eq!(ledger.anomalies().total(), 0);
}

#[test]
fn prompts_and_their_phases_have_times() {
    let text = "
        PromptBegan prompt=1 tokens=12
        PhaseEnded prompt=1 phase=prefill tokens=12
        PhaseEnded prompt=1 phase=decode tokens=3
        PromptEnded prompt=1 outcome=complete
        RunEnded outcome=complete
    ";
    let ledger = fold(&script::events(text));
    let prompt = ledger.run().prompts().values().next().expect("one prompt");
    let phases: Vec<_> = prompt
        .phases
        .iter()
        .map(|p| (p.phase, p.tokens, p.took))
        .collect();
    let expect = [(Phase::Prefill, 12, Nanos(1000)), (Phase::Decode, 3, Nanos(1000))];
    assert_eq!(phases, expect);
    assert_eq!(
        ledger.run().ended().map(|(outcome, _)| outcome),
        Some(Outcome::Complete)
    );
}

#[test]
fn a_reading_stands_beside_the_books() {
    let text = "
        DeviceOpened device=0 name=0 kind=cuda total=1000 context=10
        SegmentReserved device=0 segment=0 stream=0 bytes=100
        MeterRead meter=0 device=0 used=150 free=850
    ";
    let ledger = fold(&script::events(text));
    let reading = ledger.meters().readings().values().next().expect("one reading");
    assert_eq!((reading.booked, reading.residual()), (110, 40));
    assert_eq!(ledger.device(DeviceId(0)).reserved(), 100);
}

#[test]
fn a_lost_host_copy_says_how() {
    let text = "
        SegmentReserved device=1 segment=0 stream=0 bytes=100
        BufferAllocated buffer=0 generation=0 segment=0 offset=0 requested=30 slack=0 stream=0 owner=2 site=0
        ReloadSourceKept model=2 tensor=0 buffer=0 generation=0
        BufferKilled buffer=0 generation=0 purge=1 stage=0
    ";
    let ledger = fold(&script::events(text));
    let source = ledger.models().sources().values().next().expect("one source");
    let loss = source.lost.expect("it was killed");
    assert_eq!(
        (loss.bytes.0, loss.kill),
        (30, Some((PurgeId(1), Stage::PinPool)))
    );
}

#[test]
fn free_space_tells_empty_segments_from_pinned_ones() {
    let text = "
        SegmentReserved device=0 segment=0 stream=0 bytes=100
        SegmentReserved device=0 segment=1 stream=0 bytes=1000
        BufferAllocated buffer=0 generation=0 segment=1 offset=300 requested=100 slack=0 stream=0 owner=0 site=0
    ";
    let ledger = fold(&script::events(text));
    let space = ledger.free_space()[&DeviceId(0)];
    assert_eq!((space.segments, space.empty, space.empty_bytes), (2, 1, 100));
    assert_eq!((space.free, space.pinned, space.largest), (1000, 900, 600));
}

#[test]
fn what_is_too_much_is_counted() {
    let mut ledger = Ledger::default();
    let many = limits::ANOMALIES as u64 + 500;
    for seq in 0..many {
        let text = format!("@{seq} EntryDropped entry=1 cause=stale");
        script::events(&text).iter().for_each(|event| ledger.apply(event));
    }
    assert_eq!(ledger.anomalies().total(), many);
    assert_eq!(ledger.anomalies().iter().count(), limits::ANOMALIES);
}

#[test]
fn of_many_purges_prompts_and_kills_the_latest_are_kept() {
    let (mut ledger, mut seq) = (Ledger::default(), 0);
    let mut put = |text: &str| {
        let event = script::events(&format!("@{seq} {text}")).remove(0);
        seq += 1;
        ledger.apply(&event);
    };
    put("SegmentReserved device=0 segment=0 stream=0 bytes=100");
    let many = limits::KILLS as u64 + 10;
    for n in 0..many {
        if n < limits::PROMPTS as u64 + 5 {
            put(&format!("PromptBegan prompt={n} tokens=1"));
            put(&format!("PhaseEnded prompt={n} phase=decode tokens=2"));
            put(&format!("PurgeBegan purge={n} profile=0 threshold=0 in_flight=0"));
            put(&format!("StageBegan purge={n} stage=3"));
            put(&format!("PurgeEnded purge={n} outcome=complete"));
        }
        put(&format!(
            "BufferAllocated buffer=0 generation={n} segment=0 offset=0 requested=30 slack=0 stream=0 owner=0 site=0"
        ));
        put(&format!("BufferKilled buffer=0 generation={n} purge=1 stage=3"));
    }
    assert_eq!(ledger.anomalies().iter().next(), None);
    let (first, last) = (Generation(9), Generation(many as u32 - 1));
    assert!(ledger.obituary(BufferId(0), first).is_none() && ledger.obituary(BufferId(0), last).is_some());
    assert_eq!(
        (ledger.kills().total(), ledger.kills().iter().count()),
        (many, limits::KILLS)
    );
    let begun = limits::PROMPTS as u64 + 5;
    let run = ledger.run();
    assert_eq!(
        (run.prompts_begun(), run.prompts().len()),
        (begun, limits::PROMPTS)
    );
    assert_eq!(run.tokens(Phase::Decode).tokens, 2 * begun);
    let purges = ledger.purges();
    assert_eq!(purges.purges().len(), limits::PURGES);
    assert_eq!(purges.outcomes(Outcome::Complete), begun);
    assert_eq!(purges.forgotten(), begun - limits::PURGES as u64);
}

#[test]
fn details_of_a_purge_push_out_earlier_purges() {
    let (mut ledger, mut seq) = (Ledger::default(), 0);
    let mut put = |text: &str| {
        let event = script::events(&format!("@{seq} {text}")).remove(0);
        seq += 1;
        ledger.apply(&event);
    };
    put("PurgeBegan purge=1 profile=0 threshold=0 in_flight=0");
    put("StageBegan purge=1 stage=2c");
    put("PurgeBegan purge=2 profile=0 threshold=0 in_flight=0");
    put("StageBegan purge=2 stage=2c");
    for _ in 0..limits::PURGE_DETAILS {
        put("OwnerCleared purge=2 stage=2c owner=1 device=0 entries=1 bytes=1");
    }
    let purges = ledger.purges().purges();
    assert_eq!(purges.keys().copied().collect::<Vec<_>>(), [PurgeId(2)]);
    let purge = &purges[&PurgeId(2)];
    assert_eq!(
        (purge.stages[0].claims.len(), purge.left_out),
        (limits::PURGE_DETAILS - 1, 1)
    );
}
