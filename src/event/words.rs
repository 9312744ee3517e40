//! The closed vocabularies. Words are part of the format: add at the end, never reorder.

use crate::event::schema::words;

words! {
    /// What kind of memory space a device is.
    DeviceKind {
        /// Kernels on the CPU, memory modelled with a real budget.
        Host = "host",
        /// Simulated time and faults under a seed; computes nothing.
        Sim = "sim",
        /// A CUDA device.
        Cuda = "cuda",
        /// Pinned host memory.
        Pinned = "pinned",
        /// Known only from a foreign trace.
        Foreign = "foreign",
    }
    /// What an owner is.
    OwnerKind {
        /// A pool of reusable entries.
        Pool = "pool",
        /// Scratch space of a GEMM, one a device and stream.
        Workspace = "workspace",
        /// Captured graphs.
        Graphs = "graphs",
        /// Weights of a model.
        Model = "model",
        /// A cache of computed values.
        Cache = "cache",
        /// Pinned host memory.
        Pins = "pins",
        /// Anything else.
        Other = "other",
    }
    /// A stage of a purge, in the vocabulary of the tools that people use.
    Stage {
        /// Drains the pool of pinned host buffers.
        PinPool = "0",
        /// Clears cached outputs of the executor.
        ExecutorCaches = "0s",
        /// Tears down every loaded model.
        UnloadModels = "1",
        /// Unregisters pinned host memory.
        UnregisterPins = "2",
        /// Empties device storage at or above a threshold, whoever holds it.
        StorageKill = "3",
        /// Unregisters pinned host memory again, after the kill.
        UnregisterPinsAgain = "2b",
        /// Clears graphs, pools and workspaces of every registered owner.
        OwnerCaches = "2c",
        /// Resets "already applied" flags whose layer is gone.
        Rearm = "2d",
        /// Returns cached segments to the driver.
        ReturnCached = "return",
    }
    /// Half of a prompt's work.
    Phase {
        /// The prompt's own tokens, together.
        Prefill = "prefill",
        /// New tokens, one at a time.
        Decode = "decode",
    }
    /// How something ended.
    Outcome {
        /// All of it was done.
        Complete = "complete",
        /// Some of it was done.
        Partial = "partial",
        /// There was nothing to do.
        Noop = "noop",
        /// It ended with an error.
        Failed = "failed",
    }
    /// Why the owner of a buffer or an entry let go.
    ReleaseCause {
        /// The last handle was dropped.
        Dropped = "dropped",
        /// The pool was over its limit.
        Evicted = "evicted",
        /// A purge told the owner to clear.
        Cleared = "cleared",
        /// Its model was unloaded.
        Unloaded = "unloaded",
        /// Its storage had been killed.
        Stale = "stale",
        /// The run ended.
        Shutdown = "shutdown",
    }
    /// Why a segment went back to the driver.
    ReturnCause {
        /// A purge returned cached memory.
        Purge = "purge",
        /// An allocation found no room and made some.
        Retry = "retry",
        /// The run ended.
        Shutdown = "shutdown",
    }
    /// What taking from a pool gave.
    TakeOutcome {
        /// A live entry with the asked key.
        Hit = "hit",
        /// No entry had the key.
        Miss = "miss",
        /// A dead entry was dropped and built again.
        Rebuilt = "rebuilt",
    }
    /// Direction of a copy.
    Direction {
        /// Host to device.
        HostToDevice = "h2d",
        /// Device to host.
        DeviceToHost = "d2h",
        /// Device to device.
        DeviceToDevice = "d2d",
        /// Within host memory, such as into a pinned buffer.
        HostToHost = "h2h",
    }
    /// Why a use was refused before the driver saw it.
    Refusal {
        /// A purge killed the whole entry or buffer.
        StaleBuffer = "StaleBuffer",
        /// A purge killed part of a pool entry.
        TornEntry = "TornEntry",
        /// A buffer that a graph baked has moved on.
        StaleGraph = "StaleGraph",
        /// The buffer lives in another memory space. Never a purge matter.
        WrongDevice = "WrongDevice",
        /// The buffer is too small for the launch.
        TooSmall = "TooSmall",
    }
    /// Who keeps a buffer that outlived a purge.
    Holder {
        /// A pool entry.
        Pool = "pool",
        /// A captured graph.
        Graph = "graph",
        /// A model.
        Model = "model",
        /// A handle in the program.
        Handle = "host_ref",
        /// Work in flight on a stream.
        Stream = "stream_pending",
        /// Not known.
        Unknown = "unknown",
    }
    /// Why events are missing.
    GapCause {
        /// The disk was full or the file could not grow.
        Storage = "storage",
        /// Detail events came faster than they could be written.
        Pressure = "pressure",
        /// A ring was full and its oldest events made room, in our own recording or in a foreign one; or a cut left them out.
        RingOverwritten = "ring",
    }
}
