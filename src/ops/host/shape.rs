//! Sizes of kernel arguments, and the error where they do not fit each other.

/// Why a kernel refused its arguments. Lengths are in elements, not bytes. Outputs are untouched then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// An argument has another length than the sizes given with it.
    #[error("argument {argument} holds {found} elements, not {expected}")]
    Length {
        /// The argument.
        argument: &'static str,
        /// Elements that follow from the other arguments; `usize::MAX` where that overflows.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// An argument that may be longer than needed is too short.
    #[error("argument {argument} holds {found} elements, under the {expected} needed")]
    Short {
        /// The argument.
        argument: &'static str,
        /// The fewest elements that do; `usize::MAX` where that overflows.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// A size or length is not a multiple of what it has to be.
    #[error("argument {argument} is {found} long, not a multiple of {unit}")]
    Multiple {
        /// The argument.
        argument: &'static str,
        /// What it has to be a multiple of.
        unit: usize,
        /// The size given.
        found: usize,
    },
    /// A value names a row that is not there.
    #[error("argument {argument} holds {found}, not below {limit}")]
    Range {
        /// The argument.
        argument: &'static str,
        /// The first value that is too large.
        limit: usize,
        /// The value given.
        found: usize,
    },
}

/// Sizes of a product `y = x W^T`: `x [rows, inputs]`, `W [outputs, inputs]`, `y [rows, outputs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearShape {
    /// Rows of `x` and `y`: tokens.
    pub rows: usize,
    /// K, the summed dimension.
    pub inputs: usize,
    /// N, rows of the weight.
    pub outputs: usize,
}

impl LinearShape {
    /// Checks the lengths of `x`, the weight and the output.
    pub(crate) fn check(self, x: usize, w: usize, out: usize) -> Result<(), ShapeError> {
        length("x", x, product(self.rows, self.inputs))?;
        length("w", w, product(self.outputs, self.inputs))?;
        length("out", out, product(self.rows, self.outputs))
    }
}

/// Attention heads. Query heads share key and value heads in groups of `heads / kv_heads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    /// Query heads, a multiple of `kv_heads`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Values of a head.
    pub head_dim: usize,
}

impl HeadShape {
    /// Width of a query row.
    #[must_use]
    pub fn query_width(self) -> usize {
        product(self.heads, self.head_dim)
    }

    /// Width of a key or value row.
    #[must_use]
    pub fn kv_width(self) -> usize {
        product(self.kv_heads, self.head_dim)
    }
}

/// Consecutive positions of a sequence: `first..first + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions {
    /// Position of the first row; tokens before it are in the cache.
    pub first: usize,
    /// Rows.
    pub count: usize,
}

impl Positions {
    /// The position after the last row: the length of the sequence so far.
    #[must_use]
    pub fn end(self) -> usize {
        self.first.saturating_add(self.count)
    }
}

/// A product that does not wrap: no slice is `usize::MAX` long.
pub(crate) fn product(a: usize, b: usize) -> usize {
    a.saturating_mul(b)
}

pub(crate) fn length(argument: &'static str, found: usize, expected: usize) -> Result<(), ShapeError> {
    if found == expected {
        return Ok(());
    }
    Err(ShapeError::Length {
        argument,
        expected,
        found,
    })
}

pub(crate) fn at_least(argument: &'static str, found: usize, expected: usize) -> Result<(), ShapeError> {
    if found >= expected {
        return Ok(());
    }
    Err(ShapeError::Short {
        argument,
        expected,
        found,
    })
}

pub(crate) fn multiple(argument: &'static str, found: usize, unit: usize) -> Result<(), ShapeError> {
    if found.is_multiple_of(unit) {
        return Ok(());
    }
    Err(ShapeError::Multiple {
        argument,
        unit,
        found,
    })
}
