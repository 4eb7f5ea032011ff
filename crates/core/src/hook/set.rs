//! The hooks of one run, in calling order.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{HookCapability, HookEntry, HookMode};
use crate::{HookPoint, excerpt};

/// The hooks of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookSet {
    entries: Vec<Arc<HookEntry>>,
}

/// Invalid hooks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookSetError {
    /// A hook has no id.
    #[error("a hook has an empty `id`")]
    NoId,
    /// A guardrail would run after the operation it guards has started.
    #[error(
        "the hook `{}` is a background guardrail at `{point}`, where it cannot deny in time; make it \
         `foreground` or `observe`",
        excerpt(id)
    )]
    TooLate {
        /// Id of the hook.
        id: String,
        /// Point at which it is called.
        point: String,
    },
    /// A disabled hook does not exist.
    #[error("unknown hook `{}` in `hooks_override.disable`", excerpt(.0))]
    Unknown(String),
}

impl HookSet {
    /// Combines the hooks of a config with those of a run, minus those that the run disables.
    ///
    /// # Errors
    /// Returns an error if a hook is invalid.
    pub fn new(base: &[HookEntry], added: Vec<HookEntry>, disabled: &[String]) -> Result<Self, HookSetError> {
        let known: BTreeSet<_> = base.iter().map(|entry| entry.id.as_str()).collect();
        if let Some(id) = disabled.iter().find(|id| !known.contains(id.as_str())) {
            return Err(HookSetError::Unknown(id.clone()));
        }
        let inherited = base.iter().filter(|entry| !disabled.contains(&entry.id)).cloned();
        let mut entries: Vec<_> =
            inherited.chain(added).filter(|entry| entry.enabled).map(Arc::new).collect();
        for entry in &entries {
            check(entry)?;
        }
        entries.sort_by_key(|entry| entry.priority);
        Ok(Self { entries })
    }

    /// Returns the hooks of a point and a mode, in calling order.
    pub fn at(&self, point: HookPoint, mode: HookMode) -> impl Iterator<Item = &Arc<HookEntry>> {
        self.entries.iter().filter(move |entry| entry.point == point && entry.mode == mode)
    }

    /// Returns the points that have hooks.
    #[must_use]
    pub fn points(&self) -> HookPoints {
        HookPoints(self.entries.iter().fold(0, |points, entry| points | bit(entry.point)))
    }
}

fn check(entry: &HookEntry) -> Result<(), HookSetError> {
    use HookPoint::{PreLlmRequest, PreToolExecution, RunStarted, TurnBoundary};
    if entry.id.trim().is_empty() {
        return Err(HookSetError::NoId);
    }
    let before = matches!(entry.point, RunStarted | PreLlmRequest | PreToolExecution | TurnBoundary);
    if before && entry.mode == HookMode::Background && entry.capability == HookCapability::Guardrail {
        let point = serde_json::to_value(entry.point).unwrap_or_default();
        let point = point.as_str().unwrap_or_default().to_owned();
        return Err(HookSetError::TooLate { id: entry.id.clone(), point });
    }
    Ok(())
}

/// The set of points that have hooks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HookPoints(u8);

impl HookPoints {
    /// Returns `true` if a point has hooks.
    #[must_use]
    pub const fn has(self, point: HookPoint) -> bool {
        self.0 & bit(point) != 0
    }
}

impl FromIterator<HookPoint> for HookPoints {
    fn from_iter<I: IntoIterator<Item = HookPoint>>(points: I) -> Self {
        Self(points.into_iter().fold(0, |set, point| set | bit(point)))
    }
}

const fn bit(point: HookPoint) -> u8 {
    1 << point as u8
}
