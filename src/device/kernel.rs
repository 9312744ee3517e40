//! A kernel and its arguments. On the host a kernel is a function over slices of device memory.

use bytemuck::AnyBitPattern;
use bytemuck::NoUninit;

use crate::base::Bytes;
use crate::device::Address;

/// The most buffer arguments of one launch.
pub const MAX_SPANS: usize = 12;

/// The most scalar arguments of one launch.
pub const MAX_SCALARS: usize = 8;

/// What a launch does to an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it. May overlap other arguments that are read.
    Read,
    /// Writes it, and may read it.
    Write,
}

/// A range of device memory as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub address: Address,
    /// Its length.
    pub bytes: Bytes,
    /// What happens to it.
    pub access: Access,
}

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A size or a count.
    U32(u32),
    /// A constant of the arithmetic.
    F32(f32),
}

/// Why a kernel did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelFault {
    /// An argument is missing, of another kind, taken twice, or has an odd length or alignment.
    #[error("argument {index} is not a usable {wanted}")]
    Argument {
        /// Its place.
        index: usize,
        /// What the kernel takes there.
        wanted: &'static str,
    },
    /// The arguments do not fit each other.
    #[error("{0}")]
    Shape(String),
}

/// A kernel: one for all devices. Devices find their code by name; the host has it here.
#[derive(Debug)]
pub struct Kernel {
    /// Its name, as on every surface.
    pub name: &'static str,
    /// What it does on the host.
    pub host: fn(&mut HostArguments<'_>) -> Result<(), KernelFault>,
}

/// One launch: kernel and arguments.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The kernel.
    pub kernel: &'static Kernel,
    spans: [Span; MAX_SPANS],
    scalars: [Scalar; MAX_SCALARS],
    lens: (u8, u8),
}

impl Launch {
    /// A launch without arguments.
    #[must_use]
    pub fn new(kernel: &'static Kernel) -> Launch {
        let nothing = Span {
            address: Address(0),
            bytes: Bytes::ZERO,
            access: Access::Read,
        };
        Launch {
            kernel,
            spans: [nothing; MAX_SPANS],
            scalars: [Scalar::U32(0); MAX_SCALARS],
            lens: (0, 0),
        }
    }

    /// Adds a buffer argument.
    ///
    /// # Panics
    /// There are [`MAX_SPANS`] already: kernels are ours, so this is our mistake.
    pub fn push_span(&mut self, span: Span) {
        self.spans[usize::from(self.lens.0)] = span;
        self.lens.0 += 1;
    }

    /// Adds a scalar argument.
    ///
    /// # Panics
    /// There are [`MAX_SCALARS`] already.
    pub fn push_scalar(&mut self, scalar: Scalar) {
        self.scalars[usize::from(self.lens.1)] = scalar;
        self.lens.1 += 1;
    }

    /// The buffer arguments in order.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans[..usize::from(self.lens.0)]
    }

    /// The scalar arguments in order.
    #[must_use]
    pub fn scalars(&self) -> &[Scalar] {
        &self.scalars[..usize::from(self.lens.1)]
    }
}

/// Memory of one argument on the host.
#[derive(Debug)]
pub enum HostSlice<'a> {
    /// Only read.
    Read(&'a [u8]),
    /// Written; `None` once taken.
    Write(Option<&'a mut [u8]>),
}

/// The arguments of a kernel on the host. Written ones are disjoint from all others.
#[derive(Debug)]
pub struct HostArguments<'a> {
    slices: [HostSlice<'a>; MAX_SPANS],
    scalars: &'a [Scalar],
}

impl<'a> HostArguments<'a> {
    /// Arguments in launch order; places beyond the launch's own hold empty slices.
    #[must_use]
    pub fn new(slices: [HostSlice<'a>; MAX_SPANS], scalars: &'a [Scalar]) -> HostArguments<'a> {
        HostArguments { slices, scalars }
    }

    /// The argument at `index`, which is read, as elements.
    ///
    /// # Errors
    /// It is not a read argument, or its length or alignment does not fit `T`.
    pub fn read<T: AnyBitPattern>(&self, index: usize) -> Result<&'a [T], KernelFault> {
        let fault = KernelFault::Argument {
            index,
            wanted: "read buffer",
        };
        match self.slices.get(index) {
            Some(HostSlice::Read(slice)) => bytemuck::try_cast_slice(slice).map_err(|_| fault),
            _ => Err(fault),
        }
    }

    /// The argument at `index`, which is written, as elements. Can be taken once.
    ///
    /// # Errors
    /// It is not a written argument, is taken already, or its length or alignment does not fit `T`.
    pub fn write<T: AnyBitPattern + NoUninit>(&mut self, index: usize) -> Result<&'a mut [T], KernelFault> {
        let fault = KernelFault::Argument {
            index,
            wanted: "written buffer",
        };
        match self.slices.get_mut(index) {
            Some(HostSlice::Write(slot)) => {
                let slice = slot.take().ok_or_else(|| fault.clone())?;
                bytemuck::try_cast_slice_mut(slice).map_err(|_| fault)
            }
            _ => Err(fault),
        }
    }

    /// The size at `index` of the scalars.
    ///
    /// # Errors
    /// There is no such size.
    pub fn size(&self, index: usize) -> Result<usize, KernelFault> {
        match self.scalars.get(index) {
            Some(Scalar::U32(value)) => Ok(*value as usize),
            _ => Err(KernelFault::Argument {
                index,
                wanted: "size",
            }),
        }
    }

    /// The constant at `index` of the scalars.
    ///
    /// # Errors
    /// There is no such constant.
    pub fn constant(&self, index: usize) -> Result<f32, KernelFault> {
        match self.scalars.get(index) {
            Some(Scalar::F32(value)) => Ok(*value),
            _ => Err(KernelFault::Argument {
                index,
                wanted: "constant",
            }),
        }
    }
}
