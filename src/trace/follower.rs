//! Reads a trace while it is being written.

use std::collections::VecDeque;
use std::io::{Read, Seek};

use crate::event::Stamped;
use crate::trace::block::{Cursor, Frame, KeptHead};
use crate::trace::codec::Bases;
use crate::trace::format::{BlockHead, BlockKind, COMMITTED, HEADER, Header, SLOT, TraceError, word};
use crate::trace::source::{Index, Source};

/// How often a block is read again before its checksum is called wrong. A writer that reuses a slot changes its
/// committed word first, so that a read that met this differs at the next try.
const TRIES: usize = 16;

/// What following gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The next event.
    Event(Stamped),
    /// The writer's ring went past the place of reading. Forget all state: what follows is a new beginning, first a
    /// [`Gap`](crate::event::Gap), then kept events, then all from there on.
    Restarted,
    /// Nothing new for now.
    Nothing,
    /// The trace ended and all of it was given.
    Ended,
}

/// Gives the events of a trace that grows, also of a ring. Never waits; holds one block, after a restart the kept events.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use vramscope::trace::{Followed, Follower};
/// let mut follower = Follower::open(std::fs::File::open("run.vtrace")?)?;
/// loop {
///     match follower.poll()? {
///         Followed::Event(stamped) => println!("{}", stamped.seq),
///         Followed::Restarted => println!("too slow, starting over"),
///         Followed::Nothing => std::thread::sleep(std::time::Duration::from_millis(100)),
///         Followed::Ended => return Ok(()),
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Follower<R> {
    source: Source<R>,
    header: Header,
    ring: bool,
    ready: VecDeque<Stamped>,
    place: Option<Place>,
    bases: Bases,
    /// Whether events were given that a restart makes void.
    given: bool,
    ended: bool,
}

/// How far one block was read.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: usize,
    first_seq: u64,
    cursor: Cursor,
    /// Payload bytes read.
    done: usize,
}

/// What a block is when it is looked at.
enum Look {
    Same { grown: bool },
    Other,
}

impl<R: Read + Seek> Follower<R> {
    /// Reads the header. A file whose header is not written yet is not a trace yet.
    ///
    /// # Errors
    /// [`TraceError`]: unreadable, not a trace, too new.
    pub fn open(input: R) -> Result<Follower<R>, TraceError> {
        let mut source = Source::new(input);
        let (header, kind, _) = source.header()?;
        Ok(Follower {
            source,
            header,
            ring: kind == BlockKind::RingHeader,
            ready: VecDeque::new(),
            place: None,
            bases: Bases::new(),
            given: false,
            ended: false,
        })
    }

