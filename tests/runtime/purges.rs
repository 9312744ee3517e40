//! Purges: stages, order, work in flight, claims, survivors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use vramscope::base::{Bytes, OwnerId};
use vramscope::device::Kind;
use vramscope::event::{Event, Field, Holder, Outcome, OwnerKind, Stage};
use vramscope::plan::purge::Profile;
use vramscope::runtime::{
    Buffer, Busy, Claim, GraphCache, Owner, Pool, PurgeReport, Runtime, RuntimeError, Stream,
};

use crate::pools;
use crate::rig::{FAULTY, Rig, on_each};

/// Holds buffers until it is told to clear, and claims `extra` bytes more than it frees.
struct Shelf {
    runtime: Runtime,
    stream: Stream,
    id: OwnerId,
    buffers: Mutex<Vec<Buffer>>,
    flagged: AtomicBool,
    applied: AtomicBool,
    extra: Bytes,
}

impl Shelf {
    fn held(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.buffers.lock().expect("no clearing panics")
    }
}

impl Owner for Shelf {
    fn clear(&self) -> Vec<Claim> {
        let buffers = std::mem::take(&mut *self.held());
        let freed = buffers.iter().filter(|buffer| self.runtime.would_free(buffer));
        let bytes = freed.map(Buffer::bytes).sum::<Bytes>() + self.extra;
        vec![Claim {
            device: self.runtime.device_of(&self.stream),
            entries: buffers.len() as u64,
            bytes,
        }]
    }

    fn rearm(&self) -> u64 {
        u64::from(self.applied.swap(false, Ordering::Relaxed))
    }

    fn is_flagged(&self) -> bool {
        self.flagged.load(Ordering::Relaxed)
    }
}

fn shelf(rig: &Rig, name: &str, kind: OwnerKind, stage: Stage, extra: Bytes) -> Arc<Shelf> {
    rig.runtime.own(name, kind, stage, |id| Shelf {
        runtime: rig.runtime.clone(),
        stream: rig.stream.clone(),
        id,
        buffers: Mutex::default(),
        flagged: AtomicBool::new(false),
        applied: AtomicBool::new(false),
        extra,
    })
}

fn put(rig: &Rig, shelf: &Shelf, bytes: Bytes) {
    let buffer = rig
        .runtime
        .allocate(&rig.stream, shelf.id, "a shelf", bytes)
        .expect("there is room");
    shelf.held().push(buffer);
}

/// A model, a workspace, a pool and a cache of graphs that baked memory of each, registered so that the order
/// of their numbers is the wrong one.
struct Scene {
    model: Arc<Shelf>,
    workspace: Arc<Shelf>,
    pool: Arc<Pool<u32>>,
    graphs: Arc<GraphCache>,
}

impl Scene {
    fn open(rig: &Rig) -> Scene {
        let workspace = (OwnerKind::Workspace, Stage::OwnerCaches);
        let scene = Scene {
            model: shelf(
                rig,
                "model.weights",
                OwnerKind::Model,
                Stage::UnloadModels,
                Bytes::ZERO,
            ),
            workspace: shelf(
                rig,
                "gemm.cublas_workspaces",
                workspace.0,
                workspace.1,
                Bytes::ZERO,
            ),
            pool: pools::open(rig, Bytes::mib(32)),
            graphs: GraphCache::open(&rig.runtime, "nvfp4_runtime.graph_cache"),
        };
        scene.fill(rig);
        scene
    }

    fn fill(&self, rig: &Rig) {
        put(rig, &self.model, Bytes::mib(12));
        put(rig, &self.workspace, Bytes::kib(512));
        let parts = [("qx", Bytes(2_600_000)), ("scales", Bytes(320_000))];
        let entry = self.pool.take(&1, &parts).expect("there is room");
        let (model, workspace) = (self.model.held(), self.workspace.held());
        let all = [&model[0], &workspace[0], entry.part(0), entry.part(1)];
        let work = || {
            all.into_iter()
                .try_for_each(|buffer| rig.increment(&rig.stream, buffer))
        };
        self.graphs
            .run(&rig.stream, "forward", work)
            .expect("nothing is stale");
    }
}

/// So much work that some of it is in flight on either device.
fn keep_busy(rig: &Rig, buffer: &Buffer) {
    for _ in 0..50 {
        rig.increment(&rig.stream, buffer).expect("it is alive");
    }
}

fn outcomes(rig: &Rig) -> Vec<Outcome> {
    let outcome = |event: &Event| match event {
        Event::PurgeEnded(ended) => Some(ended.outcome),
        _ => None,
    };
    rig.events().iter().filter_map(outcome).collect()
}

