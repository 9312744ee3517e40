//! NVFP4: E2M1 codes, an E4M3 scale for 16 elements along K, one f32 scale a tensor.
//!
//! Semantics follow comfy-kitchen's eager reference, save that zero and NaN input are made safe. Products are
//! emulated: no unit of the host multiplies these codes.

mod decode;
mod gemm;
mod quantize;

pub use decode::{dequantize, dequantize_bf16};
pub use gemm::gemm;
pub use quantize::{QuantizeCounts, TensorScale, quantize};

use crate::ops::host::shape::{ShapeError, length, product};

/// Elements that share a scale.
pub const BLOCK: usize = 16;

/// Sizes of a matrix and of the buffers that store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    rows: usize,
    cols: usize,
    stored_rows: usize,
}

impl Layout {
    /// Stores exactly `rows`; columns are padded to a multiple of 16.
    #[must_use]
    pub fn exact(rows: usize, cols: usize) -> Layout {
        Layout {
            rows,
            cols,
            stored_rows: rows,
        }
    }

    /// Stores rows and columns padded to multiples of 16.
    #[must_use]
    pub fn padded(rows: usize, cols: usize) -> Layout {
        Layout {
            rows,
            cols,
            stored_rows: padded(rows, 16),
        }
    }

    /// Rows, without padding.
    #[must_use]
    pub fn rows(self) -> usize {
        self.rows
    }

    /// Columns, without padding.
    #[must_use]
    pub fn cols(self) -> usize {
        self.cols
    }

    /// Rows, with padding.
    #[must_use]
    pub fn stored_rows(self) -> usize {
        self.stored_rows
    }

    /// Columns, with padding: a multiple of 16.
    #[must_use]
    pub fn stored_cols(self) -> usize {
        padded(self.cols, BLOCK)
    }

    /// Bytes of the packed codes.
    #[must_use]
    pub fn codes_bytes(self) -> usize {
        product(self.stored_rows, self.stored_cols() / 2)
    }

    /// Bytes of the swizzled scales: rows padded to 128, blocks of a row to 4.
    #[must_use]
    pub fn scales_bytes(self) -> usize {
        product(padded(self.stored_rows, 128), padded(self.blocks(), 4))
    }

    /// Elements, with padding.
    fn stored_elements(self) -> usize {
        product(self.stored_rows, self.stored_cols())
    }

    /// Blocks of a row.
    fn blocks(self) -> usize {
        self.stored_cols() / BLOCK
    }
}

/// The next multiple, or `usize::MAX` where that overflows, which no buffer is long enough for.
fn padded(size: usize, unit: usize) -> usize {
    size.checked_next_multiple_of(unit).unwrap_or(usize::MAX)
}

/// Byte offset of the scale of row `r`, block `c`, of `nb` blocks a row (the 128x4 layout of cuBLASLt).
#[must_use]
pub fn scale_offset(r: usize, c: usize, nb: usize) -> usize {
    ((r / 128) * nb.div_ceil(4) + c / 4) * 512 + (r % 32) * 16 + ((r % 128) / 32) * 4 + c % 4
}

/// A quantized matrix whose lengths fit its layout.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    layout: Layout,
    codes: &'a [u8],
    scales: &'a [u8],
    tensor_scale: f32,
}

impl<'a> Operand<'a> {
    /// Packed `codes [stored_rows, stored_cols/2]`, even column in the high nibble; swizzled E4M3 `scales`;
    /// the scale of the tensor.
    ///
    /// # Errors
    /// A length that does not fit `layout`.
    pub fn new(
        layout: Layout,
        codes: &'a [u8],
        scales: &'a [u8],
        tensor_scale: f32,
    ) -> Result<Operand<'a>, ShapeError> {
        length("codes", codes.len(), layout.codes_bytes())?;
        length("scales", scales.len(), layout.scales_bytes())?;
        Ok(Operand {
            layout,
            codes,
            scales,
            tensor_scale,
        })
    }

    /// The sizes.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The packed codes of a row.
    fn row(&self, r: usize) -> &'a [u8] {
        let bytes = self.layout.stored_cols() / 2;
        &self.codes[r * bytes..][..bytes]
    }

    /// The scale byte of a block of a row.
    fn scale(&self, r: usize, block: usize) -> u8 {
        self.scales[scale_offset(r, block, self.layout.blocks())]
    }
}
