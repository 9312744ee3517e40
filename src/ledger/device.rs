//! Devices: balances and high water.

use crate::base::{Bytes, DeviceId, NameId};
use crate::event::{DeviceKind, DeviceOpened};
use crate::ledger::accounts::{Account, Accounts};
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::digest::digest;
use crate::ledger::limits;
use crate::ledger::mark::Mark;
use crate::ledger::table::Table;

/// What a device said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Its name.
    pub name: NameId,
    /// Its kind.
    pub kind: DeviceKind,
    /// All its memory, or the budget.
    pub total: Bytes,
    /// What the driver took for itself at the opening.
    pub context: Bytes,
    /// When.
    pub mark: Mark,
}
digest!(Opening {
    name,
    kind,
    total,
    context,
    mark
});

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// What it said of itself; absent where memory is on a device that was never opened.
    pub opened: Option<Opening>,
    /// Its balances.
    pub accounts: Accounts,
    /// The largest sum of its segments.
    pub reserved_peak: i128,
    /// The largest sum of requested bytes of its live buffers. Rounding is not included.
    pub live_peak: i128,
}
digest!(Device {
    opened,
    accounts,
    reserved_peak,
    live_peak
});

/// All devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    table: Table<Device, { limits::DEVICES }>,
    others: Device,
}
digest!(Devices { table, others });

impl Devices {
    /// One device.
    #[must_use]
    pub fn get(&self, id: DeviceId) -> Option<&Device> {
        self.table.get(id.0)
    }

    /// All devices in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceId, &Device)> {
        self.table.iter().map(|(id, device)| (DeviceId(id), device))
    }

    /// The sums of the devices beyond [`limits::DEVICES`].
    #[must_use]
    pub fn others(&self) -> &Device {
        &self.others
    }

    fn row(&mut self, id: DeviceId) -> &mut Device {
        self.table.row(id.0).unwrap_or(&mut self.others)
    }

    pub(crate) fn opened(&mut self, mark: Mark, e: &DeviceOpened, odd: &mut Anomalies) {
        let device = self.row(e.device);
        if device.opened.is_some() {
            return odd.add(mark.seq, Why::Redefined);
        }
        device.opened = Some(Opening {
            name: e.name,
            kind: e.kind,
            total: e.total,
            context: e.context,
            mark,
        });
        device
            .accounts
            .post(Account::Driver, Account::Context, i128::from(e.context.0));
    }

    /// Moves bytes between accounts of one device, notes high water, and says what does not fit.
    pub(crate) fn post(&mut self, mark: Mark, on: DeviceId, moves: &[Move], odd: &mut Anomalies) {
        let device = self.row(on);
        for (from, to, bytes) in moves {
            if device.accounts.post(*from, *to, *bytes) > 0 {
                odd.add(mark.seq, Why::ImpliedOpening);
            }
        }
        device.reserved_peak = device.reserved_peak.max(device.accounts.reserved());
        device.live_peak = device.live_peak.max(device.accounts.get(Account::Live));
    }
}

/// From where to where, and how much.
pub(crate) type Move = (Account, Account, i128);
