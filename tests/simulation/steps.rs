//! Random operations, each with what may come of it.

use std::cell::RefCell;
use std::sync::Arc;

use vramscope::base::{BufferId, Bytes, Generation};
use vramscope::device::{DeviceError, HostArguments, Kernel, KernelFault};
use vramscope::event::Refusal;
use vramscope::runtime::{Buffer, Entry, RuntimeError};

use crate::world::{Loose, World};

static TOUCH: Kernel = Kernel {
    name: "touch",
    host: nothing,
};

fn nothing(_: &mut HostArguments<'_>) -> Result<(), KernelFault> {
    Ok(())
}

type Step = Result<&'static str, String>;

pub(crate) type Identity = (BufferId, Generation);

fn identity(buffer: &Buffer) -> Identity {
    (buffer.id(), buffer.generation())
}

/// The device of a stream: two streams are on the first one.
fn device_of(stream: usize) -> usize {
    stream / 2
}

pub(crate) fn is_injected(error: &RuntimeError) -> bool {
    matches!(error, RuntimeError::Device(DeviceError::Injected(_)))
}

impl World {
    pub(crate) fn step(&mut self) -> Step {
        match self.random.below(26) {
            0..5 => self.allocate(),
            5..8 => self.release(),
            8..12 => self.use_some(),
            12..14 => self.copy(),
            14 => self.transfer(),
            15..17 => self.take(),
            17 => self.drop_entry(),
            18..20 => self.capture(),
            20..22 => self.replay(),
            22 => self.run_cached(),
            23 => self.load_model(),
            24 => self.synchronize(),
            _ => self.purge(),
        }
    }

