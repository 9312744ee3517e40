//! Pure decisions: what a purge does, in which order. No device, no clock.

pub mod purge;
