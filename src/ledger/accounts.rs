//! Double entry: bytes move between accounts of one device, and all accounts sum to zero.

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
    /// Release requested, not completed.
    Pending,
    /// Released, but held by a graph.
    Held,
}

/// The balances of one device. Only the driver's may be negative.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Accounts([i128; 7]);

impl Accounts {
    /// What an account holds.
    #[must_use]
    pub fn get(&self, account: Account) -> i128 {
        self.0[account as usize]
    }

    /// Always zero.
    #[must_use]
    pub fn sum(&self) -> i128 {
        self.0.iter().sum()
    }

    /// Bytes in segments, in use or not.
    #[must_use]
    pub fn reserved(&self) -> i128 {
        -self.get(Account::Driver) - self.get(Account::Context)
    }

    /// Moves bytes; returns what the source lacked, which then came from the driver.
    pub(crate) fn post(&mut self, from: Account, to: Account, bytes: i128) -> i128 {
        let mut lacking = 0;
        if from != Account::Driver {
            lacking = (bytes - self.get(from)).max(0);
            self.0[Account::Driver as usize] -= lacking;
            self.0[from as usize] += lacking;
        }
        self.0[from as usize] -= bytes;
        self.0[to as usize] += bytes;
        lacking
    }
}
