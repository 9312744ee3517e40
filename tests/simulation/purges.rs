//! Random purges, and the end of a run.

use vramscope::base::Bytes;
use vramscope::event::{Event, Outcome, Stage};
use vramscope::plan::purge::Profile;
use vramscope::runtime::{Busy, PurgeReport, PurgeRequest, RuntimeError};

use crate::steps::is_injected;
use crate::world::World;

impl World {
    fn request(&mut self) -> PurgeRequest {
        let profile = match self.random.below(7) {
            named @ 0..5 => Profile::NAMED[named as usize].clone(),
            _ => Profile::Custom(
                (0..1 + self.random.below(4))
                    .map(|_| Stage::ALL[self.random.below(Stage::ALL.len() as u64) as usize])
                    .collect(),
            ),
        };
        let threshold = [Bytes(0), Bytes::kib(64), Bytes::mib(1), Bytes::mib(8)];
        PurgeRequest {
            profile,
            threshold: threshold[self.random.below(4) as usize],
            busy: match self.random.below(4) {
                0 => Busy::Refuse,
                1 if self.may_force => Busy::Force,
                _ => Busy::Wait,
            },
        }
    }

    pub(crate) fn purge(&mut self) -> Result<&'static str, String> {
        let request = self.request();
        let kept: Vec<usize> = (0..2).filter(|model| !self.is_flagged(*model)).collect();
        let before: Vec<usize> = kept.iter().map(|model| self.live_weights(*model)).collect();
        let from = self.tape.lock().events.len();
        let result = self.runtime.purge(&request);
        self.note_force(from);
        if self.sources.iter().any(|source| !source.is_alive()) {
            return Err("a reload source was destroyed".to_owned());
        }
        if !self.sources.is_empty() {
            self.seen.note("reload source kept");
        }
        match result {
            Ok(report) => {
                self.seen.note("purged");
                check_claims(&request, &report)?;
            }
            Err(RuntimeError::PurgeRefused { .. }) if request.busy == Busy::Refuse => {
                self.seen.note("purge refused");
            }
            Err(error) if is_injected(&error) => self.seen.note("injected"),
            Err(error) => return Err(format!("a purge failed: {error}")),
        }
        if request.profile == Profile::Selective {
            let after: Vec<usize> = kept.iter().map(|model| self.live_weights(*model)).collect();
            if after != before {
                return Err("a selective purge took weights of a kept model".to_owned());
            }
            if kept.len() == 2 {
                self.check_noop(from)?;
            }
        }
        Ok("purge")
    }

    fn is_flagged(&self, model: usize) -> bool {
        *self.models[model].flagged.lock().expect("no flagging panics")
    }

    fn live_weights(&self, model: usize) -> usize {
        let weights = self.models[model].weights.lock().expect("no clearing panics");
        weights.iter().filter(|weight| weight.is_alive()).count()
    }

    fn note_force(&mut self, from: usize) {
        let tape = self.tape.lock();
        let under_work = |event: &Event| matches!(event, Event::PurgeBegan(began) if began.in_flight > 0);
        self.forced |= tape.events[from..].iter().any(|event| under_work(&event.event));
    }

    fn check_noop(&self, from: usize) -> Result<(), String> {
        let tape = self.tape.lock();
        let mut others = tape.events[from..].iter().filter(|stamped| {
            !matches!(
                stamped.event,
                Event::PurgeBegan(_) | Event::PurgeEnded(_) | Event::NameDefined(_)
            )
        });
        match others.next() {
            None => Ok(()),
            Some(event) => Err(format!("a purge with nothing to do did {event:?}")),
        }
    }

    /// Lets everything go; then nothing may be left anywhere.
    pub(crate) fn close(&mut self) -> Result<(), String> {
        self.graphs.clear();
        self.entries.clear();
        self.buffers.clear();
        self.pinned.clear();
        self.sources.clear();
        let request = PurgeRequest {
            profile: Profile::Full,
            threshold: Bytes(u64::MAX),
            busy: Busy::Wait,
        };
        // Injected faults may stop some of these.
        let cleared = (0..100).any(|_| self.runtime.purge(&request).is_ok());
        if !cleared {
            return Err("no purge of 100 gets through".to_owned());
        }
        let held: Bytes = self.runtime.bytes_held().into_values().sum();
        let reserved: Bytes = self.runtime.bytes_reserved().into_values().map(|(r, _)| r).sum();
        if held != Bytes::ZERO || reserved != Bytes::ZERO {
            return Err(format!("{} are held, {} reserved at the end", held.0, reserved.0));
        }
        match self.runtime.end(Outcome::Complete) {
            Err(error) if !is_injected(&error) => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}

/// Nobody may claim more than the books say went away, as long as nothing runs meanwhile.
fn check_claims(request: &PurgeRequest, report: &PurgeReport) -> Result<(), String> {
    let over = report
        .stages
        .iter()
        .find(|stage| i128::from(stage.claimed.0) > stage.allocator);
    match over {
        Some(stage) if request.busy != Busy::Force => {
            Err(format!("more is claimed than went away: {stage:?}\n{report}"))
        }
        _ => Ok(()),
    }
}
