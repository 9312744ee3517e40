//! Shared by the integration tests: any event of any kind, from a seed; plausible runs; a slow, obvious ledger.

use vramscope::base::random::Random;
use vramscope::base::{IdSpace, Nanos, Seq};
use vramscope::event::{Event, FieldSource, Stamped};

#[allow(dead_code)] // not every test binary uses it
pub(crate) mod plausible;
#[allow(dead_code)] // not every test binary uses it
pub(crate) mod reference;
#[allow(dead_code)] // not every test binary uses it
pub(crate) mod script;

/// Gives random field values, small and extreme ones mixed.
struct Arbitrary<'a>(&'a mut Random);

/// The same, with so few identities that events meet.
struct Crowded<'a>(Arbitrary<'a>);

impl Arbitrary<'_> {
    fn pick(&mut self, max: u64) -> u64 {
        let wide = self.0.bits();
        let value = if self.0.one_in(4) {
            wide
        } else {
            wide >> (24 + self.0.below(40))
        };
        if max == u64::MAX { value } else { value % (max + 1) }
    }
}

impl FieldSource for Arbitrary<'_> {
    type Error = std::convert::Infallible;

    fn number(&mut self, _: &'static str) -> Result<u64, Self::Error> {
        Ok(self.pick(u64::MAX))
    }
    fn id(&mut self, _: &'static str, _: IdSpace, max: u64) -> Result<u64, Self::Error> {
        Ok(self.pick(max))
    }
    fn maybe_id(&mut self, _: &'static str, _: IdSpace, max: u64) -> Result<Option<u64>, Self::Error> {
        Ok(if self.0.one_in(2) {
            None
        } else {
            Some(self.pick(max))
        })
    }
    fn ids(&mut self, _: &'static str, _: IdSpace, into: &mut [u32]) -> Result<usize, Self::Error> {
        let count = self.0.below(into.len() as u64 + 1) as usize;
        into[..count].iter_mut().for_each(|id| *id = self.0.bits() as u32);
        Ok(count)
    }
    fn word(&mut self, _: &'static str, vocabulary: &'static [&'static str]) -> Result<u8, Self::Error> {
        Ok(self.0.below(vocabulary.len() as u64) as u8)
    }
    fn text(&mut self, _: &'static str) -> Result<Box<str>, Self::Error> {
        let length = self.0.below(12);
        let letters = ['a', ' ', '=', '"', '\\', '\n', '\u{0}', '\u{7f}', 'é', '漢', '🦀'];
        Ok((0..length)
            .map(|_| letters[self.0.below(letters.len() as u64) as usize])
            .collect::<String>()
            .into())
    }
}

impl FieldSource for Crowded<'_> {
    type Error = std::convert::Infallible;

    fn number(&mut self, name: &'static str) -> Result<u64, Self::Error> {
        if self.0.0.one_in(20) {
            return self.0.number(name);
        }
        Ok(self.0.0.below(4096))
    }
    fn id(&mut self, _: &'static str, space: IdSpace, _: u64) -> Result<u64, Self::Error> {
        let few = if space == IdSpace::Generation { 2 } else { 4 };
        Ok(self.0.0.below(few))
    }
    fn maybe_id(&mut self, name: &'static str, space: IdSpace, max: u64) -> Result<Option<u64>, Self::Error> {
        let some = self.0.0.one_in(2);
        Ok(some.then_some(self.id(name, space, max)?))
    }
    fn ids(&mut self, _: &'static str, _: IdSpace, into: &mut [u32]) -> Result<usize, Self::Error> {
        let count = self.0.0.below(3) as usize;
        into[..count]
            .iter_mut()
            .for_each(|id| *id = self.0.0.below(4) as u32);
        Ok(count)
    }
    fn word(&mut self, name: &'static str, vocabulary: &'static [&'static str]) -> Result<u8, Self::Error> {
        self.0.word(name, vocabulary)
    }
    fn text(&mut self, name: &'static str) -> Result<Box<str>, Self::Error> {
        self.0.text(name)
    }
}

/// Events over few identities, those of memory and pools most often, 1 µs apart.
#[allow(dead_code)] // not every test binary uses it
pub(crate) fn crowded(seed: u64, count: u64) -> Vec<Stamped> {
    let mut random = Random::seeded(seed);
    let often = [10, 11, 12, 12, 12, 15, 16, 17, 18, 21, 22, 22, 24, 40, 41, 41, 44];
    let mut stamped = |seq| {
        let any = Event::KINDS[random.below(Event::KINDS.len() as u64) as usize].tag;
        let tag = if random.one_in(3) {
            any
        } else {
            often[random.below(often.len() as u64) as usize]
        };
        let Some(Ok(event)) = Event::take(tag, &mut Crowded(Arbitrary(&mut random))) else {
            unreachable!("every listed kind has a reader, and this source does not fail")
        };
        Stamped {
            seq: Seq(seq),
            at: Nanos(seq * 1000),
            event,
        }
    };
    (0..count).map(&mut stamped).collect()
}

/// Event number `seq` of the endless sequence that belongs to `seed`.
pub(crate) fn event(seed: u64, seq: u64) -> Event {
    let mut random = Random::seeded(seed ^ seq.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let kind = &Event::KINDS[random.below(Event::KINDS.len() as u64) as usize];
    let Some(Ok(event)) = Event::take(kind.tag, &mut Arbitrary(&mut random)) else {
        unreachable!("every listed kind has a reader, and this source does not fail")
    };
    event
}

/// The first `count` events of that sequence, 1 µs apart.
#[allow(dead_code)] // not every test binary uses it
pub(crate) fn events(seed: u64, count: u64) -> Vec<Stamped> {
    let stamped = |seq| Stamped {
        seq: Seq(seq),
        at: Nanos(seq * 1000),
        event: event(seed, seq),
    };
    (0..count).map(stamped).collect()
}
