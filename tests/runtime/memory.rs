//! Allocation, release, reuse, exhaustion.

use vramscope::base::Bytes;
use vramscope::device::Kind;
use vramscope::event::{Event, Refusal};
use vramscope::runtime::RuntimeError;

use crate::rig::{Rig, VRAM, on_each, refused};

#[test]
fn released_storage_is_used_again_in_its_streams_order() {
    on_each(|rig| {
        let first = rig.allocate(Bytes(1000));
        let (id, generation) = (first.id(), first.generation());
        assert_eq!(rig.held(), Bytes(1024), "rounded to 512 bytes");
        drop(first);
        assert_eq!(rig.held(), Bytes::ZERO);
        let again = rig.kinds_of(|| {
            let second = rig.allocate(Bytes(800));
            assert_eq!(second.id(), id);
            assert_ne!(second.generation(), generation);
        });
        assert_eq!(again[..1], ["BufferAllocated"], "no segment is reserved for it");
        let elsewhere = rig.kinds_of(|| {
            let far = rig.runtime.allocate(&rig.other, rig.owner, "a test", Bytes(800));
            assert!(far.is_ok());
        });
        assert!(
            elsewhere.contains(&"SegmentReserved"),
            "another stream's order is not ours"
        );
    });
}

#[test]
fn data_moves() {
    on_each(|rig| {
        let (a, b) = (rig.allocate(Bytes(4)), rig.allocate(Bytes(4)));
        let pinned = rig
            .runtime
            .allocate_pinned(&rig.stream, rig.owner, "a test", Bytes(4))
            .unwrap();
        rig.stream.upload(&pinned, &[1, 2, 3, 255]).unwrap();
        rig.stream.copy(&a, &pinned, Bytes(4)).unwrap();
        rig.increment(&rig.stream, &a).unwrap();
        rig.stream.copy(&b, &a, Bytes(3)).unwrap();
        let (a, b) = (rig.download(&a), rig.download(&b));
        if rig.kind == Kind::Host {
            assert_eq!((a, &b[..3]), (vec![2, 3, 4, 0], &[2, 3, 4][..]));
        }
    });
}

#[test]
fn a_request_for_nothing_is_an_error() {
    on_each(|rig| {
        let error = rig.try_allocate(Bytes::ZERO).unwrap_err();
        assert!(matches!(error, RuntimeError::ZeroBytes { .. }));
        assert_eq!(error.to_string(), "test.things asked for 0 bytes for a test");
    });
}

#[test]
fn an_allocation_fails_after_one_retry_and_says_what_there_is() {
    on_each(|rig| {
        let mut kept: Vec<_> = (0..3).map(|_| rig.allocate(Bytes::mib(16))).collect();
        kept.remove(1);
        let kinds = rig.kinds_of(|| {
            let Err(RuntimeError::OutOfMemory(report)) = rig.try_allocate(Bytes::mib(33)) else {
                panic!("there is no room for that");
            };
            assert_eq!(report.need, Bytes::mib(33));
            assert_eq!((report.free, report.total), (Bytes::mib(32), VRAM));
            assert_eq!(report.returned, Bytes::mib(16), "the cached segment went back");
            assert_eq!((report.cached, report.largest), (Bytes::ZERO, Bytes::ZERO));
        });
        let tail = ["SegmentReturned", "AllocRetried", "AllocFailed"];
        assert_eq!(kinds, tail);
    });
}

#[test]
fn free_blocks_in_pinned_segments_are_named() {
    on_each(|rig| {
        let mut small: Vec<_> = (0..2).map(|_| rig.allocate(Bytes::mib(6))).collect();
        let _large: Vec<_> = (0..2).map(|_| rig.allocate(Bytes::mib(16))).collect();
        small.remove(0);
        let Err(RuntimeError::OutOfMemory(report)) = rig.try_allocate(Bytes::mib(15)) else {
            panic!("there is no room for that");
        };
        assert_eq!((report.free, report.returned), (Bytes::mib(12), Bytes::ZERO));
        assert_eq!(
            (report.cached, report.largest),
            (Bytes::mib(14), Bytes::mib(8)),
            "6 MiB before and 8 MiB after what pins the segment"
        );
    });
}

