//! What a driver can say instead of doing.

use crate::base::Bytes;
use crate::device::KernelFault;

/// Why a device did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No room for a segment.
    #[error("out of memory: a segment of {asked} was asked for, {free} of {total} are free")]
    OutOfMemory {
        /// The segment's size.
        asked: Bytes,
        /// Free bytes, maybe not in one piece.
        free: Bytes,
        /// All bytes, or the budget.
        total: Bytes,
    },
    /// The address space for the budget can't be reserved.
    #[error("address space of {asked} can't be reserved: {reason}")]
    NoAddressSpace {
        /// The budget.
        asked: Bytes,
        /// What the system says.
        reason: String,
    },
    /// A handle, an address or a queue that the device doesn't know.
    #[error("{what} {value:#x} is not known to the device")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A launch or a copy touches memory outside every segment.
    #[error("illegal address: {op} touches {bytes} at {address:#x}, which is in no segment")]
    IllegalAddress {
        /// The kernel or copy.
        op: &'static str,
        /// Where.
        address: u64,
        /// How much.
        bytes: Bytes,
    },
    /// Two arguments of a launch overlap and one of them is written.
    #[error("arguments of {op} overlap at {address:#x} and one of them is written")]
    Overlap {
        /// The kernel.
        op: &'static str,
        /// Where.
        address: u64,
    },
    /// The call is not allowed in this state of the queue, such as an upload in a capture.
    #[error("{what} is not allowed {state}")]
    WrongState {
        /// The call.
        what: &'static str,
        /// The state.
        state: &'static str,
    },
    /// A kernel refused its arguments.
    #[error("kernel {op} failed")]
    Kernel {
        /// The kernel.
        op: &'static str,
        /// Why.
        source: KernelFault,
    },
    /// A simulated fault.
    #[error("{0} failed by the simulation's will")]
    Injected(&'static str),
}
