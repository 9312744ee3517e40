//! Purge profiles: the stages that each runs, in the vocabulary of the tools that people use.

use std::fmt;
use std::str::FromStr;

use crate::base::Bytes;
use crate::event::{Field, Stage};

/// Stage 0s kills what is left of executor caches from this size on.
pub const EXECUTOR_KILL_THRESHOLD: Bytes = Bytes::mib(4);

/// Stage 3 kills from this size on, in the tools that people use.
pub const KILL_THRESHOLD: Bytes = Bytes::mib(1);

/// Which purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Profile {
    /// All stages, every owner.
    Full,
    /// As `full`, but stage 2c clears only the GEMM workspaces. Reproduces a released bug.
    KitchenOnly,
    /// As `full`, without stage 2c. Reproduces a released bug.
    NoOwnerCaches,
    /// Unload models, then return cached memory.
    Soft,
    /// Only models flagged for ejection; nothing flagged does nothing.
    Selective,
    /// These stages, in this order.
    Custom(Vec<Stage>),
}

/// Whom a stage tells to clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every owner whose duty stage it is.
    Every,
    /// Only GEMM workspaces.
    Workspaces,
    /// Only models flagged for ejection, and the graphs that baked their buffers.
    Flagged,
}

/// One stage of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The stage.
    pub stage: Stage,
    /// Whom it tells to clear.
    pub scope: Scope,
}

/// The order in which the tools run their stages.
const ORDER: [Stage; 11] = [
    Stage::PinPool,
    Stage::ExecutorCaches,
    Stage::UnloadModels,
    Stage::UnregisterPins,
    Stage::StorageKill,
    Stage::PinPool,
    Stage::ExecutorCaches,
    Stage::UnregisterPinsAgain,
    Stage::OwnerCaches,
    Stage::Rearm,
    Stage::ReturnCached,
];

impl Profile {
    /// The named profiles.
    pub const NAMED: [Profile; 5] = [
        Profile::Full,
        Profile::KitchenOnly,
        Profile::NoOwnerCaches,
        Profile::Soft,
        Profile::Selective,
    ];

    /// Whether graphs go before the pools, workspaces and models whose addresses they baked, in every stage.
    /// The two profiles that reproduce released bugs don't.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        !matches!(self, Profile::KitchenOnly | Profile::NoOwnerCaches)
    }

    /// The stages in order. `flagged` is whether any model is flagged for ejection.
    #[must_use]
    pub fn steps(&self, flagged: bool) -> Vec<Step> {
        let every = |stage| Step {
            stage,
            scope: Scope::Every,
        };
        match self {
            Profile::Full => ORDER.map(every).to_vec(),
            Profile::KitchenOnly => ORDER
                .map(|stage| Step {
                    stage,
                    scope: if stage == Stage::OwnerCaches {
                        Scope::Workspaces
                    } else {
                        Scope::Every
                    },
                })
                .to_vec(),
            Profile::NoOwnerCaches => {
                let kept = ORDER.into_iter().filter(|stage| *stage != Stage::OwnerCaches);
                kept.map(every).collect()
            }
            Profile::Soft => [Stage::UnloadModels, Stage::ReturnCached].map(every).to_vec(),
            Profile::Selective if !flagged => Vec::new(),
            Profile::Selective => [Stage::UnloadModels, Stage::ReturnCached]
                .map(|stage| Step {
                    stage,
                    scope: Scope::Flagged,
                })
                .to_vec(),
            Profile::Custom(stages) => stages.iter().copied().map(every).collect(),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Full => "full",
            Profile::KitchenOnly => "kitchen-only",
            Profile::NoOwnerCaches => "no-owner-caches",
            Profile::Soft => "soft",
            Profile::Selective => "selective",
            Profile::Custom(stages) => {
                let words: Vec<&str> = stages.iter().map(|stage| stage.word()).collect();
                return f.write_str(&words.join(","));
            }
        })
    }
}

/// A text that is neither a profile nor a list of stages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no purge: use full, kitchen-only, no-owner-caches, soft, selective, or stages such as 0s,1,3,2c,return"
)]
pub struct ParseProfileError(String);

impl FromStr for Profile {
    type Err = ParseProfileError;

    fn from_str(text: &str) -> Result<Profile, ParseProfileError> {
        if let Some(named) = Profile::NAMED.iter().find(|profile| profile.to_string() == text) {
            return Ok(named.clone());
        }
        let stage = |word: &str| {
            let index = Stage::WORDS.iter().position(|known| *known == word.trim());
            index.map(|index| Stage::ALL[index])
        };
        let stages: Option<Vec<Stage>> = text.split(',').map(stage).collect();
        stages
            .map(Profile::Custom)
            .ok_or_else(|| ParseProfileError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Profile, Scope};
    use crate::event::Stage;

    fn words(text: &str, flagged: bool) -> String {
        let steps = text.parse::<Profile>().unwrap().steps(flagged);
        let words: Vec<&str> = steps.iter().map(|step| step.stage.word()).collect();
        words.join(" ")
    }

    #[test]
    fn profiles_run_the_stages_of_the_tools() {
        assert_eq!(words("full", false), "0 0s 1 2 3 0 0s 2b 2c 2d return");
        assert_eq!(words("kitchen-only", false), words("full", false));
        assert_eq!(words("no-owner-caches", false), "0 0s 1 2 3 0 0s 2b 2d return");
        assert_eq!(words("soft", false), "1 return");
        assert_eq!(words("3,2c", false), "3 2c");
        assert!("3,9".parse::<Profile>().is_err());
    }

    #[test]
    fn selective_without_a_flagged_model_does_nothing() {
        assert_eq!(words("selective", false), "");
        assert_eq!(words("selective", true), "1 return");
    }

    #[test]
    fn kitchen_only_clears_workspaces_and_nothing_else_in_2c() {
        let steps = Profile::KitchenOnly.steps(false);
        let scope = |stage| {
            steps
                .iter()
                .find(|step| step.stage == stage)
                .map(|step| step.scope)
        };
        assert_eq!(scope(Stage::OwnerCaches), Some(Scope::Workspaces));
        assert_eq!(scope(Stage::UnloadModels), Some(Scope::Every));
    }
}
