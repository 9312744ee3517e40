//! Streams: launches, copies, and what of them is in flight.

use std::sync::Arc;

use crate::base::{Bytes, LaunchId, StreamId};
use crate::device::{Access, Address, DeviceError, Kernel, Launch, MAX_SPANS, Scalar, Space, Span};
use crate::event::{
    CopyIssued, Direction, Event, KernelLaunched, QuantizeCounted, Refusal, Uses, WorkCompleted,
};
use crate::runtime::probe::spans;
use crate::runtime::refuse::Use;
use crate::runtime::state::{Baked, State};
use crate::runtime::{Buffer, RuntimeError, Shared};

/// An ordered queue of work on one device.
#[derive(Clone)]
pub struct Stream {
    pub(super) shared: Arc<Shared>,
    pub(super) id: StreamId,
    pub(super) device: usize,
}

/// One buffer argument of a call.
#[derive(Clone, Copy)]
struct Argument<'b> {
    name: &'static str,
    buffer: &'b Buffer,
    access: Access,
    bytes: Bytes,
}

/// A launch in the making: name its arguments in the kernel's order, then submit.
#[must_use = "a call does nothing until it is submitted"]
pub struct Call<'s, 'b> {
    stream: &'s Stream,
    launch: Launch,
    arguments: [Option<Argument<'b>>; MAX_SPANS],
    count: usize,
}

impl<'b> Call<'_, 'b> {
    /// A buffer that the kernel reads the first `bytes` of.
    pub fn read(self, name: &'static str, buffer: &'b Buffer, bytes: u64) -> Self {
        self.argument(name, buffer, bytes, Access::Read)
    }

    /// A buffer that the kernel writes, and may read, the first `bytes` of.
    pub fn write(self, name: &'static str, buffer: &'b Buffer, bytes: u64) -> Self {
        self.argument(name, buffer, bytes, Access::Write)
    }

    fn argument(mut self, name: &'static str, buffer: &'b Buffer, bytes: u64, access: Access) -> Self {
        assert!(self.count < MAX_SPANS, "kernels have at most {MAX_SPANS} buffers");
        self.arguments[self.count] = Some(Argument {
            name,
            buffer,
            access,
            bytes: Bytes(bytes),
        });
        self.count += 1;
        self
    }

    /// A size.
    pub fn size(mut self, value: usize) -> Self {
        self.launch
            .push_scalar(Scalar::U32(u32::try_from(value).unwrap_or(u32::MAX)));
        self
    }

    /// A constant.
    pub fn constant(mut self, value: f32) -> Self {
        self.launch.push_scalar(Scalar::F32(value));
        self
    }

    /// Checks every argument's device, size and generation, then launches, or records into the open capture.
    ///
    /// # Errors
    /// [`RuntimeError::Refused`] before the driver is called, or what the driver says.
    pub fn submit(self) -> Result<(), RuntimeError> {
        let kernel = self.launch.kernel.name;
        let span = spans::launch(kernel, self.stream.id.0);
        let mut state = self.stream.shared.lock();
        let mut launch = self.launch;
        for argument in self.arguments.iter().flatten() {
            match check(self.stream, argument.buffer, argument.bytes, Reach::Device) {
                Ok(address) => launch.push_span(Span {
                    address,
                    bytes: argument.bytes,
                    access: argument.access,
                }),
                Err(refusal) => {
                    span.record("error.type", refusal.word());
                    return Err(state.refuse(Use {
                        refusal,
                        op: kernel,
                        argument: argument.name,
                        buffer: argument.buffer,
                        bytes: argument.bytes,
                        device: self.stream.device,
                    }));
                }
            }
        }
        let arguments = &self.arguments;
        if state.stream(self.stream.id).capture.is_some() {
            state.bake(self.stream.id, kernel, arguments);
            let queue = state.stream(self.stream.id).queue;
            let id = LaunchId(u64::MAX);
            return Ok(state.devices[self.stream.device].launch(queue, id, &launch)?);
        }
        let id = state.next.launch();
        let queue = state.stream(self.stream.id).queue;
        state.devices[self.stream.device].launch(queue, id, &launch)?;
        let name = state.probe.fixed_name(kernel);
        let buffers = arguments.iter().flatten().map(|argument| argument.buffer);
        state.issued(self.stream.id, id, buffers.clone());
        state.probe.record_in(
            &span,
            KernelLaunched {
                launch: id,
                kernel: name,
                stream: self.stream.id,
                uses: Uses::new(buffers.map(Buffer::id)),
            },
        );
        Ok(())
    }
}

/// Which memory of a stream's device a piece of work reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Kernels: the device's own.
    Device,
    /// Copies: pinned host memory too.
    Pinned,
}

