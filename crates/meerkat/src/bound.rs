//! Replies that fit: what is too long is shown as its head and its tail, and kept whole as a blob.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_contracts::{PendingApproval, PendingCall};
use meerkat_core::run::Pending;
use meerkat_core::{BlobId, ToolCall};
use meerkat_store::{Blob, Change, Transaction};
use serde_json::{Value, json};

use crate::Runtime;
use crate::config::LEAST_REPLY_BYTES;

/// Text that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounded {
    /// The text, or its head and tail with a note between.
    pub(crate) text: String,
    /// The whole, if it did not fit and could be kept.
    pub(crate) whole: Option<BlobId>,
}

/// Cuts what is too long for a reply.
pub(crate) struct Bounds<'a> {
    runtime: &'a Runtime,
    limit: usize,
}

/// Texts up to this length are never cut for the sake of a message.
const SMALL: usize = 1024;

impl<'a> Bounds<'a> {
    /// Reads the limit from the realm's config. If that cannot be read, the default holds: what was done already
    /// must be answered.
    pub(crate) async fn of(runtime: &'a Runtime) -> Self {
        let limits = runtime.config().get().await.map(|current| current.config.limits);
        Self { runtime, limit: limits.unwrap_or_default().max_reply_bytes }
    }

    /// Returns the bounds of a reply whose longest text has this length. One that fits whatever the config says
    /// does not wait for it.
    pub(crate) async fn of_text(runtime: &'a Runtime, length: usize) -> Self {
        if length <= LEAST_REPLY_BYTES {
            return Self { runtime, limit: LEAST_REPLY_BYTES };
        }
        Self::of(runtime).await
    }

    /// Returns how many bytes a reply may have.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Makes a text fit.
    pub(crate) async fn text(&self, mut text: String) -> Bounded {
        if text.len() <= self.limit {
            return Bounded { text, whole: None };
        }
        // A secret that is cut in two is not recognized later.
        self.runtime.redactor().redact_text(&mut text);
        let whole = self.keep("text/plain", text.as_bytes().to_vec()).await;
        Bounded { text: head_and_tail(&text, self.limit, whole.as_ref()), whole }
    }

    /// Makes a message or an event fit; `size` is how long it is.
    pub(crate) async fn message(&self, mut message: Value, size: usize) -> Value {
        if size <= self.limit {
            return message;
        }
        self.runtime.redactor().redact_value(&mut message);
        let whole = self.keep("application/json", message.to_string().into_bytes()).await;
        self.keep_media(&mut message).await;
        let mut texts = 0;
        visit(&mut message, &mut |text| texts += usize::from(text.len() > SMALL));
        let share = (self.limit / texts.max(1)).max(SMALL);
        visit(&mut message, &mut |text| {
            if text.len() > share {
                *text = head_and_tail(text, share, whole.as_ref());
            }
        });
        if message.to_string().len() > self.limit + self.limit / 2 {
            self.flatten(&mut message, whole.as_ref());
            if let Some(payload) = message.get_mut("payload") {
                shorten(payload, self.limit, whole.as_ref());
            }
        }
        if let Some(whole) = whole {
            message["blob_id"] = json!(whole);
        }
        message
    }

    /// Makes the arguments of calls that wait for the caller fit together.
    pub(crate) async fn pending(&self, pending: Pending) -> (Vec<PendingCall>, Vec<PendingApproval>) {
        let (calls, ends): (Vec<_>, Vec<_>) =
            pending.approvals.into_iter().map(|awaited| (awaited.call, awaited.expires_at)).unzip();
        let approvals = self.arguments(calls).await.into_iter().zip(ends);
        let approval = |(call, expires_at)| PendingApproval { call, expires_at };
        (self.arguments(pending.calls).await, approvals.map(approval).collect())
    }

    /// Makes the arguments of calls fit together; those that do not are shown in part, and kept whole.
    async fn arguments(&self, calls: Vec<ToolCall>) -> Vec<PendingCall> {
        let share = (self.limit / calls.len().max(1)).max(SMALL);
        let mut shown = Vec::with_capacity(calls.len());
        for ToolCall { id, name, args } in calls {
            let mut call = PendingCall { tool_use_id: id, tool_name: name, args, args_blob_id: None };
            let text = call.args.to_string();
            if text.len() > share {
                call.args_blob_id = self.keep("application/json", text.into_bytes()).await;
                shorten(&mut call.args, share, call.args_blob_id.as_ref());
            }
            shown.push(call);
        }
        shown
    }

