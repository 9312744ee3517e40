//! The checkers.

use vramscope::device::Space;
use vramscope::ledger::Account;

use crate::world::World;

impl World {
    /// Holds the books, the ledger and the truth against each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        let held = self.runtime.bytes_held();
        let reserved = self.runtime.bytes_reserved();
        let tape = self.tape.lock();
        let ledger = &tape.ledger;
        for (index, (device, (segments, used))) in reserved.iter().enumerate() {
            let truth = &self.truths[index / 2];
            let space = if index % 2 == 0 {
                Space::Device
            } else {
                Space::Pinned
            };
            let accounts = ledger.device(*device);
            let get = |account| accounts.get(account);
            let true_segments = truth.reserved(space);
            if *segments != true_segments || accounts.reserved() != i128::from(true_segments.0) {
                return Err(format!(
                    "segments of device {device}: {} by the books, {} by the ledger, {} in truth",
                    segments.0,
                    accounts.reserved(),
                    true_segments.0
                ));
            }
            if accounts.given() != i128::from(used.0) {
                return Err(format!(
                    "device {device} counts {} as used, the ledger {}",
                    used.0,
                    accounts.given()
                ));
            }
            let parts = [Account::Live, Account::Slack, Account::Pending, Account::Held];
            let in_use: i128 = parts.map(get).iter().sum();
            if in_use != i128::from(held[device].0) {
                return Err(format!(
                    "the books say {} are in use on device {device}, the ledger {in_use}",
                    held[device].0
                ));
            }
            if accounts.sum() != 0 {
                return Err(format!("accounts of device {device} sum to {}", accounts.sum()));
            }
        }
        if let Some(anomaly) = ledger.anomalies().iter().next() {
            return Err(format!("{anomaly:?}: {:?}", tape.events.last()));
        }
        self.check_truth()
    }

    fn check_truth(&self) -> Result<(), String> {
        for truth in &self.truths {
            if let Some(violation) = truth.violations().first() {
                return Err(format!("memory outside every segment was touched: {violation:?}"));
            }
            if let Some(race) = truth.races().first().filter(|_| !self.forced) {
                return Err(format!("memory was touched by two streams at once: {race:?}"));
            }
        }
        Ok(())
    }
}
