//! Skills in a build without the feature `skills`: requests for them fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use meerkat_contracts::{SkillKey, SkillsRequest};
use meerkat_core::{FindPinned, ToolSource};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ConfigVersion, Injected};
use crate::config::SkillsConfig;
use crate::{Error, SecretSource};

/// The skills of a runtime: none.
#[derive(Debug, Clone, Default)]
pub struct Skills(());

/// Skills that are visible to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkillFilter {
    All,
    ExcludeBuiltin,
}

/// Empty reply.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SkillsReply {}

const ABSENT: Error = Error::NotCompiled { what: "loading skills", feature: "skills" };

pub(crate) const FIND_PINNED: FindPinned = |_| Vec::new();

pub(crate) fn check(_: &str, keys: &[SkillKey]) -> Result<(), Error> {
    if keys.is_empty() { Ok(()) } else { Err(ABSENT) }
}

#[expect(clippy::unused_async, reason = "same signatures as in builds with skills")]
impl Skills {
    pub(crate) async fn refresh(
        &self,
        _: Option<ConfigVersion>,
        _: &SkillsConfig,
        _: BTreeSet<String>,
        _: &SecretSource,
    ) {
    }

    pub(crate) async fn rescan(&self) {}

    pub(crate) async fn inject(&self, keys: &[SkillKey]) -> Result<Vec<Injected>, Error> {
        if keys.is_empty() { Ok(Vec::new()) } else { Err(ABSENT) }
    }

    pub(crate) fn inventory(&self, _: SkillFilter) -> Option<String> {
        None
    }

    pub(crate) fn tools(&self, _: SkillFilter) -> Option<Arc<dyn ToolSource>> {
        None
    }

    pub(crate) async fn handle(&self, _: SkillsRequest) -> Result<SkillsReply, Error> {
        Err(ABSENT)
    }
}
