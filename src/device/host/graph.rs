//! Captured work with its addresses baked in.

use crate::base::Bytes;
use crate::base::Nanos;
use crate::base::clock::Clock;
use crate::device::host::Memory;
use crate::device::host::queue::run;
use crate::device::{Address, DeviceError, Launch, NodeTiming};

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all nodes are launches")]
enum Node {
    Launch(Launch),
    Copy {
        to: Address,
        from: Address,
        bytes: Bytes,
    },
}

/// Nodes in capture order, with their timings since they were last asked for.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<(Node, u64, Nanos)>,
}

impl Graph {
    pub(super) fn add_launch(&mut self, launch: Launch) {
        self.nodes.push((Node::Launch(launch), 0, Nanos(0)));
    }

    pub(super) fn add_copy(&mut self, to: Address, from: Address, bytes: Bytes) {
        self.nodes.push((Node::Copy { to, from, bytes }, 0, Nanos(0)));
    }

    pub(super) fn replay(&mut self, memory: &mut Memory, clock: &Clock) -> Result<(), DeviceError> {
        let mut began = clock.now();
        for (node, count, took) in &mut self.nodes {
            match node {
                Node::Launch(launch) => run(memory, launch)?,
                Node::Copy { to, from, bytes } => memory.copy(*to, *from, *bytes)?,
            }
            let ended = clock.now();
            *count += 1;
            *took += ended.since(began);
            began = ended;
        }
        Ok(())
    }

    pub(super) fn take_timings(&mut self) -> Vec<NodeTiming> {
        let mut timings: Vec<NodeTiming> = Vec::new();
        for (node, count, took) in &mut self.nodes {
            let kernel = match node {
                Node::Launch(launch) => launch.kernel.name,
                Node::Copy { .. } => "memcpy",
            };
            let (launches, took) = (std::mem::take(count), std::mem::take(took));
            if launches == 0 {
                continue;
            }
            match timings.iter_mut().find(|timing| timing.kernel == kernel) {
                Some(timing) => {
                    timing.launches += launches;
                    timing.took += took;
                }
                None => timings.push(NodeTiming {
                    kernel,
                    launches,
                    took,
                }),
            }
        }
        timings
    }
}