    /// What the trace says of its run.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next event, or why there is none.
    ///
    /// # Errors
    /// What the system says, or [`TraceError::Damaged`].
    pub fn poll(&mut self) -> Result<Followed, TraceError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.given = true;
                return Ok(Followed::Event(event));
            }
            if self.ended {
                return Ok(Followed::Ended);
            }
            let Some(place) = self.place else {
                if !self.begin()? {
                    return Ok(Followed::Nothing);
                }
                continue;
            };
            match self.read_on(place)? {
                Look::Same { grown: true } => {}
                Look::Same { grown: false } => {
                    if !self.go_on(place)? {
                        return Ok(Followed::Nothing);
                    }
                }
                Look::Other => {
                    self.place = None;
                    if std::mem::take(&mut self.given) {
                        return Ok(Followed::Restarted);
                    }
                }
            }
        }
    }

    /// Finds the first block, and in a ring what is kept before it. False where the writer has got no further, or where
    /// it changed the file meanwhile.
    fn begin(&mut self) -> Result<bool, TraceError> {
        if !self.ring {
            return Ok(self.enter(1, 0)? || self.ends(1, 0)?);
        }
        let index = self.source.index()?;
        let from = index.start.map_or(0, |start| start.from.0);
        let first = index.events.first().filter(|(first, _)| *first == from);
        if let Some((_, slot)) = first.copied()
            && self.take_kept(&index)?
            && self.enter(slot, from)?
        {
            return Ok(true);
        }
        self.ready.clear();
        if !index.events.is_empty() && self.source.index()? == index {
            // At any instant there is a whole beginning, unless the writer changes it just now.
            let (offset, reason) = (SLOT as u64, "ring has no whole beginning");
            return Err(TraceError::Damaged { offset, reason });
        }
        Ok(false)
    }

    /// Reads the gap and the kept events. False where they are no more what the index says.
    fn take_kept(&mut self, index: &Index) -> Result<bool, TraceError> {
        self.ready.extend(index.start.and_then(|start| start.gap()));
        for slot in &index.kept {
            let block = BlockHead::open(self.source.slot(*slot)?).ok();
            let frames = block.and_then(|(head, payload)| {
                let (kept, frames) = KeptHead::read(head, payload)?;
                (Some(kept.start) == index.start).then_some((head, frames))
            });
            let Some((head, mut frames)) = frames else {
                return Ok(false);
            };
            self.bases.reset();
            let mut cursor = Cursor::new(head);
            while let Some(frame) = cursor.next(&mut frames, &mut self.bases) {
                if let Frame::Event(stamped) = frame {
                    self.ready.push_back(stamped);
                }
            }
        }
        Ok(true)
    }

    /// Goes to a block of events, where the slot holds one that begins with `first_seq`.
    fn enter(&mut self, slot: usize, first_seq: u64) -> Result<bool, TraceError> {
        let Some(bytes) = self.source.head(slot)? else {
            return Ok(false);
        };
        let head = BlockHead::parse(&bytes).ok().filter(|head| {
            head.kind == BlockKind::Events && word(&bytes, COMMITTED) != 0 && head.first_seq == first_seq
        });
        if let Some(head) = head {
            self.bases.reset();
            self.place = Some(Place {
                slot,
                first_seq: head.first_seq,
                cursor: Cursor::new(head),
                done: 0,
            });
        }
        Ok(head.is_some())
    }

    /// Reads what was written to the block since.
    fn read_on(&mut self, mut place: Place) -> Result<Look, TraceError> {
        let offset = place.slot as u64 * SLOT as u64;
        let damaged = |reason| TraceError::Damaged { offset, reason };
        let mut why = "block checksum does not match";
        for _ in 0..TRIES {
            let bytes = self.source.slot(place.slot)?;
            if bytes.len() == SLOT && word(bytes, COMMITTED) == 0 {
                return Ok(Look::Other);
            }
            let (head, payload) = match BlockHead::open(bytes) {
                Ok(open) => open,
                Err(reason) => {
                    why = reason;
                    continue;
                }
            };
            if (head.kind, head.first_seq) != (BlockKind::Events, place.first_seq) {
                return Ok(Look::Other);
            }
            let Some(mut rest) = payload.get(place.done..) else {
                return Ok(Look::Other);
            };
            let grown = !rest.is_empty();
            place.done = payload.len();
            while let Some(frame) = place.cursor.next(&mut rest, &mut self.bases) {
                match frame {
                    Frame::Event(stamped) => self.ready.push_back(stamped),
                    Frame::Unknown => {}
                    Frame::Bad(reason) => {
                        self.place = Some(place);
                        return Err(damaged(reason));
                    }
                }
            }
            self.place = Some(place);
            return Ok(Look::Same { grown });
        }
        Err(damaged(why))
    }

    /// From a block that has nothing new to the one after it. False where there is none yet.
    fn go_on(&mut self, place: Place) -> Result<bool, TraceError> {
        let next = place.cursor.seq();
        if !self.ring {
            let slot = place.slot + 1;
            if self.enter(slot, next)? {
                return Ok(true);
            }
            return self.ends(slot, next);
        }
        let mut slot = 1;
        while let Some(bytes) = self.source.head(slot)? {
            if slot != place.slot
                && starts(&bytes, next)
                && (self.enter(slot, next)? || self.ends(slot, next)?)
            {
                return Ok(true);
            }
            slot += 1;
        }
        Ok(false)
    }

    /// Whether the slot holds the last block, behind event `next`.
    fn ends(&mut self, slot: usize, next: u64) -> Result<bool, TraceError> {
        let block = BlockHead::open(self.source.slot(slot)?).ok();
        self.ended = block.is_some_and(|(head, _)| {
            matches!(head.kind, BlockKind::Trailer | BlockKind::CutEnd) && head.first_seq == next
        });
        Ok(self.ended)
    }
}

/// Whether a block of events or the last one may begin with event `next`.
fn starts(bytes: &[u8; HEADER], next: u64) -> bool {
    word(bytes, COMMITTED) != 0 && word(bytes, 8) == next
}