    /// Shows the content of a message that is long by the number of its parts as one text.
    fn flatten(&self, message: &mut Value, whole: Option<&BlobId>) {
        let cut = |part: &Value| Value::String(head_and_tail(&part.to_string(), self.limit, whole));
        if let Some(blocks) = message.get_mut("blocks") {
            *blocks = json!([{ "block_type": "text", "data": { "text": cut(blocks) } }]);
        } else if let Some(results) = message.get_mut("results") {
            let first = results[0]["tool_use_id"].clone();
            *results = json!([{ "tool_use_id": first, "content": cut(results), "is_error": false }]);
        } else if let Some(content) = message.get_mut("content") {
            *content = cut(content);
        }
    }

    /// Puts images and clips into blobs: a part of one is of no use.
    async fn keep_media(&self, value: &mut Value) {
        let mut inline = Vec::new();
        collect_media(value, &mut inline);
        for media in inline {
            let bytes = media["data"].as_str().and_then(|data| STANDARD.decode(data).ok());
            let (Some(bytes), Some(media_type)) = (bytes, media["media_type"].as_str()) else { continue };
            if let Some(id) = self.keep(media_type, bytes).await
                && let Some(object) = media.as_object_mut()
            {
                object.shift_remove("data");
                object.insert("source".to_owned(), json!("blob"));
                object.insert("blob_id".to_owned(), json!(id));
            }
        }
    }

    /// Keeps a blob. A reply is worth more than a copy of it, so that failing here fails nothing.
    async fn keep(&self, media_type: &str, data: Vec<u8>) -> Option<BlobId> {
        let blob = Blob::new(media_type, data);
        let id = blob.id.clone();
        let transaction = Transaction { guards: Vec::new(), changes: vec![Change::PutBlob(blob)] };
        self.runtime.store().commit(transaction).await.is_ok().then_some(id)
    }
}

/// Makes a value fit by showing its longest parts as texts that are cut. What it is made of stays: an object keeps
/// its keys.
fn shorten(value: &mut Value, limit: usize, whole: Option<&BlobId>) {
    let size = value.to_string().len();
    if size <= limit {
        return;
    }
    let Value::Object(object) = value else {
        *value = cut(value, limit, whole);
        return;
    };
    let mut sizes: Vec<_> = object.iter().map(|(key, part)| (part.to_string().len(), key.clone())).collect();
    sizes.sort_unstable();
    let (mut left, mut parts) = (limit, sizes.len());
    for (size, key) in sizes {
        // What the smaller parts leave is there for the longer ones.
        let share = left / parts.max(1);
        parts -= 1;
        if let Some(part) = object.get_mut(&key).filter(|_| size > share.max(SMALL)) {
            shorten(part, share.max(SMALL), whole);
        }
        left = left.saturating_sub(size.min(share));
    }
    // An object may be long by the number of its keys alone.
    if value.to_string().len() > 2 * limit.max(SMALL) {
        *value = cut(value, limit, whole);
    }
}

/// Shows a value as a text of its head and its tail.
fn cut(value: &Value, limit: usize, whole: Option<&BlobId>) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Value::String(head_and_tail(&text, limit, whole))
}

/// Calls on every text in a value.
fn visit(value: &mut Value, each: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, each)),
        Value::Object(object) => object.values_mut().for_each(|item| visit(item, each)),
        _ => {}
    }
}

fn collect_media<'v>(value: &'v mut Value, found: &mut Vec<&'v mut Value>) {
    if value["source"] == "inline" && value["data"].is_string() {
        found.push(value);
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| collect_media(item, found)),
        Value::Object(object) => object.values_mut().for_each(|item| collect_media(item, found)),
        _ => {}
    }
}

pub(crate) fn head_and_tail(text: &str, limit: usize, whole: Option<&BlobId>) -> String {
    let head = text.floor_char_boundary(limit / 4 * 3);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(limit / 4)).max(head);
    let left_out = tail - head;
    let note = match whole {
        Some(id) => {
            format!("[… {left_out} bytes left out; meerkat_blob_get with blob_id {id} gives the whole …]")
        }
        None => format!("[… {left_out} bytes left out …]"),
    };
    format!("{}\n{note}\n{}", &text[..head], &text[tail..])
}