/// Device, generation and size: one atomic load a buffer.
fn check(stream: &Stream, buffer: &Buffer, bytes: Bytes, reach: Reach) -> Result<Address, Refusal> {
    // Spaces come in pairs: a device's own, then its pinned one.
    let own = stream.device * 2;
    if buffer.space != own && !(reach == Reach::Pinned && buffer.space == own + 1) {
        return Err(Refusal::WrongDevice);
    }
    let lease = buffer.lease().ok_or(Refusal::StaleBuffer)?;
    if bytes > buffer.bytes || bytes == Bytes::ZERO {
        return Err(Refusal::TooSmall);
    }
    Ok(lease.address())
}

impl Stream {
    /// Its number in the trace.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Begins a launch of `kernel`.
    pub fn call<'b>(&self, kernel: &'static Kernel) -> Call<'_, 'b> {
        Call {
            stream: self,
            launch: Launch::new(kernel),
            arguments: [None; MAX_SPANS],
            count: 0,
        }
    }

    /// Copies `bytes` from the program's memory to the start of `to`. They may be reused at once.
    ///
    /// # Errors
    /// As [`Call::submit`].
    pub fn upload(&self, to: &Buffer, bytes: &[u8]) -> Result<(), RuntimeError> {
        let size = Bytes(bytes.len() as u64);
        let span = spans::copy(size, self.id.0);
        let mut state = self.shared.lock();
        let address = state.lease_for(self, "upload", ("to", to), size)?;
        let id = state.next.launch();
        let queue = state.stream(self.id).queue;
        state.devices[self.device].upload(queue, id, address, bytes)?;
        state.issued(self.id, id, [to].into_iter());
        let direction = match state.spaces[to.space].space {
            Space::Device => Direction::HostToDevice,
            Space::Pinned => Direction::HostToHost,
        };
        state
            .probe
            .record_in(&span, self.copied(id, direction, size, [to].into_iter()));
        Ok(())
    }

    /// Waits for this stream and copies the start of `from` to the program's memory.
    ///
    /// # Errors
    /// As [`Call::submit`], and what work before it met.
    pub fn download(&self, from: &Buffer, into: &mut [u8]) -> Result<(), RuntimeError> {
        let size = Bytes(into.len() as u64);
        let span = spans::copy(size, self.id.0);
        let mut state = self.shared.lock();
        let address = state.lease_for(self, "download", ("from", from), size)?;
        let id = state.next.launch();
        let queue = state.stream(self.id).queue;
        state.issued(self.id, id, [from].into_iter());
        let direction = match state.spaces[from.space].space {
            Space::Device => Direction::DeviceToHost,
            Space::Pinned => Direction::HostToHost,
        };
        state
            .probe
            .record_in(&span, self.copied(id, direction, size, [from].into_iter()));
        let result = state.devices[self.device].download(queue, id, address, into);
        state.settle(self.device);
        // A download is over when it returns, also where it failed and the device does not count it as done.
        state.stream(self.id).in_flight.retain(|launch| *launch != id);
        if let Some(earlier) = state.stream(self.id).failure.take() {
            return Err(earlier.into());
        }
        Ok(result?)
    }

    /// Copies the first `bytes` of one buffer to another, either of them pinned or on the device.
    ///
    /// # Errors
    /// As [`Call::submit`].
    pub fn copy(&self, to: &Buffer, from: &Buffer, bytes: Bytes) -> Result<(), RuntimeError> {
        let span = spans::copy(bytes, self.id.0);
        let mut state = self.shared.lock();
        let source = state.lease_for(self, "memcpy", ("from", from), bytes)?;
        let target = state.lease_for(self, "memcpy", ("to", to), bytes)?;
        let pinned = |buffer: &Buffer| state.spaces[buffer.space].space == Space::Pinned;
        let direction = match (pinned(from), pinned(to)) {
            (true, false) => Direction::HostToDevice,
            (false, true) => Direction::DeviceToHost,
            (true, true) => Direction::HostToHost,
            (false, false) => Direction::DeviceToDevice,
        };
        let queue = state.stream(self.id).queue;
        let both = [from, to].into_iter();
        if state.stream(self.id).capture.is_some() {
            let argument = |name, buffer| {
                Some(Argument {
                    name,
                    buffer,
                    access: Access::Read,
                    bytes,
                })
            };
            state.bake(self.id, "memcpy", &[argument("from", from), argument("to", to)]);
            let id = LaunchId(u64::MAX);
            return Ok(state.devices[self.device].copy(queue, id, target, source, bytes)?);
        }
        let id = state.next.launch();
        state.devices[self.device].copy(queue, id, target, source, bytes)?;
        state.issued(self.id, id, both.clone());
        state
            .probe
            .record_in(&span, self.copied(id, direction, bytes, both));
        Ok(())
    }

    /// Waits until all work on this stream is done.
    ///
    /// # Errors
    /// What that work met.
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        let mut state = self.shared.lock();
        Ok(state.synchronize(self.id.0 as usize)?)
    }

    /// Lets later work on this stream wait for what is on `other` now. A queue of one device can't wait for one
    /// of another: there the caller waits.
    ///
    /// # Errors
    /// What the driver says.
    pub fn wait_for(&self, other: &Stream) -> Result<(), RuntimeError> {
        if other.device != self.device {
            return other.synchronize();
        }
        let mut state = self.shared.lock();
        let (queue, theirs) = (state.stream(self.id).queue, state.stream(other.id).queue);
        let mark = state.devices[self.device].mark(theirs)?;
        Ok(state.devices[self.device].wait(queue, mark)?)
    }

    /// States what a quantizer counted: `[blocks, saturated, flushed, nan]`.
    pub fn note_quantized(&self, kernel: &'static str, counts: [u64; 4]) {
        let mut state = self.shared.lock();
        let kernel = state.probe.fixed_name(kernel);
        let [blocks, saturated, flushed, nan] = counts;
        state.probe.record(QuantizeCounted {
            kernel,
            blocks,
            saturated,
            flushed,
            nan,
        });
    }

    fn copied<'b>(
        &self,
        launch: LaunchId,
        direction: Direction,
        bytes: Bytes,
        buffers: impl Iterator<Item = &'b Buffer>,
    ) -> Event {
        CopyIssued {
            launch,
            direction,
            bytes,
            uses: Uses::new(buffers.map(Buffer::id)),
            stream: self.id,
        }
        .into()
    }
}

