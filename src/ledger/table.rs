//! Rows by number: an index for the dense numbers that our own runs have, a tree for what is far off.

use std::collections::BTreeMap;

use crate::ledger::digest::{Digest, Digester};

/// How far ahead of twice its rows the dense part may reach.
const AHEAD: usize = 1024;

/// At most `LIMIT` rows by number. Its memory follows the number of rows, not the largest number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table<T, const LIMIT: usize> {
    dense: Vec<Option<T>>,
    /// Numbers at or above `dense.len()`.
    sparse: BTreeMap<u32, T>,
    rows: usize,
}

impl<T: Default, const LIMIT: usize> Table<T, LIMIT> {
    /// The row, where there is one.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&T> {
        match self.dense.get(number as usize) {
            Some(row) => row.as_ref(),
            None => self.sparse.get(&number),
        }
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.dense.get_mut(number as usize) {
            Some(row) => row.as_mut(),
            None => self.sparse.get_mut(&number),
        }
    }

    /// The row, made where it is new; `None` where the table is full.
    pub(crate) fn row(&mut self, number: u32) -> Option<&mut T> {
        let index = number as usize;
        if index >= self.dense.len() && index < self.rows.saturating_mul(2) + AHEAD {
            self.extend(index + 1);
        }
        let known = match self.dense.get(index) {
            Some(row) => row.is_some(),
            None => self.sparse.contains_key(&number),
        };
        if !known {
            if self.rows >= LIMIT {
                return None;
            }
            self.rows += 1;
        }
        Some(match self.dense.get_mut(index) {
            Some(row) => row.get_or_insert_with(T::default),
            None => self.sparse.entry(number).or_default(),
        })
    }

    fn extend(&mut self, length: usize) {
        self.dense.resize_with(length, || None);
        while let Some(first) = self.sparse.first_entry() {
            let index = *first.key() as usize;
            if index >= length {
                break;
            }
            self.dense[index] = Some(first.remove());
        }
    }

    /// All rows in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let dense = self.dense.iter().enumerate();
        let dense = dense.filter_map(|(index, row)| row.as_ref().map(|row| (index as u32, row)));
        dense.chain(self.sparse.iter().map(|(number, row)| (*number, row)))
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

impl<T: Digest + Default, const LIMIT: usize> Digest for Table<T, LIMIT> {
    fn digest(&self, into: &mut Digester) {
        (self.rows as u64).digest(into);
        for (number, row) in self.iter() {
            number.digest(into);
            row.digest(into);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn far_numbers_cost_no_room_and_come_in_when_near() {
        let mut table = Table::<u64, 3000>::default();
        for number in [u32::MAX, 2000, 5] {
            *table.row(number).expect("there is room") = u64::from(number);
        }
        assert!(table.dense.len() < 100);
        for number in 0..2500 {
            *table.row(number).expect("there is room") = u64::from(number);
        }
        assert_eq!((table.sparse.len(), table.len()), (1, 2501));
        assert!(table.iter().all(|(number, row)| u64::from(number) == *row));
        assert!(table.iter().map(|(number, _)| number).is_sorted());
        for number in 2500..2999 {
            assert!(table.row(number).is_some());
        }
        assert!(table.row(2999).is_none() && table.row(2998).is_some());
    }
}
