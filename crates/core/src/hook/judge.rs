//! What the answer of a hook, or its failure, means for the run.

use serde_json::{Value, json};

use super::{FailurePolicy, HookCapability, HookDecision, HookEntry, HookReturn};
use crate::{Content, HookPoint, HookReason, ToolOutput};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HookFault {
    /// Whether it took too long or went wrong.
    pub reason: HookReason,
    /// What happened.
    pub message: String,
}

impl HookFault {
    /// Makes one of a hook that went wrong.
    pub fn broken(message: impl Into<String>) -> Self {
        Self { reason: HookReason::RuntimeError, message: message.into() }
    }
}

/// What a hook's answer means.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// The run goes on.
    Allowed,
    /// The hook failed, and the run goes on.
    Tolerated(String),
    /// The run, or the call, does not go on.
    Denied(Denial),
}

/// A refusal.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// The hook.
    pub hook_id: String,
    /// Where it was called.
    pub point: HookPoint,
    /// Whether it refused or failed.
    pub kind: DenialKind,
    /// Why, for programs.
    pub reason_code: HookReason,
    /// Why, for people and for the model.
    pub message: String,
    /// More for programs.
    pub payload: Option<Value>,
}

/// Whether a hook refused or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialKind {
    /// It refused.
    Refused,
    /// It failed, and what it guards stays closed.
    Failed,
}

/// The longest message of a hook that goes on to people and models.
const MAX_MESSAGE: usize = 2000;

/// Judges what came of calling a hook.
#[must_use]
pub fn judge(entry: &HookEntry, answer: Result<HookReturn, HookFault>) -> Judgement {
    let answer = answer.and_then(|answer| accepted(entry, answer));
    let (kind, reason_code, message, payload) = match answer {
        Ok(None) => return Judgement::Allowed,
        Ok(Some((reason, message, payload))) => (DenialKind::Refused, reason, message, payload),
        Err(fault) if entry.on_failure() == FailurePolicy::FailOpen => {
            return Judgement::Tolerated(fault.message);
        }
        Err(fault) => (DenialKind::Failed, fault.reason, fault.message, None),
    };
    let message = message.chars().take(MAX_MESSAGE).collect();
    let (hook_id, point) = (entry.id.clone(), entry.point);
    Judgement::Denied(Denial { hook_id, point, kind, reason_code, message, payload })
}

type Refusal = (HookReason, String, Option<Value>);

/// Takes an answer for what it says, as far as the hook may say it.
fn accepted(entry: &HookEntry, answer: HookReturn) -> Result<Option<Refusal>, HookFault> {
    if !answer.patches.is_empty() {
        return Err(HookFault::broken("it answered with `patches`; a hook can refuse and not change"));
    }
    match (answer.decision, entry.capability) {
        (None | Some(HookDecision::Allow), _) => Ok(None),
        (Some(HookDecision::Deny { .. }), HookCapability::Observe) => {
            Err(HookFault::broken("it refused, which only a hook with `capability = \"guardrail\"` can"))
        }
        (Some(HookDecision::Deny { reason_code, message, payload }), HookCapability::Guardrail) => {
            Ok(Some((reason_code, message, payload)))
        }
    }
}

impl Denial {
    /// Says it in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { hook_id, message, .. } = self;
        match self.kind {
            DenialKind::Refused => format!("the hook `{hook_id}` refused: {message}"),
            DenialKind::Failed => format!("the hook `{hook_id}` failed: {message}"),
        }
    }

    /// Makes it the output of the call that was refused.
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
