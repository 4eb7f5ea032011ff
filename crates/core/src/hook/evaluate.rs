//! The effect of a hook's output, or of its failure, on the run.

use serde_json::{Value, json};

use super::{FailurePolicy, HookCapability, HookDecision, HookEntry, HookOutput};
use crate::{Content, HookPoint, HookReason, ToolOutput};

/// Failure of a hook.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HookFailure {
    /// Whether the hook timed out or failed.
    pub reason: HookReason,
    /// Human-readable description.
    pub message: String,
}

impl HookFailure {
    /// Creates the failure of a hook that did not work.
    pub fn runtime_error(message: impl Into<String>) -> Self {
        Self { reason: HookReason::RuntimeError, message: message.into() }
    }
}

/// Effect of a hook call.
#[derive(Debug, Clone, PartialEq)]
pub enum HookVerdict {
    /// The run continues.
    Allowed,
    /// The hook failed, and the run continues.
    Tolerated(String),
    /// The run stops, or the call is not run.
    Denied(Denial),
}

/// A denial by a hook.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// Id of the hook.
    pub hook_id: String,
    /// Point at which it was called.
    pub point: HookPoint,
    /// Whether the hook denied or failed.
    pub kind: DenialKind,
    /// Machine-readable reason.
    pub reason_code: HookReason,
    /// Reason for people and for the model.
    pub message: String,
    /// Additional machine-readable data.
    pub payload: Option<Value>,
}

/// Whether a hook denied or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialKind {
    /// The hook denied.
    Denied,
    /// The hook failed, and its failure policy is to deny.
    Failed,
}

/// Maximum length of a hook's message to people and models.
const MAX_MESSAGE: usize = 2000;

/// Evaluates the result of calling a hook.
#[must_use]
pub fn evaluate_hook(entry: &HookEntry, output: Result<HookOutput, HookFailure>) -> HookVerdict {
    let output = output.and_then(|output| denial_in(entry, output));
    let (kind, reason_code, message, payload) = match output {
        Ok(None) => return HookVerdict::Allowed,
        Ok(Some((reason, message, payload))) => (DenialKind::Denied, reason, message, payload),
        Err(failure) if entry.on_failure() == FailurePolicy::FailOpen => {
            return HookVerdict::Tolerated(failure.message);
        }
        Err(failure) => (DenialKind::Failed, failure.reason, failure.message, None),
    };
    let message = message.chars().take(MAX_MESSAGE).collect();
    let (hook_id, point) = (entry.id.clone(), entry.point);
    HookVerdict::Denied(Denial { hook_id, point, kind, reason_code, message, payload })
}

type DenialDetails = (HookReason, String, Option<Value>);

/// Returns the denial in a hook's output, if any. Returns an error if the hook lacks the capability for its output.
fn denial_in(entry: &HookEntry, output: HookOutput) -> Result<Option<DenialDetails>, HookFailure> {
    if !output.patches.is_empty() {
        return Err(HookFailure::runtime_error("it returned `patches`; a hook can deny but not modify"));
    }
    match (output.decision, entry.capability) {
        (None | Some(HookDecision::Allow), _) => Ok(None),
        (Some(HookDecision::Deny { .. }), HookCapability::Observe) => Err(HookFailure::runtime_error(
            "it denied, but only hooks with `capability = \"guardrail\"` can deny",
        )),
        (Some(HookDecision::Deny { reason_code, message, payload }), HookCapability::Guardrail) => {
            Ok(Some((reason_code, message, payload)))
        }
    }
}

impl Denial {
    /// Formats the denial as an error message.
    #[must_use]
    pub fn to_message(&self) -> String {
        let Self { hook_id, message, .. } = self;
        match self.kind {
            DenialKind::Denied => format!("denied by hook `{hook_id}`: {message}"),
            DenialKind::Failed => format!("the hook `{hook_id}` failed: {message}"),
        }
    }

    /// Returns the denial as the output of the denied call.
    #[must_use]
    pub fn output(&self) -> ToolOutput {
        let text = json!({
            "error": "hook_denied",
            "hook_id": self.hook_id,
            "reason_code": self.reason_code,
            "message": self.message,
        });
        ToolOutput { content: Content::text(text.to_string()), is_error: true, images: Vec::new() }
    }
}
