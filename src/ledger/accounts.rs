//! Double entry: bytes move between accounts of one device, and all accounts sum to zero.

use crate::ledger::digest::digest;

/// Where bytes can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// The driver: what it gave out, as a negative balance.
    Driver,
    /// What the driver took for itself.
    Context,
    /// In a segment, in no buffer.
    Cached,
    /// Asked for by live buffers.
    Live,
    /// Rounding of live buffers.
    Slack,
    /// Release requested, not completed; rounding included.
    Pending,
    /// Released, but held by a graph; rounding included.
    Held,
}

/// The balances of one device. Only the driver's may be negative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    balances: [i128; 7],
}
digest!(Accounts { balances });

impl Accounts {
    /// What an account holds.
    #[must_use]
    pub fn get(&self, account: Account) -> i128 {
        self.balances[account as usize]
    }

    /// Always zero.
    #[must_use]
    pub fn sum(&self) -> i128 {
        self.balances.iter().sum()
    }

    /// Bytes in segments, in use or not. Does not include the driver's context.
    #[must_use]
    pub fn reserved(&self) -> i128 {
        -self.get(Account::Driver) - self.get(Account::Context)
    }

    /// All that the driver gave: segments and context.
    #[must_use]
    pub fn given(&self) -> i128 {
        -self.get(Account::Driver)
    }

    /// Moves bytes; returns what the source lacked, which then came from the driver.
    pub(crate) fn post(&mut self, from: Account, to: Account, bytes: i128) -> i128 {
        let mut lacking = 0;
        if from != Account::Driver {
            lacking = (bytes - self.get(from)).max(0);
            self.balances[Account::Driver as usize] -= lacking;
            self.balances[from as usize] += lacking;
        }
        self.balances[from as usize] -= bytes;
        self.balances[to as usize] += bytes;
        lacking
    }
}
