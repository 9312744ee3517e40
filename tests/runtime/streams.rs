//! Work in flight, and releases that wait for it.

use vramscope::base::Bytes;
use vramscope::device::{DeviceError, Kind};
use vramscope::runtime::RuntimeError;

use crate::rig::{FAULTY, Rig, on_each};

#[test]
fn a_release_waits_for_the_other_stream_that_used_the_buffer() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes(4096));
        rig.increment(&rig.other, &buffer).unwrap();
        assert!(
            !rig.runtime.would_free(&buffer),
            "the other stream may still use it"
        );
        let kinds = rig.kinds_of(|| drop(buffer));
        assert_eq!(kinds, ["ReleaseRequested"]);
        assert_eq!(rig.held(), Bytes(4096));
        let kinds = rig.kinds_of(|| rig.other.synchronize().unwrap());
        assert_eq!(kinds, ["WorkCompleted", "ReleaseCompleted"]);
        assert_eq!(rig.held(), Bytes::ZERO);
    });
}

#[test]
fn a_release_on_its_own_stream_does_not_wait() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes(4096));
        rig.increment(&rig.stream, &buffer).unwrap();
        let kinds = rig.kinds_of(|| drop(buffer));
        assert_eq!(kinds, ["ReleaseRequested", "ReleaseCompleted"]);
    });
}

#[test]
fn an_allocation_notices_what_is_done_without_waiting() {
    let rig = Rig::open(Kind::Sim, Default::default());
    let buffer = rig.allocate(Bytes(4096));
    rig.increment(&rig.other, &buffer).unwrap();
    drop(buffer);
    // Time passes on the device while another stream is waited for.
    let busy = rig.allocate(Bytes(4096));
    for _ in 0..50 {
        rig.increment(&rig.stream, &busy).unwrap();
    }
    rig.stream.synchronize().unwrap();
    drop(rig.allocate(Bytes(16)));
    assert_eq!(rig.held(), Bytes(4096), "only the busy one is left");
    rig.check();
}

#[test]
fn a_stream_waits_for_another() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes(4));
        rig.stream.upload(&buffer, &[1; 4]).unwrap();
        rig.other.wait_for(&rig.stream).unwrap();
        rig.increment(&rig.other, &buffer).unwrap();
        rig.stream.wait_for(&rig.other).unwrap();
        let bytes = rig.download(&buffer);
        assert!(rig.kind != Kind::Host || bytes == [2; 4]);
        let far = rig.second_device();
        rig.increment(&rig.stream, &buffer).unwrap();
        let kinds = rig.kinds_of(|| far.wait_for(&rig.stream).unwrap());
        assert_eq!(kinds, ["WorkCompleted"], "between devices the caller waits");
    });
}

#[test]
fn work_that_is_given_up_is_done_with() {
    let rig = Rig::open(Kind::Host, Default::default());
    let buffer = rig.allocate(Bytes(4));
    let call = rig.stream.call(&FAULTY);
    call.write("bytes", &buffer, 4).submit().unwrap();
    rig.increment(&rig.stream, &buffer).unwrap();
    rig.other.wait_for(&rig.stream).unwrap();
    rig.increment(&rig.other, &buffer).unwrap();
    let error = rig.other.synchronize().unwrap_err();
    assert!(
        matches!(
            error,
            RuntimeError::Device(DeviceError::Kernel { op: "faulty", .. })
        ),
        "{error:?}"
    );
    let kinds = rig.kinds_of(|| drop(buffer));
    assert_eq!(
        kinds,
        ["ReleaseRequested", "ReleaseCompleted"],
        "nothing is in flight"
    );
    rig.stream.synchronize().unwrap();
    rig.check();
}
