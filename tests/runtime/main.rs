//! What the runtime promises, held on the host device and on the simulated one.

mod graphs;
mod memory;
mod pools;
mod purges;
mod rig;
mod streams;
