//! Truncation of long replies; the full text is stored as a blob.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_contracts::{PendingApproval, PendingCall};
use meerkat_core::run::Pending;
use meerkat_core::{BlobId, ToolCall};
use meerkat_store::{Blob, Change, Transaction};
use serde_json::{Value, json};

use crate::Runtime;
use crate::config::{LimitsConfig, MIN_REPLY_BYTES};
use crate::text::head_and_tail;

/// Text within the reply limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Truncated {
    /// The text, or its head and tail with a note in between.
    pub(crate) text: String,
    /// The full text, if it was truncated and could be stored.
    pub(crate) blob_id: Option<BlobId>,
}

/// Truncates content that is too long for a reply.
pub(crate) struct ReplyLimit<'a> {
    runtime: &'a Runtime,
    limit: usize,
}

/// Minimum length at which a text within a message is truncated, in bytes.
const MIN_TRUNCATED: usize = 1024;

impl<'a> ReplyLimit<'a> {
    /// Reads the limit from the realm's config. If the config cannot be read, uses the default, because a completed
    /// request must get a reply.
    pub(crate) async fn for_runtime(runtime: &'a Runtime) -> Self {
        let limit = runtime.config().get().await.map(|current| current.config.limits.max_reply_bytes);
        Self { runtime, limit: limit.unwrap_or_else(|_| LimitsConfig::default().max_reply_bytes) }
    }

    /// Returns the limit of a reply whose longest text has this length. Does not read the config for a text that fits
    /// any limit.
    pub(crate) async fn for_length(runtime: &'a Runtime, length: usize) -> Self {
        if length <= MIN_REPLY_BYTES {
            return Self { runtime, limit: MIN_REPLY_BYTES };
        }
        Self::for_runtime(runtime).await
    }

    /// Returns the maximum size of a reply, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Truncates a text to the limit.
    pub(crate) async fn truncate_text(&self, mut text: String) -> Truncated {
        if text.len() <= self.limit {
            return Truncated { text, blob_id: None };
        }
        // A secret that is truncated is not recognized later.
        self.runtime.redactor().redact_text(&mut text);
        let blob_id = self.store_blob("text/plain", text.as_bytes().to_vec()).await;
        Truncated { text: head_and_tail(&text, self.limit, blob_id.as_ref()), blob_id }
    }

    /// Truncates a message or an event to the limit; `size` is its length.
    pub(crate) async fn truncate_message(&self, mut message: Value, size: usize) -> Value {
        if size <= self.limit {
            return message;
        }
        self.runtime.redactor().redact_value(&mut message);
        let blob_id = self.store_blob("application/json", message.to_string().into_bytes()).await;
        self.externalize_media(&mut message).await;
        let mut texts = 0;
        visit(&mut message, &mut |text| texts += usize::from(text.len() > MIN_TRUNCATED));
        let share = (self.limit / texts.max(1)).max(MIN_TRUNCATED);
        visit(&mut message, &mut |text| {
            if text.len() > share {
                *text = head_and_tail(text, share, blob_id.as_ref());
            }
        });
        if message.to_string().len() > self.limit + self.limit / 2 {
            self.flatten(&mut message, blob_id.as_ref());
            if let Some(payload) = message.get_mut("payload") {
                shorten(payload, self.limit, blob_id.as_ref());
            }
        }
        if let Some(blob_id) = blob_id {
            message["blob_id"] = json!(blob_id);
        }
        message
    }

    /// Truncates the arguments of pending calls to the limit.
    pub(crate) async fn truncate_pending(
        &self,
        pending: Pending,
    ) -> (Vec<PendingCall>, Vec<PendingApproval>) {
        let (calls, expiries): (Vec<_>, Vec<_>) =
            pending.approvals.into_iter().map(|request| (request.call, request.expires_at)).unzip();
        let approvals = self.truncate_arguments(calls).await.into_iter().zip(expiries);
        let approval = |(call, expires_at)| PendingApproval { call, expires_at };
        (self.truncate_arguments(pending.calls).await, approvals.map(approval).collect())
    }