/// For each stage that the log names, in order: the stage and what was cleared.
fn cleared(report: &PurgeReport) -> Vec<(&str, &str)> {
    report
        .log
        .iter()
        .filter(|text| text.contains(" cleared "))
        .filter_map(|text| {
            let mut words = text.split(' ').skip(1);
            let stage = words.next()?;
            Some((stage, words.nth(1)?))
        })
        .collect()
}

#[test]
fn each_profile_runs_its_stages_in_order() {
    on_each(|rig| {
        let scene = Scene::open(rig);
        scene.model.flagged.store(true, Ordering::Relaxed);
        for profile in Profile::NAMED {
            let from = rig.events().len();
            rig.purge(profile.clone(), Busy::Wait).unwrap();
            let began = rig.events()[from..]
                .to_vec()
                .into_iter()
                .filter_map(|event| match event {
                    Event::StageBegan(began) => Some(began.stage),
                    _ => None,
                });
            let planned: Vec<Stage> = profile.steps(true).iter().map(|step| step.stage).collect();
            assert_eq!(began.collect::<Vec<_>>(), planned, "{profile}");
        }
        assert_eq!(outcomes(rig).len(), 5);
    });
}

#[test]
fn graphs_go_before_pools_before_workspaces() {
    on_each(|rig| {
        let _scene = Scene::open(rig);
        let stages = Profile::Custom(vec![Stage::OwnerCaches]);
        let report = rig.purge(stages, Busy::Wait).unwrap();
        assert_eq!(
            cleared(&report),
            [
                ("2c", "nvfp4_runtime.graph_cache"),
                ("2c", "nvfp4_runtime.act_q_pool"),
                ("2c", "gemm.cublas_workspaces")
            ]
        );
        assert_eq!(report.stages[0].claimed, Bytes(2_600_000 + 320_000 + (512 << 10)));
    });
}

#[test]
fn graphs_that_baked_a_model_go_before_it_unless_a_released_bug_is_reproduced() {
    on_each(|rig| {
        let scene = Scene::open(rig);
        let report = rig.purge(Profile::Soft, Busy::Wait).unwrap();
        assert_eq!(
            cleared(&report),
            [("1", "nvfp4_runtime.graph_cache"), ("1", "model.weights")]
        );
        assert_eq!(report.outcome, Outcome::Complete);
        scene.fill(rig);
        let report = rig.purge(Profile::NoOwnerCaches, Busy::Wait).unwrap();
        assert_eq!(cleared(&report), [("1", "model.weights")]);
        let again = scene.graphs.run(&rig.stream, "forward", || Ok(()));
        assert!(
            matches!(again, Err(RuntimeError::Refused(_))),
            "the graph is left, and stale"
        );
        let report = rig.purge(Profile::KitchenOnly, Busy::Wait).unwrap();
        let workspaces = cleared(&report).into_iter().filter(|(stage, _)| *stage == "2c");
        let workspaces: Vec<&str> = workspaces.map(|(_, owner)| owner).collect();
        assert!(workspaces.contains(&"gemm.cublas_workspaces"));
        assert!(!workspaces.contains(&"nvfp4_runtime.act_q_pool"));
    });
}

#[test]
fn a_purge_refuses_while_work_is_in_flight() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes::mib(1));
        keep_busy(rig, &buffer);
        let result = rig.purge(Profile::Full, Busy::Refuse);
        assert!(
            matches!(result, Err(RuntimeError::PurgeRefused { in_flight: 1.., .. })),
            "{result:?}"
        );
        assert!(buffer.is_alive());
        rig.stream.synchronize().unwrap();
        rig.purge(Profile::Full, Busy::Refuse).unwrap();
        assert!(!buffer.is_alive());
    });
}

#[test]
fn work_that_is_done_does_not_make_a_purge_refuse() {
    let rig = Rig::open(Kind::Sim, Default::default());
    let buffer = rig.allocate(Bytes(16));
    rig.increment(&rig.other, &buffer).unwrap();
    keep_busy(&rig, &rig.allocate(Bytes(16)));
    rig.stream.synchronize().unwrap();
    rig.purge(Profile::Soft, Busy::Refuse).unwrap();
    rig.check();
}

fn in_flight(rig: &Rig) -> Vec<u64> {
    let began = |event: &Event| match event {
        Event::PurgeBegan(began) => Some(began.in_flight),
        _ => None,
    };
    rig.events().iter().filter_map(began).collect()
}

