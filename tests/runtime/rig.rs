//! A runtime on a device of either kind, and what it stated.

use std::sync::Arc;

use vramscope::base::clock::Clock;
use vramscope::base::{Bytes, OwnerId};
use vramscope::device::host::{HostConfig, HostDevice};
use vramscope::device::sim::{SimConfig, SimDevice, Truth};
use vramscope::device::{Device, HostArguments, Kernel, KernelFault, Kind};
use vramscope::event::{Event, MemoryLog, OwnerKind, Refusal, Stage};
use vramscope::ledger::Ledger;
use vramscope::plan::purge::Profile;
use vramscope::runtime::{
    Buffer, Busy, PurgeReport, PurgeRequest, RefusedUse, Runtime, RuntimeConfig, RuntimeError, StalePolicy,
    Stream,
};

/// Device memory of a rig, and pinned memory.
pub(crate) const VRAM: Bytes = Bytes::mib(64);

/// Adds one to each byte.
pub(crate) static INCREMENT: Kernel = Kernel {
    name: "increment",
    host: increment,
};

fn increment(arguments: &mut HostArguments<'_>) -> Result<(), KernelFault> {
    let bytes = arguments.write::<u8>(0)?;
    bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    Ok(())
}

/// Fails on the host, when its turn comes.
pub(crate) static FAULTY: Kernel = Kernel {
    name: "faulty",
    host: fail,
};

fn fail(_: &mut HostArguments<'_>) -> Result<(), KernelFault> {
    Err(KernelFault::Shape("it is made to fail".to_owned()))
}

pub(crate) struct Rig {
    pub(crate) runtime: Runtime,
    pub(crate) stream: Stream,
    pub(crate) other: Stream,
    pub(crate) owner: OwnerId,
    pub(crate) kind: Kind,
    log: Arc<MemoryLog>,
    clock: Clock,
    /// What is really so, where the device is simulated.
    truth: Option<Truth>,
}

impl Rig {
    pub(crate) fn open(kind: Kind, stale: StalePolicy) -> Rig {
        let clock = Clock::manual();
        let log = Arc::new(MemoryLog::new(clock.clone()));
        let config = RuntimeConfig {
            stale,
            ..RuntimeConfig::default()
        };
        let runtime = Runtime::new(config, log.clone());
        let (opened, truth) = device(kind, 0, &clock);
        let index = runtime.add_device(opened);
        let open = |name| runtime.open_stream(index, name).expect("a stream opens");
        let owner = runtime.own_passively("test.things", OwnerKind::Other, Stage::OwnerCaches);
        Rig {
            stream: open("main"),
            other: open("side"),
            owner,
            kind,
            log,
            clock,
            truth,
            runtime,
        }
    }

    /// A stream of a second device.
    pub(crate) fn second_device(&self) -> Stream {
        let (opened, _) = device(self.kind, 1, &self.clock);
        let index = self.runtime.add_device(opened);
        self.runtime.open_stream(index, "far").expect("a stream opens")
    }

    pub(crate) fn allocate(&self, bytes: Bytes) -> Buffer {
        self.try_allocate(bytes).expect("there is room")
    }

    pub(crate) fn try_allocate(&self, bytes: Bytes) -> Result<Buffer, RuntimeError> {
        self.runtime.allocate(&self.stream, self.owner, "a test", bytes)
    }

    /// Launches [`INCREMENT`] on all of a buffer.
    pub(crate) fn increment(&self, stream: &Stream, buffer: &Buffer) -> Result<(), RuntimeError> {
        let call = stream.call(&INCREMENT);
        call.write("bytes", buffer, buffer.bytes().0).submit()
    }

    pub(crate) fn download(&self, buffer: &Buffer) -> Vec<u8> {
        let mut bytes = vec![0; buffer.bytes().0 as usize];
        self.stream
            .download(buffer, &mut bytes)
            .expect("nothing fails here");
        bytes
    }

    pub(crate) fn purge(&self, profile: Profile, busy: Busy) -> Result<PurgeReport, RuntimeError> {
        self.runtime.purge(&PurgeRequest {
            profile,
            threshold: Bytes::mib(1),
            busy,
        })
    }

    /// Kills everything from 1 MiB on, and nothing else.
    pub(crate) fn kill(&self) -> PurgeReport {
        let stages = Profile::Custom(vec![Stage::StorageKill]);
        self.purge(stages, Busy::Wait).expect("a kill does not fail")
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.log
            .events()
            .into_iter()
            .map(|stamped| stamped.event)
            .collect()
    }

    /// Names of the kinds of events that `work` leads to.
    pub(crate) fn kinds_of(&self, work: impl FnOnce()) -> Vec<&'static str> {
        let from = self.events().len();
        work();
        self.events()[from..]
            .iter()
            .map(|event| event.info().name)
            .collect()
    }

    pub(crate) fn held(&self) -> Bytes {
        self.runtime.bytes_held().into_values().sum()
    }

    /// What the device itself counts as used.
    pub(crate) fn used(&self) -> Bytes {
        self.runtime
            .bytes_reserved()
            .into_values()
            .map(|(_, used)| used)
            .sum()
    }

    /// The ledger of all that was stated fits the books and has nothing odd in it, and no work touched memory
    /// that went back.
    pub(crate) fn check(&self) {
        if let Some(truth) = &self.truth {
            assert_eq!(truth.violations(), []);
        }
        let mut ledger = Ledger::default();
        self.log.events().iter().for_each(|stamped| ledger.apply(stamped));
        assert_eq!(ledger.anomalies().total(), 0, "{:?}", ledger.anomalies());
        for (device, (segments, used)) in self.runtime.bytes_reserved() {
            let accounts = ledger.device(device);
            assert_eq!(accounts.reserved(), i128::from(segments.0));
            assert_eq!(accounts.given(), i128::from(used.0));
        }
    }
}

fn device(kind: Kind, index: u32, clock: &Clock) -> (Box<dyn Device>, Option<Truth>) {
    match kind {
        Kind::Host => {
            let config = HostConfig {
                index,
                vram: VRAM,
                pinned: VRAM,
            };
            let opened = HostDevice::open(config, clock.clone());
            (Box::new(opened.expect("there is address space")), None)
        }
        _ => {
            let config = SimConfig {
                index,
                ..SimConfig::of(VRAM)
            };
            let device = SimDevice::open(config, u64::from(index), clock.clone());
            let truth = device.truth();
            (Box::new(device), Some(truth))
        }
    }
}

/// Runs a promise on a fresh rig of each kind, then holds the ledger against the books.
pub(crate) fn on_each(promise: fn(&Rig)) {
    with(StalePolicy::Error, promise);
}

pub(crate) fn with(stale: StalePolicy, promise: fn(&Rig)) {
    for kind in [Kind::Host, Kind::Sim] {
        let rig = Rig::open(kind, stale);
        promise(&rig);
        rig.check();
    }
}

/// The refusal in a result that must be one.
pub(crate) fn refused<T>(result: Result<T, RuntimeError>) -> (Refusal, RefusedUse) {
    match result.err() {
        Some(RuntimeError::Refused(refused)) => (refused.refusal, *refused),
        other => panic!("{other:?} is no refusal"),
    }
}