    /// Truncates the arguments of calls to the limit in total; the full arguments are stored as blobs.
    async fn truncate_arguments(&self, calls: Vec<ToolCall>) -> Vec<PendingCall> {
        let share = (self.limit / calls.len().max(1)).max(MIN_TRUNCATED);
        let mut pending = Vec::with_capacity(calls.len());
        for ToolCall { id, name, args } in calls {
            let mut call = PendingCall { tool_use_id: id, tool_name: name, args, args_blob_id: None };
            let text = call.args.to_string();
            if text.len() > share {
                call.args_blob_id = self.store_blob("application/json", text.into_bytes()).await;
                shorten(&mut call.args, share, call.args_blob_id.as_ref());
            }
            pending.push(call);
        }
        pending
    }

    /// Replaces the content of a message with one text, if it is long because of its number of parts.
    fn flatten(&self, message: &mut Value, blob_id: Option<&BlobId>) {
        let truncated = |part: &Value| Value::String(head_and_tail(&part.to_string(), self.limit, blob_id));
        if let Some(blocks) = message.get_mut("blocks") {
            *blocks = json!([{ "block_type": "text", "data": { "text": truncated(blocks) } }]);
        } else if let Some(results) = message.get_mut("results") {
            let first = results[0]["tool_use_id"].clone();
            *results = json!([{ "tool_use_id": first, "content": truncated(results), "is_error": false }]);
        } else if let Some(content) = message.get_mut("content") {
            *content = truncated(content);
        }
    }

    /// Moves images and videos into blobs, because a truncated one is useless.
    async fn externalize_media(&self, value: &mut Value) {
        let mut inline = Vec::new();
        collect_media(value, &mut inline);
        for media in inline {
            let bytes = media["data"].as_str().and_then(|data| STANDARD.decode(data).ok());
            let (Some(bytes), Some(media_type)) = (bytes, media["media_type"].as_str()) else { continue };
            if let Some(id) = self.store_blob(media_type, bytes).await
                && let Some(object) = media.as_object_mut()
            {
                object.shift_remove("data");
                object.insert("source".to_owned(), json!("blob"));
                object.insert("blob_id".to_owned(), json!(id));
            }
        }
    }

    /// Stores a blob. Failures are ignored, because the reply is more important than the full copy.
    async fn store_blob(&self, media_type: &str, data: Vec<u8>) -> Option<BlobId> {
        let blob = Blob::new(media_type, data);
        let id = blob.id.clone();
        let transaction = Transaction { guards: Vec::new(), changes: vec![Change::PutBlob(blob)] };
        self.runtime.store().commit(transaction).await.is_ok().then_some(id)
    }
}

/// Truncates the longest parts of a value to texts. The structure remains: an object keeps its keys.
fn shorten(value: &mut Value, limit: usize, blob_id: Option<&BlobId>) {
    let size = value.to_string().len();
    if size <= limit {
        return;
    }
    let Value::Object(object) = value else {
        *value = truncated(value, limit, blob_id);
        return;
    };
    let mut sizes: Vec<_> = object.iter().map(|(key, part)| (part.to_string().len(), key.clone())).collect();
    sizes.sort_unstable();
    let (mut left, mut parts) = (limit, sizes.len());
    for (size, key) in sizes {
        // Longer parts can use what shorter ones leave.
        let share = left / parts.max(1);
        parts -= 1;
        if let Some(part) = object.get_mut(&key).filter(|_| size > share.max(MIN_TRUNCATED)) {
            shorten(part, share.max(MIN_TRUNCATED), blob_id);
        }
        left = left.saturating_sub(size.min(share));
    }
    // An object can be long because of its number of keys.
    if value.to_string().len() > 2 * limit.max(MIN_TRUNCATED) {
        *value = truncated(value, limit, blob_id);
    }
}

/// Returns the head and the tail of a value as a text.
fn truncated(value: &Value, limit: usize, blob_id: Option<&BlobId>) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Value::String(head_and_tail(&text, limit, blob_id))
}

/// Calls a function on every text in a value.
fn visit(value: &mut Value, f: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => f(text),
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, f)),
        Value::Object(object) => object.values_mut().for_each(|item| visit(item, f)),
        _ => {}
    }
}

fn collect_media<'v>(value: &'v mut Value, media: &mut Vec<&'v mut Value>) {
    if value["source"] == "inline" && value["data"].is_string() {
        media.push(value);
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| collect_media(item, media)),
        Value::Object(object) => object.values_mut().for_each(|item| collect_media(item, media)),
        _ => {}
    }
}