#[test]
fn a_purge_waits_for_work_or_goes_on_under_it() {
    on_each(|rig| {
        let buffer = rig.allocate(Bytes::mib(1));
        keep_busy(rig, &buffer);
        rig.kill();
        assert_eq!(in_flight(rig), [0], "it waited");
        let buffer = rig.allocate(Bytes::mib(1));
        keep_busy(rig, &buffer);
        let stages = Profile::Custom(vec![Stage::StorageKill]);
        rig.purge(stages, Busy::Force).unwrap();
        assert!(!buffer.is_alive());
        assert!(in_flight(rig)[1] > 0, "it says what it did");
    });
}

#[test]
fn selective_with_nothing_flagged_does_nothing_at_all() {
    on_each(|rig| {
        let scene = Scene::open(rig);
        keep_busy(rig, &scene.model.held()[0]);
        let (held, used) = (rig.held(), rig.used());
        for busy in [Busy::Wait, Busy::Refuse, Busy::Force] {
            let kinds = rig.kinds_of(|| {
                let report = rig.purge(Profile::Selective, busy).unwrap();
                assert_eq!(report.outcome, Outcome::Noop);
                assert!(report.stages.is_empty() && report.survivors.is_empty());
            });
            let kinds: Vec<_> = kinds.into_iter().filter(|kind| *kind != "NameDefined").collect();
            assert_eq!(kinds, ["PurgeBegan", "PurgeEnded"]);
        }
        assert_eq!((held, used), (rig.held(), rig.used()));
        scene.graphs.run(&rig.stream, "forward", || Ok(())).unwrap();
    });
}

#[test]
fn selective_ejects_the_flagged_model_and_leaves_the_other_and_its_graphs() {
    on_each(|rig| {
        let model = |name| shelf(rig, name, OwnerKind::Model, Stage::UnloadModels, Bytes::ZERO);
        let (goes, stays) = (model("model.goes"), model("model.stays"));
        let graphs = GraphCache::open(&rig.runtime, "nvfp4_runtime.graph_cache");
        for model in [&goes, &stays] {
            put(rig, model, Bytes::mib(12));
            let buffers = model.held();
            let key = if Arc::ptr_eq(model, &goes) {
                "goes"
            } else {
                "stays"
            };
            graphs
                .run(&rig.stream, key, || rig.increment(&rig.stream, &buffers[0]))
                .unwrap();
        }
        goes.flagged.store(true, Ordering::Relaxed);
        let report = rig.purge(Profile::Selective, Busy::Wait).unwrap();
        assert_eq!(report.outcome, Outcome::Complete);
        assert!(goes.held().is_empty());
        assert!(stays.held()[0].is_alive());
        let dropped = |event: &&Event| matches!(event, Event::GraphDropped(_));
        assert_eq!(rig.events().iter().filter(dropped).count(), 1);
        let again = graphs.run(&rig.stream, "stays", || panic!("it is still there"));
        again.unwrap();
        let survivors: Vec<_> = report
            .survivors
            .iter()
            .map(|s| (s.owner.as_str(), s.holder))
            .collect();
        assert_eq!(survivors, [("model.stays", Holder::Model)]);
    });
}

#[test]
fn reload_sources_survive_every_profile() {
    on_each(|rig| {
        let pins = rig
            .runtime
            .own_passively("host.pin_pool", OwnerKind::Pins, Stage::PinPool);
        let scene = Scene::open(rig);
        let source = rig
            .runtime
            .allocate_pinned(&rig.stream, pins, "weights", Bytes::mib(2))
            .unwrap();
        rig.stream.upload(&source, &[7; 16]).unwrap();
        rig.runtime.keep_reload_source(scene.model.id, "weights", &source);
        scene.model.flagged.store(true, Ordering::Relaxed);
        for profile in Profile::NAMED {
            rig.purge(profile, Busy::Wait).unwrap();
            assert!(source.is_alive());
        }
        let mut bytes = [0; 16];
        rig.stream.download(&source, &mut bytes).unwrap();
        assert!(rig.kind != Kind::Host || bytes == [7; 16]);
        let report = rig.purge(Profile::Full, Busy::Wait).unwrap();
        let survivors: Vec<_> = report
            .survivors
            .iter()
            .map(|s| (s.owner.as_str(), s.holder))
            .collect();
        assert_eq!(survivors, [("host.pin_pool", Holder::Model)]);
    });
}

