//! Captures, replays, and what they hold.

use std::cell::Cell;

use vramscope::base::Bytes;
use vramscope::device::Kind;
use vramscope::event::{Event, Refusal};
use vramscope::runtime::{GRAPH_CACHE_LIMIT, GraphCache, RuntimeError, StalePolicy};

use crate::rig::{FAULTY, Rig, on_each, refused, with};

#[test]
fn a_replay_does_what_was_captured() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes(4));
        rig.stream.upload(&buffer, &[1; 4]).unwrap();
        let twice = || {
            rig.increment(&rig.stream, &buffer)
                .and_then(|()| rig.increment(&rig.stream, &buffer))
        };
        let graph = rig.stream.capture("twice", twice).unwrap();
        let before = rig.download(&buffer);
        graph.replay().unwrap();
        graph.replay().unwrap();
        let after = rig.download(&buffer);
        if rig.kind == Kind::Host {
            assert_eq!(
                (before, after),
                (vec![1; 4], vec![5; 4]),
                "a capture runs nothing"
            );
        }
        let kinds = rig.kinds_of(|| drop(graph));
        assert_eq!(kinds[kinds.len() - 2..], ["GraphKernelTimed", "GraphDropped"]);
    });
}

#[test]
fn a_graph_holds_what_it_baked_until_it_is_dropped() {
    on_each(|rig| {
        let (buffer, inside) = (rig.allocate(Bytes(4096)), Cell::new(None));
        let graph = rig.stream.capture("holds", || {
            let temporary = rig.try_allocate(Bytes(512))?;
            inside.set(Some(temporary.id()));
            rig.increment(&rig.stream, &temporary)?;
            rig.increment(&rig.stream, &buffer)
        });
        let graph = graph.unwrap();
        assert!(!rig.runtime.would_free(&buffer));
        assert_eq!(rig.kinds_of(|| drop(buffer)), ["ReleaseRequested", "BufferHeld"]);
        assert_eq!(rig.held(), Bytes(4608), "the temporary one too");
        graph.replay().unwrap();
        let kinds = rig.kinds_of(|| drop(graph));
        assert_eq!(
            kinds.iter().filter(|kind| **kind == "ReleaseCompleted").count(),
            2
        );
        assert_eq!(kinds[0], "WorkCompleted", "the replay in flight is waited for");
        assert_eq!(rig.held(), Bytes::ZERO);
        assert!(inside.take().is_some());
    });
}

#[test]
fn a_stale_graph_is_refused_by_node_and_argument() {
    on_each(|rig| {
        let (small, large) = (rig.allocate(Bytes(16)), rig.allocate(Bytes::mib(1)));
        let work = || {
            rig.increment(&rig.stream, &small)?;
            rig.stream.copy(&small, &large, Bytes(16))
        };
        let graph = rig.stream.capture("forward", work).unwrap();
        graph.replay().unwrap();
        rig.kill();
        assert!(graph.is_stale());
        let kinds = rig.kinds_of(|| {
            let (refusal, report) = refused(graph.replay());
            assert_eq!(refusal, Refusal::StaleGraph);
            assert_eq!(report.graph, Some((graph.id().0, 1)));
            assert_eq!(
                (report.op.as_str(), report.argument.as_str()),
                ("forward", "memcpy.from")
            );
            assert!(report.to_string().contains("graph#0 `forward`"), "{report}");
        });
        assert!(!kinds.contains(&"GraphReplayed"));
    });
}

#[test]
fn an_allocation_in_a_capture_returns_no_memory_under_work_in_flight() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes::mib(40));
        for _ in 0..50 {
            rig.increment(&rig.stream, &buffer).unwrap();
        }
        drop(buffer);
        let graph = rig.stream.capture("large", || {
            let large = rig.try_allocate(Bytes::mib(60))?;
            rig.increment(&rig.stream, &large)
        });
        graph.unwrap().replay().unwrap();
    });
}

