//! Readings of meters. They stand beside our books and are never added to them.

use std::collections::BTreeMap;

use crate::base::{Bytes, DeviceId, NameId};
use crate::event::MeterRead;
use crate::ledger::accounts::Accounts;
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::digest::digest;
use crate::ledger::limits;
use crate::ledger::mark::Mark;

/// The last reading of a meter, beside our books at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Used bytes; other processes are in it where the meter counts the device.
    pub used: Bytes,
    /// Free bytes.
    pub free: Bytes,
    /// What our books said then: segments and context.
    pub booked: i128,
    /// When.
    pub mark: Mark,
    /// How many readings there were.
    pub count: u64,
}
digest!(Reading {
    used,
    free,
    booked,
    mark,
    count
});

impl Reading {
    /// What was seen and is not in our books. Negative where our books say more than was seen.
    #[must_use]
    pub fn residual(&self) -> i128 {
        i128::from(self.used.0) - self.booked
    }
}

/// All meters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meters {
    readings: BTreeMap<(NameId, DeviceId), Reading>,
}
digest!(Meters { readings });

impl Meters {
    /// The last readings by meter and device.
    #[must_use]
    pub fn readings(&self) -> &BTreeMap<(NameId, DeviceId), Reading> {
        &self.readings
    }

    pub(crate) fn read(&mut self, mark: Mark, e: &MeterRead, books: Option<&Accounts>, odd: &mut Anomalies) {
        let key = (e.meter, e.device);
        let before = self.readings.get(&key).map_or(0, |reading| reading.count);
        if before == 0 && self.readings.len() >= limits::METERS {
            return odd.add(mark.seq, Why::OverLimit);
        }
        let reading = Reading {
            used: e.used,
            free: e.free,
            booked: books.map_or(0, Accounts::given),
            mark,
            count: before + 1,
        };
        self.readings.insert(key, reading);
    }
}
