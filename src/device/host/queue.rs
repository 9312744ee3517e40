//! Work that waits for its turn.

use std::collections::VecDeque;

use crate::base::{Bytes, LaunchId};
use crate::device::host::Memory;
use crate::device::host::graph::Graph;
use crate::device::{Address, DeviceError, GraphHandle, HostArguments, Launch, Mark};

/// One entry of a queue.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all work is launches, and none is boxed on the way"
)]
pub(super) enum Task {
    Launch(LaunchId, Launch),
    Copy {
        id: LaunchId,
        to: Address,
        from: Address,
        bytes: Bytes,
    },
    Upload {
        id: LaunchId,
        to: Address,
        bytes: Box<[u8]>,
    },
    Replay(LaunchId, GraphHandle),
    Mark(Mark),
    Wait(Mark),
}

impl Task {
    /// Its number, where someone waits for its completion.
    fn id(&self) -> Option<LaunchId> {
        match self {
            Task::Launch(id, _) | Task::Replay(id, _) => Some(*id),
            Task::Copy { id, .. } | Task::Upload { id, .. } => Some(*id),
            Task::Mark(_) | Task::Wait(_) => None,
        }
    }
}

/// First in, first out. While a capture is open, launches go into the graph instead.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    tasks: VecDeque<Task>,
    pub(super) capture: Option<Graph>,
}

impl WorkQueue {
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn push(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    pub(super) fn pop(&mut self) -> Option<Task> {
        self.tasks.pop_front()
    }

    /// Empties the queue; what is given up by that.
    pub(super) fn clear(&mut self) -> Vec<LaunchId> {
        self.tasks.drain(..).filter_map(|task| task.id()).collect()
    }

    pub(super) fn holds(&self, mark: Mark) -> bool {
        self.tasks
            .iter()
            .any(|task| matches!(task, Task::Mark(held) if *held == mark))
    }
}

/// Runs one kernel now.
pub(super) fn run(memory: &mut Memory, launch: &Launch) -> Result<(), DeviceError> {
    let op = launch.kernel.name;
    let home = launch
        .spans()
        .first()
        .map(|span| span.address)
        .unwrap_or_default();
    let slices = memory.home(home).slices(op, launch.spans())?;
    let mut arguments = HostArguments::new(slices, launch.scalars());
    (launch.kernel.host)(&mut arguments).map_err(|source| DeviceError::Kernel { op, source })
}