impl State {
    fn lease_for(
        &mut self,
        stream: &Stream,
        op: &'static str,
        (argument, buffer): (&'static str, &Buffer),
        bytes: Bytes,
    ) -> Result<Address, RuntimeError> {
        check(stream, buffer, bytes, Reach::Pinned).map_err(|refusal| {
            self.refuse(Use {
                refusal,
                op,
                argument,
                buffer,
                bytes,
                device: stream.device,
            })
        })
    }

    /// Books a piece of work as in flight, and its uses of other streams' buffers.
    pub(super) fn issued<'b>(
        &mut self,
        stream: StreamId,
        id: LaunchId,
        buffers: impl Iterator<Item = &'b Buffer>,
    ) {
        self.stream(stream).in_flight.push_back(id);
        for buffer in buffers {
            let slot = &mut self.slots[buffer.slot as usize];
            if slot.stream != stream {
                slot.foreign_uses.retain(|(other, _)| *other != stream);
                slot.foreign_uses.push((stream, id));
            }
        }
    }

    /// Adds a node to the open capture, with the identities of its buffers.
    fn bake(&mut self, stream: StreamId, kernel: &str, arguments: &[Option<Argument<'_>>]) {
        let Some(capture) = self.streams[stream.0 as usize].capture.as_mut() else {
            return;
        };
        let node = capture.nodes;
        capture.nodes += 1;
        for argument in arguments.iter().flatten() {
            let buffer = argument.buffer;
            let known = |baked: &Baked| baked.slot == buffer.slot && baked.generation == buffer.generation;
            if capture.baked.iter().any(known) {
                continue;
            }
            capture.baked.push(Baked {
                slot: buffer.slot,
                generation: buffer.generation,
                owner: self.slots[buffer.slot as usize].owner,
                node,
                argument: format!("{kernel}.{}", argument.name),
                internal: false,
            });
            self.slots[buffer.slot as usize].bakes += 1;
        }
    }

    /// Books what the device has done by now, and completes the releases that waited for it.
    pub(super) fn settle(&mut self, device: usize) {
        let mut done = std::mem::take(&mut self.completions);
        self.devices[device].completions(&mut done);
        for completion in done.drain(..) {
            for stream in &mut self.streams {
                if stream.device == device && stream.in_flight.front() == Some(&completion.launch) {
                    stream.in_flight.pop_front();
                    break;
                }
            }
            self.probe.record(WorkCompleted {
                launch: completion.launch,
                took: completion.took,
            });
        }
        self.completions = done;
        self.complete_releases();
    }

    /// Books what all devices have done by now.
    pub(super) fn settle_all(&mut self) {
        for device in 0..self.devices.len() {
            self.settle(device);
        }
    }

    /// Waits for a stream's work, and books it. What an earlier wait met and could not say is said now.
    pub(super) fn synchronize(&mut self, stream: usize) -> Result<(), DeviceError> {
        let (device, queue) = (self.streams[stream].device, self.streams[stream].queue);
        let result = self.devices[device].synchronize(queue);
        self.settle(device);
        match self.streams[stream].failure.take() {
            Some(earlier) => Err(earlier),
            None => result,
        }
    }

    /// Waits for all work on all streams.
    pub(super) fn synchronize_all(&mut self) -> Result<(), RuntimeError> {
        let mut first = Ok(());
        for index in 0..self.streams.len() {
            if self.streams[index].capture.is_some() {
                continue;
            }
            let result = self.synchronize(index);
            first = first.and(result);
        }
        Ok(first?)
    }
}
