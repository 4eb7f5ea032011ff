//! Skills next to the operations: an additional tool, resources, prompts, and an extension.

use std::borrow::Cow;

use rmcp::ErrorData;
use rmcp::model::{ExtensionCapabilities, Resource, Tool};
use serde_json::Value;

use super::{RealmService, tools};
use crate::protocol::{Era, Extensions, Page};
use crate::skills::SkillViews;

/// Prefix of skill numbers in cursors; a bare number refers to a session.
const SKILL: &str = "skill:";

impl RealmService {
    /// Returns the operations, and the `skill` tool if there are skills.
    pub(super) fn with_skill_tool(&self) -> Cow<'_, [Tool]> {
        match self.skills.as_ref().and_then(SkillViews::tool) {
            None => Cow::Borrowed(tools::tools()),
            Some(tool) => Cow::Owned(tools::tools().iter().cloned().chain([tool]).collect()),
        }
    }

    /// Returns one page of skills: the first one, or the one after the cursor. Returns `None` for the cursor of another
    /// list; the last page has no `next`.
    pub(super) async fn skill_page(&self, after: Option<&str>) -> Option<Result<Page<Resource>, ErrorData>> {
        let skills = self.skills.as_ref()?;
        let first = match after.map(|after| after.strip_prefix(SKILL)) {
            None => Some(0),
            Some(number) => number?.parse().ok(),
        };
        let page = match first {
            Some(first) => skills.page(first).await,
            None => None,
        };
        Some(page.ok_or_else(super::resources::unknown_cursor).map(|(items, next)| {
            let next = next.map(|next| format!("{SKILL}{next}"));
            Page { items, next }
        }))
    }
}

impl Extensions for RealmService {
    fn extensions(&self) -> ExtensionCapabilities {
        self.skills.as_ref().map(|_| SkillViews::extensions()).unwrap_or_default()
    }

    async fn call_extension(
        &self,
        method: &str,
        params: Option<Value>,
        era: Era,
    ) -> Option<Result<Value, ErrorData>> {
        let skills = self.skills.as_ref()?;
        self.refresh_registered().await;
        skills.handle_method(method, params, era).await
    }
}
