//! Models: when their weights were on the device, and the host copies that their next load will read.

use std::collections::BTreeMap;

use crate::base::{BufferId, Bytes, Generation, NameId, OwnerId, PurgeId};
use crate::event::{ReleaseCause, ReloadSourceKept, Stage};
use crate::ledger::anomaly::{Anomalies, Why};
use crate::ledger::digest::digest;
use crate::ledger::limits;
use crate::ledger::mark::Mark;

/// One model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// How often it was loaded.
    pub loads: u64,
    /// How often it was unloaded.
    pub unloads: u64,
    /// Its last load.
    pub loaded: Option<Mark>,
    /// Its last unload.
    pub unloaded: Option<Mark>,
    /// Whether its weights are on the device, by its own word.
    pub resident: bool,
}
digest!(Model {
    loads,
    unloads,
    loaded,
    unloaded,
    resident
});

/// How a host copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When.
    pub mark: Mark,
    /// Its bytes, without rounding.
    pub bytes: Bytes,
    /// Why it was released; absent where it was killed.
    pub cause: Option<ReleaseCause>,
    /// The purge and stage that killed it; absent where it was released.
    pub kill: Option<(PurgeId, Stage)>,
}
digest!(Loss {
    mark,
    bytes,
    cause,
    kill
});

/// A host copy that the next load of a model will read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The model.
    pub model: OwnerId,
    /// The tensor.
    pub tensor: NameId,
    /// When it was named as a source.
    pub kept: Mark,
    /// How it ended, where it did.
    pub lost: Option<Loss>,
}
digest!(Source {
    model,
    tensor,
    kept,
    lost
});

/// All models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Models {
    models: BTreeMap<OwnerId, Model>,
    sources: BTreeMap<(BufferId, Generation), Source>,
}
digest!(Models { models, sources });

impl Models {
    /// Models by the owner of their weights.
    #[must_use]
    pub fn models(&self) -> &BTreeMap<OwnerId, Model> {
        &self.models
    }

    /// Host copies by slot and generation.
    #[must_use]
    pub fn sources(&self) -> &BTreeMap<(BufferId, Generation), Source> {
        &self.sources
    }

    fn row(&mut self, mark: Mark, id: OwnerId, odd: &mut Anomalies) -> Option<&mut Model> {
        if self.models.len() >= limits::MODELS && !self.models.contains_key(&id) {
            odd.add(mark.seq, Why::OverLimit);
            return None;
        }
        Some(self.models.entry(id).or_default())
    }

    pub(crate) fn loaded(&mut self, mark: Mark, id: OwnerId, odd: &mut Anomalies) {
        if let Some(model) = self.row(mark, id, odd) {
            model.loads += 1;
            (model.loaded, model.resident) = (Some(mark), true);
        }
    }

    pub(crate) fn unloaded(&mut self, mark: Mark, id: OwnerId, odd: &mut Anomalies) {
        if !self.models.get(&id).is_some_and(|model| model.resident) {
            odd.add(mark.seq, Why::UnknownModel);
        }
        if let Some(model) = self.row(mark, id, odd) {
            model.unloads += 1;
            (model.unloaded, model.resident) = (Some(mark), false);
        }
    }

    pub(crate) fn source_kept(&mut self, mark: Mark, e: &ReloadSourceKept, odd: &mut Anomalies) {
        let key = (e.buffer, e.generation);
        if self.sources.len() >= limits::SOURCES && !self.sources.contains_key(&key) {
            return odd.add(mark.seq, Why::OverLimit);
        }
        let source = Source {
            model: e.model,
            tensor: e.tensor,
            kept: mark,
            lost: None,
        };
        self.sources.insert(key, source);
    }

    /// The storage of a slot is gone.
    pub(crate) fn gone(&mut self, place: (BufferId, Generation), loss: Loss) {
        if let Some(source) = self.sources.get_mut(&place) {
            source.lost.get_or_insert(loss);
        }
    }
}
