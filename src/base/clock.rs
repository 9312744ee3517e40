//! The one place where time is read. The pure modules may not import it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::Nanos;

/// A monotonic clock whose zero is its own creation.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Real { clock: quanta::Clock, zero: u64 },
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock: the cycle counter where it is invariant, the system's monotonic clock elsewhere.
    #[must_use]
    pub fn real() -> Clock {
        let clock = quanta::Clock::new();
        let zero = clock.raw();
        Clock(Source::Real { clock, zero })
    }

    /// A clock that stands still until [`Clock::advance`] moves it: for simulation and tests.
    #[must_use]
    pub fn manual() -> Clock {
        Clock(Source::Manual(Arc::new(AtomicU64::new(0))))
    }

    /// Nanoseconds since this clock was made.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        match &self.0 {
            Source::Real { clock, zero } => Nanos(clock.delta_as_nanos(*zero, clock.raw())),
            Source::Manual(now) => Nanos(now.load(Ordering::Relaxed)),
        }
    }

    /// Moves a manual clock. A real one is not moved.
    pub fn advance(&self, by: Nanos) {
        if let Source::Manual(now) = &self.0 {
            now.fetch_add(by.0, Ordering::Relaxed);
        }
    }
}

/// Nanoseconds since 1970 in UTC; 0 where the system's clock stands before that.
#[must_use]
pub fn unix_now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