#[test]
fn a_clean_full_purge_claims_no_more_than_the_device_gets_back() {
    on_each(|rig| {
        let scene = Scene::open(rig);
        scene.model.applied.store(true, Ordering::Relaxed);
        let report = rig.purge(Profile::Full, Busy::Wait).unwrap();
        for stage in &report.stages {
            assert!(i128::from(stage.claimed.0) <= stage.allocator, "{stage:?}");
        }
        let claimed: i128 = report
            .stages
            .iter()
            .map(|stage| i128::from(stage.claimed.0))
            .sum();
        let device: i128 = report.stages.iter().map(|stage| stage.device_delta).sum();
        let asked = (12 << 20) + (512 << 10) + 2_600_000 + 320_000;
        assert_eq!(claimed, asked, "everything is claimed once");
        assert!(claimed <= device);
        assert_eq!(report.outcome, Outcome::Complete);
        assert_eq!((rig.held(), rig.used()), (Bytes::ZERO, Bytes::ZERO));
        assert!(report.survivors.is_empty());
        assert!(
            report
                .log
                .contains(&"purge#1 2d rearmed model.weights flags=1".to_owned())
        );
        scene.fill(rig);
    });
}

#[test]
fn a_claim_of_more_than_went_away_is_partial() {
    on_each(|rig| {
        let boaster = (OwnerKind::Cache, Stage::OwnerCaches);
        let shelf = shelf(rig, "boaster", boaster.0, boaster.1, Bytes::mib(20));
        put(rig, &shelf, Bytes::mib(2));
        let report = rig.purge(Profile::Full, Busy::Wait).unwrap();
        assert_eq!(report.outcome, Outcome::Partial);
        assert_eq!(outcomes(rig), [Outcome::Partial]);
    });
}

#[test]
fn survivors_are_listed_with_owner_and_holder() {
    on_each(|rig| {
        let pool = pools::open(rig, Bytes::mib(32));
        pool.take(&1, &[("qx", Bytes(2_600_000)), ("scales", Bytes(320_000))])
            .unwrap();
        let (handle, baked) = (rig.allocate(Bytes(100)), rig.allocate(Bytes(200)));
        let graph = rig
            .stream
            .capture("holds", || rig.increment(&rig.stream, &baked))
            .unwrap();
        drop(baked);
        let pending = rig.allocate(Bytes(300));
        keep_busy(rig, &handle);
        rig.other.wait_for(&rig.stream).unwrap();
        rig.increment(&rig.other, &pending).unwrap();
        drop(pending);
        let stages = Profile::Custom(vec![Stage::StorageKill]);
        let report = rig.purge(stages, Busy::Force).unwrap();
        let mut survivors: Vec<_> = report
            .survivors
            .iter()
            .map(|s| (s.bytes.0, s.owner.as_str(), s.holder))
            .collect();
        survivors.sort();
        let things = "test.things";
        assert_eq!(
            survivors,
            [
                (100, things, Holder::Handle),
                (200, things, Holder::Graph),
                (300, things, Holder::Stream),
                (320_000, "nvfp4_runtime.act_q_pool", Holder::Pool),
            ]
        );
        let line = "purge#1 survivor test.things holder=graph buffers=1 bytes=200".to_owned();
        assert!(report.log.contains(&line), "{report}");
        drop(graph);
    });
}

#[test]
fn each_line_of_the_log_starts_with_the_purge_and_the_stage() {
    on_each(|rig| {
        let _scene = Scene::open(rig);
        let report = rig.purge(Profile::Full, Busy::Wait).unwrap();
        let first = ["begin", "end", "survivor"];
        for line in &report.log {
            let rest = line.strip_prefix("purge#1 ").unwrap_or_else(|| panic!("{line}"));
            let word = rest.split(' ').next().unwrap();
            assert!(first.contains(&word) || Stage::WORDS.contains(&word), "{line}");
        }
        let line = "purge#1 2c cleared nvfp4_runtime.act_q_pool entries=1 bytes=320000".to_owned();
        assert!(report.log.contains(&line), "{report}");
        assert_eq!(report.to_string().lines().count(), report.log.len());
    });
}

#[test]
fn a_purge_that_stops_half_way_says_that_it_failed() {
    for busy in [Busy::Wait, Busy::Force] {
        let rig = Rig::open(Kind::Host, Default::default());
        let buffer = rig.allocate(Bytes(16));
        rig.stream
            .call(&FAULTY)
            .write("bytes", &buffer, 16)
            .submit()
            .unwrap();
        let result = rig.purge(Profile::Full, busy);
        assert!(matches!(result, Err(RuntimeError::Device(_))), "{result:?}");
        assert_eq!(outcomes(&rig), [Outcome::Failed]);
        rig.purge(Profile::Full, busy).unwrap();
        rig.check();
    }
}
