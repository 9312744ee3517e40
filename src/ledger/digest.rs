//! A digest of the state that does not depend on times.

use std::hash::{Hash, Hasher};

use xxhash_rust::xxh3::Xxh3;

/// A part of the state that the digest leaves out, since it holds times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untimed<T>(pub T);

impl<T> Hash for Untimed<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

pub(crate) fn of(state: &impl Hash) -> u64 {
    let mut hasher = Xxh3::new();
    state.hash(&mut hasher);
    hasher.finish()
}