#[test]
fn a_failed_capture_leaves_no_graph_and_holds_nothing() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes(16));
        let result = rig.stream.capture("fails", || {
            rig.increment(&rig.stream, &buffer)?;
            rig.try_allocate(Bytes::ZERO).map(drop)
        });
        assert!(matches!(result.err(), Some(RuntimeError::ZeroBytes { .. })));
        assert!(rig.runtime.would_free(&buffer));
        rig.increment(&rig.stream, &buffer).unwrap();
        rig.stream.synchronize().unwrap();
    });
}

#[test]
fn a_capture_in_a_capture_and_an_upload_in_one_are_refused() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes(16));
        let graph = rig.stream.capture("outer", || {
            assert!(rig.stream.capture("inner", || Ok(())).is_err());
            assert!(rig.stream.upload(&buffer, &[0; 4]).is_err());
            assert!(rig.stream.download(&buffer, &mut [0; 4]).is_err());
            rig.increment(&rig.stream, &buffer)
        });
        graph.unwrap().replay().unwrap();
        rig.stream.synchronize().unwrap();
        let refuse = rig.purge(
            vramscope::plan::purge::Profile::Soft,
            vramscope::runtime::Busy::Refuse,
        );
        assert!(refuse.is_ok(), "nothing is in flight: {refuse:?}");
    });
}

#[test]
fn a_failure_met_while_a_graph_is_dropped_reaches_the_next_who_waits() {
    let rig = Rig::open(Kind::Host, Default::default());
    let buffer = rig.allocate(Bytes(16));
    let work = || rig.stream.call(&FAULTY).write("bytes", &buffer, 16).submit();
    let graph = rig.stream.capture("fails", work).unwrap();
    graph.replay().unwrap();
    drop(graph);
    assert!(rig.stream.synchronize().is_err());
    assert!(rig.stream.synchronize().is_ok(), "it is said once");
    rig.check();
}

#[test]
fn the_cache_keeps_32_graphs_and_the_least_recently_used_goes() {
    on_each(|rig| {
        let cache = GraphCache::open(&rig.runtime, "test.graphs");
        let buffer = rig.allocate(Bytes(16));
        let captures = Cell::new(0);
        let run = |key: usize| {
            let work = || {
                captures.set(captures.get() + 1);
                rig.increment(&rig.stream, &buffer)
            };
            cache.run(&rig.stream, &format!("key {key}"), work).unwrap();
        };
        (0..GRAPH_CACHE_LIMIT).for_each(run);
        run(0);
        assert_eq!(captures.get(), 32);
        run(32);
        let dropped = |event: &Event| matches!(event, Event::GraphDropped(dropped) if dropped.graph.0 == 1);
        assert!(
            rig.events().iter().any(dropped),
            "number 1 was the least recently used"
        );
        run(0);
        assert_eq!(captures.get(), 33);
        run(1);
        assert_eq!(captures.get(), 34);
    });
}

#[test]
fn the_cache_heals_a_stale_graph_where_the_policy_says_so() {
    fn run(rig: &Rig) -> Result<(), RuntimeError> {
        let cache = GraphCache::open(&rig.runtime, "test.graphs");
        let old = rig.allocate(Bytes::mib(1));
        cache.run(&rig.stream, "key", || rig.increment(&rig.stream, &old))?;
        rig.kill();
        let new = rig.allocate(Bytes::mib(1));
        cache.run(&rig.stream, "key", || rig.increment(&rig.stream, &new))
    }
    with(StalePolicy::Rebuild, |rig| {
        run(rig).unwrap();
        assert_eq!(rig.runtime.healed().graphs, 1);
    });
    with(StalePolicy::Error, |rig| {
        assert_eq!(refused(run(rig)).0, Refusal::StaleGraph);
        assert_eq!(rig.runtime.healed().graphs, 0);
    });
}
