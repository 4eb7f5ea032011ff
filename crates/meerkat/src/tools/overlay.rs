//! Selection of the tools of one run.

/// Allowed and blocked tools of a run; blocking takes precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOverlay {
    /// If set, only these tools are allowed.
    pub allowed: Option<Vec<String>>,
    /// Tools that are blocked.
    pub blocked: Vec<String>,
}

impl ToolOverlay {
    /// Returns `true` if the run may use no tools.
    pub(crate) fn allows_none(&self) -> bool {
        self.allowed.as_ref().is_some_and(Vec::is_empty)
    }

    pub(crate) fn allows(&self, name: &str) -> bool {
        let contains = |names: &[String]| names.iter().any(|entry| entry == name);
        !contains(&self.blocked) && self.allowed.as_deref().is_none_or(contains)
    }
}