#[test]
fn an_allocation_goes_through_after_a_retry_where_cached_segments_suffice() {
    on_each(|rig| {
        let parts: Vec<_> = (0..4).map(|_| rig.allocate(Bytes::mib(16))).collect();
        drop(parts);
        let kinds = rig.kinds_of(|| {
            let whole = rig.allocate(Bytes::mib(60));
            assert!(whole.is_alive());
        });
        let count = |name| kinds.iter().filter(|kind| **kind == name).count();
        assert_eq!(
            (
                count("SegmentReturned"),
                count("AllocRetried"),
                count("AllocFailed")
            ),
            (4, 1, 0)
        );
    });
}

#[test]
fn an_absurd_request_is_out_of_memory() {
    on_each(|rig| {
        for bytes in [1 << 40, 1 << 63, u64::MAX - 511, u64::MAX] {
            let error = rig.try_allocate(Bytes(bytes)).unwrap_err();
            assert!(matches!(error, RuntimeError::OutOfMemory(_)), "{error:?}");
        }
    });
}

#[test]
fn the_wrong_device_is_refused_before_the_driver() {
    on_each(|rig| {
        let (far, near) = (rig.second_device(), rig.allocate(Bytes(16)));
        let pinned = rig
            .runtime
            .allocate_pinned(&rig.stream, rig.owner, "a test", Bytes(16))
            .unwrap();
        let kinds = rig.kinds_of(|| {
            let (refusal, report) = refused(rig.increment(&far, &near));
            assert_eq!(refusal, Refusal::WrongDevice);
            assert_ne!(report.device_needed, report.device_found);
            assert_eq!(
                refused(far.copy(&near, &pinned, Bytes(4))).0,
                Refusal::WrongDevice
            );
            assert_eq!(
                refused(rig.increment(&rig.stream, &pinned)).0,
                Refusal::WrongDevice
            );
        });
        assert!(!kinds.contains(&"KernelLaunched") && !kinds.contains(&"CopyIssued"));
        assert_eq!(kinds.iter().filter(|kind| **kind == "AccessRefused").count(), 3);
    });
}

#[test]
fn too_small_a_buffer_is_refused_before_the_driver() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes(16));
        let call = rig.stream.call(&crate::rig::INCREMENT);
        let (refusal, report) = refused(call.write("bytes", &buffer, 17).submit());
        assert_eq!(refusal, Refusal::TooSmall);
        assert_eq!((report.bytes_needed, report.bytes_found), (Bytes(17), Bytes(16)));
        assert_eq!(refused(rig.stream.upload(&buffer, &[0; 17])).0, Refusal::TooSmall);
        assert!(
            !rig.events()
                .iter()
                .any(|event| matches!(event, Event::KernelLaunched(_)))
        );
    });
}

#[test]
fn a_handle_is_stale_after_a_kill_and_the_error_names_the_culprit() {
    on_each(|rig| {
        let (large, small) = (rig.allocate(Bytes::mib(2)), rig.allocate(Bytes::kib(4)));
        rig.kill();
        assert!(!large.is_alive() && small.is_alive());
        let (refusal, report) = refused(rig.increment(&rig.stream, &large));
        assert_eq!(refusal, Refusal::StaleBuffer);
        assert_eq!(
            (report.op.as_str(), report.argument.as_str()),
            ("increment", "bytes")
        );
        assert_eq!(report.found, report.expected.next());
        let killer = report.killer.as_ref().expect("a purge killed it");
        assert_eq!((killer.purge.0, killer.threshold), (1, Bytes::mib(1)));
        assert_eq!(killer.cleared_instead, None, "stage 2c did not run");
        let text = report.to_string();
        for line in [
            "killed by    purge#1 stage 3",
            "allocated by test.things for a test",
            "next step",
        ] {
            assert!(text.contains(line), "{text}");
        }
        rig.increment(&rig.stream, &small).unwrap();
    });
}

#[test]
fn a_failed_download_is_not_in_flight_for_ever() {
    let rig = Rig::open(Kind::Host, Default::default());
    let buffer = rig.allocate(Bytes(4));
    let call = rig.stream.call(&crate::rig::FAULTY);
    call.write("bytes", &buffer, 4).submit().unwrap();
    rig.increment(&rig.stream, &buffer).unwrap();
    assert!(rig.stream.download(&buffer, &mut [0; 4]).is_err());
    let report = rig.purge(
        vramscope::plan::purge::Profile::Soft,
        vramscope::runtime::Busy::Refuse,
    );
    assert!(report.is_ok(), "{report:?}");
    rig.check();
}