    fn pick(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    fn accesses(&self) -> u64 {
        self.truths.iter().map(|truth| truth.accesses()).sum()
    }

    pub(crate) fn has_storage(&self, (id, generation): Identity) -> bool {
        self.tape.lock().ledger.memory().storage(id, generation).is_some()
    }

    /// Lets `stream` wait for whoever used these last, as a program has to. What was never used is of the pool
    /// or a model: those allocate on the first stream.
    fn order(&self, stream: usize, used: &[Identity]) -> Result<(), String> {
        for used in used {
            let other = self.last.get(used).copied().unwrap_or(0);
            if other != stream && device_of(other) == device_of(stream) {
                let waited = self.streams[stream].wait_for(&self.streams[other]);
                waited.map_err(|error| format!("waiting failed: {error}"))?;
            }
        }
        Ok(())
    }

    fn used(&mut self, stream: usize, used: &[Identity]) {
        self.last.extend(used.iter().map(|used| (*used, stream)));
    }

    /// Holds an operation's result against what must come of it; true where it was done.
    fn judge(
        &mut self,
        result: Result<(), RuntimeError>,
        expected: Option<Refusal>,
        accesses: u64,
    ) -> Result<bool, String> {
        match (result, expected) {
            (Ok(()), None) => Ok(true),
            (Err(RuntimeError::Refused(found)), Some(expected)) => {
                let torn = found.refusal == Refusal::TornEntry;
                if found.refusal != expected && !(torn && expected == Refusal::StaleBuffer) {
                    return Err(format!("{expected} was refused as {}", found.refusal));
                }
                self.seen.note(match found.refusal {
                    Refusal::StaleBuffer => "stale use",
                    Refusal::TornEntry => "torn",
                    Refusal::StaleGraph => "stale replay",
                    Refusal::WrongDevice => "wrong device",
                    Refusal::TooSmall => "too small",
                });
                if self.accesses() != accesses {
                    return Err("a refused use reached the device".to_owned());
                }
                Ok(false)
            }
            (Err(error), None) if is_injected(&error) => {
                self.seen.note("injected");
                Ok(false)
            }
            (result, expected) => Err(format!("{result:?} where {expected:?} is to be refused")),
        }
    }

    fn kept<T>(&mut self, result: Result<T, RuntimeError>) -> Result<Option<T>, String> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(RuntimeError::OutOfMemory(_)) => {
                self.seen.note("no memory");
                Ok(None)
            }
            Err(error) if is_injected(&error) => {
                self.seen.note("injected");
                Ok(None)
            }
            Err(error) => Err(format!("an allocation failed: {error}")),
        }
    }

    fn size(&mut self) -> Bytes {
        let most = [4 << 10, 1 << 20, 3 << 20, 14 << 20][self.pick(4)];
        Bytes(1 + self.random.below(most))
    }

    fn allocate(&mut self) -> Step {
        let (stream, owner, size) = (self.pick(3), self.pick(3), self.size());
        let owner = self.owners[owner];
        let pinned = self.random.one_in(4);
        let at = self.streams[stream].clone();
        let result = if pinned {
            self.runtime.allocate_pinned(&at, owner, "some", size)
        } else {
            self.runtime.allocate(&at, owner, "some", size)
        };
        if let Some(buffer) = self.kept(result)? {
            self.last.insert(identity(&buffer), stream);
            let list = if pinned {
                &mut self.pinned
            } else {
                &mut self.buffers
            };
            list.push(buffer);
        }
        Ok("allocate")
    }

    fn release(&mut self) -> Step {
        let pinned = self.random.one_in(4);
        let place = self.random.bits() as usize;
        let list = if pinned {
            &mut self.pinned
        } else {
            &mut self.buffers
        };
        if !list.is_empty() {
            let place = place % list.len();
            drop(list.swap_remove(place));
        }
        Ok("release")
    }

    fn use_some(&mut self) -> Step {
        let stream = self.pick(3);
        let mut order: Vec<usize> = (0..self.buffers.len()).collect();
        let mut picked = Vec::new();
        for _ in 0..1 + self.pick(3) {
            if !order.is_empty() {
                picked.push(order.swap_remove(self.random.below(order.len() as u64) as usize));
            }
        }
        let used: Vec<Identity> = picked.iter().map(|i| identity(&self.buffers[*i])).collect();
        self.order(stream, &used)?;
        let accesses = self.accesses();
        let mut call = self.streams[stream].call(&TOUCH);
        let mut expected = None;
        for index in picked {
            let buffer = &self.buffers[index];
            let excess = u64::from(self.random.one_in(30));
            let bytes = buffer.bytes().0 + excess;
            expected = expected.or(if buffer.device().0 as usize != device_of(stream) * 2 {
                Some(Refusal::WrongDevice)
            } else if !buffer.is_alive() {
                Some(Refusal::StaleBuffer)
            } else {
                (excess > 0).then_some(Refusal::TooSmall)
            });
            call = if self.random.one_in(2) {
                call.read("in", buffer, bytes)
            } else {
                call.write("out", buffer, bytes)
            };
        }
        let result = call.submit();
        if self.judge(result, expected, accesses)? {
            self.used(stream, &used);
            self.seen.note("used");
        }
        Ok("use")
    }

    fn copy(&mut self) -> Step {
        if self.buffers.is_empty() || self.pinned.is_empty() {
            return Ok("copy");
        }
        let (stream, a, b) = (
            self.pick(3),
            self.pick(self.buffers.len()),
            self.pick(self.pinned.len()),
        );
        let used = [identity(&self.buffers[a]), identity(&self.pinned[b])];
        self.order(stream, &used)?;
        let accesses = self.accesses();
        let (on_device, pinned) = (&self.buffers[a], &self.pinned[b]);
        let down = self.random.one_in(2);
        let (to, from) = if down {
            (pinned, on_device)
        } else {
            (on_device, pinned)
        };
        let expected = [from, to].into_iter().find_map(|buffer| {
            if buffer.device().0 as usize / 2 != device_of(stream) {
                Some(Refusal::WrongDevice)
            } else {
                (!buffer.is_alive()).then_some(Refusal::StaleBuffer)
            }
        });
        let result = self.streams[stream].copy(to, from, to.bytes().min(from.bytes()));
        if self.judge(result, expected, accesses)? {
            self.used(stream, &used);
        }
        Ok("copy")
    }

    /// An upload or a download.
    fn transfer(&mut self) -> Step {
        if self.buffers.is_empty() {
            return Ok("transfer");
        }
        let place = self.pick(self.buffers.len());
        let buffer = &self.buffers[place];
        let stream = (0..3)
            .find(|s| device_of(*s) * 2 == buffer.device().0 as usize)
            .ok_or("no stream")?;
        let used = [identity(buffer)];
        self.order(stream, &used)?;
        let accesses = self.accesses();
        let expected = (!buffer.is_alive()).then_some(Refusal::StaleBuffer);
        let mut bytes = vec![0; buffer.bytes().0.min(64) as usize];
        let result = if self.random.one_in(2) {
            self.streams[stream].upload(buffer, &bytes)
        } else {
            self.streams[stream].download(buffer, &mut bytes)
        };
        if self.judge(result, expected, accesses)? {
            self.used(stream, &used);
        }
        Ok("transfer")
    }

    fn take(&mut self) -> Step {
        let key = self.random.below(7);
        let bytes = Bytes((key + 1) * 400_000);
        let parts = [("qx", bytes), ("scales", Bytes(bytes.0 / 8))];
        let taken = self.pool.take(&key, &parts);
        let Some(entry) = self.kept(taken)? else {
            return Ok("take");
        };
        self.seen.note("taken");
        self.use_entry(&entry)?;
        if self.random.one_in(2) {
            self.entries.push(entry);
        }
        Ok("take")
    }

    fn use_entry(&mut self, entry: &Entry) -> Result<(), String> {
        let parts = [entry.part(0), entry.part(1)];
        let used = parts.map(identity);
        self.order(0, &used)?;
        let accesses = self.accesses();
        let dead = parts.iter().any(|part| !part.is_alive());
        let call = self.streams[0].call(&TOUCH);
        let result = call
            .write("qx", parts[0], parts[0].bytes().0)
            .write("scales", parts[1], parts[1].bytes().0)
            .submit();
        if self.judge(result, dead.then_some(Refusal::StaleBuffer), accesses)? {
            self.used(0, &used);
        }
        Ok(())
    }

    fn drop_entry(&mut self) -> Step {
        if !self.entries.is_empty() {
            let place = self.pick(self.entries.len());
            let entry = self.entries.swap_remove(place);
            self.use_entry(&entry)?;
        }
        Ok("drop an entry")
    }

    /// What a capture launches: some live buffers, and one that is allocated and let go inside.
    fn capture_work(
        &self,
        stream: usize,
        chosen: &[&Buffer],
        inside: Option<Bytes>,
        baked: &RefCell<Vec<Identity>>,
    ) -> Result<(), RuntimeError> {
        let at = &self.streams[stream];
        for buffer in chosen {
            at.call(&TOUCH).write("x", buffer, buffer.bytes().0).submit()?;
            baked.borrow_mut().push(identity(buffer));
        }
        if let Some(size) = inside {
            let buffer = self
                .runtime
                .allocate(at, self.owners[1], "inside a capture", size)?;
            at.call(&TOUCH).write("x", &buffer, size.0).submit()?;
            baked.borrow_mut().push(identity(&buffer));
        }
        Ok(())
    }

    /// Live buffers of a stream's device, by place; entries and weights among them.
    fn choose<'w>(&'w self, stream: usize, from: u64, weights: &'w [Buffer]) -> Vec<&'w Buffer> {
        let parts = self
            .entries
            .iter()
            .flat_map(|entry| [entry.part(0), entry.part(1)]);
        let all: Vec<&Buffer> = self.buffers.iter().chain(parts).chain(weights).collect();
        let fits =
            |buffer: &&&Buffer| buffer.is_alive() && buffer.device().0 as usize == device_of(stream) * 2;
        let start = from as usize % all.len().max(1);
        all[start..].iter().filter(fits).take(3).copied().collect()
    }

    fn capture(&mut self) -> Step {
        let (stream, from, size) = (self.pick(3), self.random.bits(), self.size());
        let inside = self.random.one_in(2).then_some(size);
        let baked = RefCell::default();
        let result = {
            let weights = self.models[0].weights.lock().map_err(|e| e.to_string())?;
            let chosen = self.choose(stream, from, &weights);
            self.streams[stream].capture("loose", || self.capture_work(stream, &chosen, inside, &baked))
        };
        if let Some(graph) = self.kept(result)? {
            let baked = baked.into_inner();
            self.graphs.push(Loose { graph, stream, baked });
        }
        if self.graphs.len() > 4 {
            let place = self.pick(self.graphs.len());
            drop(self.graphs.swap_remove(place));
        }
        Ok("capture")
    }

    fn replay(&mut self) -> Step {
        if self.graphs.is_empty() {
            return Ok("replay");
        }
        let place = self.pick(self.graphs.len());
        let (stream, baked) = (self.graphs[place].stream, self.graphs[place].baked.clone());
        self.order(stream, &baked)?;
        let stale = baked.iter().any(|baked| !self.has_storage(*baked));
        if stale != self.graphs[place].graph.is_stale() {
            return Err(format!(
                "the ledger says that stale is {stale}, the graph says not"
            ));
        }
        let accesses = self.accesses();
        let result = self.graphs[place].graph.replay();
        if self.judge(result, stale.then_some(Refusal::StaleGraph), accesses)? {
            self.used(stream, &baked);
            self.seen.note("replayed");
        }
        Ok("replay")
    }

    fn run_cached(&mut self) -> Step {
        let (stream, from, number) = (self.pick(2), self.random.bits(), self.random.below(40));
        let key = format!("stream={stream} number={number}");
        // A hit replays what an earlier capture baked, which may have been used anywhere since.
        let old = self.cached.get(&key).cloned().unwrap_or_default();
        self.order(stream, &old)?;
        let baked = RefCell::default();
        let result = {
            let weights = self.models[1].weights.lock().map_err(|e| e.to_string())?;
            let chosen = self.choose(stream, from, &weights);
            let new: Vec<Identity> = chosen.iter().map(|buffer| identity(buffer)).collect();
            self.order(stream, &new)?;
            let cache = Arc::clone(&self.cache);
            cache.run(&self.streams[stream], &key, || {
                // Nothing is taken from chance inside: whether this runs depends on the cache.
                self.capture_work(stream, &chosen, None, &baked)?;
                self.seen_capture.set(true);
                Ok(())
            })
        };
        let captured = self.seen_capture.take();
        let baked: Vec<Identity> = if captured { baked.into_inner() } else { old };
        let stale = !captured && baked.iter().any(|baked| !self.has_storage(*baked));
        match result {
            Ok(()) if stale => return Err("a stale graph was replayed".to_owned()),
            Ok(()) => self.used(stream, &baked),
            Err(RuntimeError::Refused(_)) if stale => self.seen.note("stale replay"),
            Err(error) if is_injected(&error) => self.seen.note("injected"),
            Err(error) => return Err(format!("a cached graph failed: {error}")),
        }
        self.cached.insert(key, baked);
        Ok("run a cached graph")
    }

    fn load_model(&mut self) -> Step {
        let which = self.pick(2);
        let (at, owner) = (self.streams[0].clone(), self.models[which].owner);
        *self.models[which].flagged.lock().map_err(|e| e.to_string())? = self.random.one_in(3);
        for _ in 0..2 {
            let size = self.size();
            let result = self.runtime.allocate(&at, owner, "weight", size);
            if let Some(weight) = self.kept(result)? {
                let mut weights = self.models[which].weights.lock().map_err(|e| e.to_string())?;
                weights.push(weight);
                let over = weights.len().saturating_sub(4);
                weights.drain(..over);
            }
        }
        let pins = self.owners[2];
        let result = self.runtime.allocate_pinned(&at, pins, "source", Bytes::kib(64));
        if let Some(source) = self.kept(result)? {
            self.runtime.keep_reload_source(owner, "weight", &source);
            self.sources.push(source);
        }
        Ok("load a model")
    }

    fn synchronize(&mut self) -> Step {
        let stream = self.pick(3);
        let (result, accesses) = (self.streams[stream].synchronize(), self.accesses());
        self.judge(result, None, accesses)?;
        Ok("synchronize")
    }
}
