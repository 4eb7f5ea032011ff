//! The output items of a response under construction.
//!
//! The block of an item has exactly the text that was emitted as deltas, so that users never see two versions.

use meerkat_core::{AssistantBlock, Delta, DeltaSink};
use serde_json::{Map, Value, json};

use crate::fields::{list, text};
use crate::history::META_PROVIDER;
use crate::wire::Failure;

/// Separator between two parts of reasoning.
const SEPARATOR: &str = "\n\n";

/// An output item.
pub(super) struct Item {
    index: Option<u64>,
    id: Option<String>,
    kind: Kind,
    parts: Vec<Part>,
    emitted: String,
}

enum Kind {
    Message {
        phase: Option<String>,
    },
    Reasoning {
        encrypted: Option<String>,
    },
    Call {
        call_id: Option<String>,
        name: Option<String>,
        arguments: String,
    },
    /// Anything else, which runs on the provider's side; in the provider's format.
    Server(Value),
}

struct Part {
    section: Section,
    index: u64,
    text: String,
    annotations: Vec<Value>,
}

/// Section of an item that a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// The text of a message.
    Output,
    /// The refusal of a message.
    Refusal,
    /// The summary of reasoning.
    Summary,
    /// Reasoning in plain text.
    Reasoning,
}

impl Section {
    /// Returns the section and the text of a part in the provider's format; `None` for a part that is not used.
    pub(super) fn from_part(part: &Value) -> Result<Option<(Self, &str)>, Failure> {
        let (section, key) = match text(part, "type")? {
            Some("output_text") => (Self::Output, "text"),
            Some("refusal") => (Self::Refusal, "refusal"),
            Some("summary_text") => (Self::Summary, "text"),
            Some("reasoning_text") => (Self::Reasoning, "text"),
            _ => return Ok(None),
        };
        Ok(text(part, key)?.map(|text| (section, text)))
    }
}

impl Item {
    /// Starts an item without its content.
    pub(super) fn begin(index: Option<u64>, value: &Value) -> Result<Self, Failure> {
        let owned = |key: &str| text(value, key).map(|text| text.map(str::to_owned));
        let kind = match text(value, "type")? {
            Some("message") => Kind::Message { phase: owned("phase")? },
            Some("reasoning") => Kind::Reasoning { encrypted: owned("encrypted_content")? },
            Some("function_call") => {
                Kind::Call { call_id: owned("call_id")?, name: owned("name")?, arguments: String::new() }
            }
            Some(_) => Kind::Server(value.clone()),
            None => return Err("an item has no `type`".into()),
        };
        Ok(Self { index, id: owned("id")?, kind, parts: Vec::new(), emitted: String::new() })
    }

    /// Returns `true` if an event refers to this item: by its index, or by an id if the index is missing.
    pub(super) fn is_target(&self, index: Option<u64>, ids: &[Option<&str>]) -> bool {
        match (self.index, index) {
            (Some(own), Some(index)) => own == index,
            _ => ids.iter().flatten().any(|id| !id.is_empty() && self.has_id(id)),
        }
    }

    fn has_id(&self, id: &str) -> bool {
        let call_id = match &self.kind {
            Kind::Call { call_id, .. } => call_id.as_deref(),
            _ => None,
        };
        self.id.as_deref() == Some(id) || call_id == Some(id)
    }

    /// Appends to a text.
    pub(super) fn append(
        &mut self,
        (section, index): (Section, u64),
        text: &str,
        deltas: DeltaSink<'_>,
    ) -> Result<(), Failure> {
        let is_valid = match section {
            Section::Output | Section::Refusal => matches!(self.kind, Kind::Message { .. }),
            Section::Summary | Section::Reasoning => matches!(self.kind, Kind::Reasoning { .. }),
        };
        if !is_valid {
            return Err(format!("{section:?} text in an item of another type").into());
        }
        if text.is_empty() {
            return Ok(());
        }
        let is_first = self.part(section, index).is_none();
        if is_first {
            self.parts.push(Part { section, index, text: String::new(), annotations: Vec::new() });
        }
        if let Some(part) = self.part(section, index) {
            part.text.push_str(text);
        }
        let delta = match section {
            Section::Refusal => return Ok(()),
            Section::Output => Delta::Text(text.to_owned()),
            _ if is_first && !self.emitted.is_empty() => Delta::Reasoning(format!("{SEPARATOR}{text}")),
            _ => Delta::Reasoning(text.to_owned()),
        };
        if let Delta::Text(text) | Delta::Reasoning(text) = &delta {
            self.emitted.push_str(text);
        }
        deltas(delta);
        Ok(())
    }

    /// Sets the complete text; emits what was not streamed of it.
    pub(super) fn set_text(
        &mut self,
        position: (Section, u64),
        text: &str,
        deltas: DeltaSink<'_>,
    ) -> Result<(), Failure> {
        let streamed = self.part(position.0, position.1).map_or("", |part| part.text.as_str());
        let rest = text.strip_prefix(streamed).unwrap_or_default().to_owned();
        self.append(position, &rest, deltas)
    }

    /// Adds an annotation to the text so far.
    pub(super) fn annotate(&mut self, index: u64, annotation: &Value) {
        if let Some(part) = self.part(Section::Output, index).filter(|_| annotation.is_object()) {
            part.annotations.push(annotation.clone());
        }
    }

    /// Sets all annotations of a part in the provider's format; a part without any leaves the existing ones.
    pub(super) fn set_annotations(&mut self, index: u64, value: &Value) -> Result<(), Failure> {
        let all = list(value, "annotations")?;
        if let Some(part) = self.part(Section::Output, index).filter(|_| !all.is_empty()) {
            part.annotations = all.iter().filter(|annotation| annotation.is_object()).cloned().collect();
        }
        Ok(())
    }

    fn part(&mut self, section: Section, index: u64) -> Option<&mut Part> {
        self.parts.iter_mut().rev().find(|part| part.section == section && part.index == index)
    }

    /// Appends to the arguments of a call.
    pub(super) fn append_arguments(&mut self, piece: &str) -> Result<(), Failure> {
        self.arguments().map(|arguments| arguments.push_str(piece))
    }

    /// Sets the complete arguments of a call.
    pub(super) fn set_arguments(&mut self, complete: &str) -> Result<(), Failure> {
        let arguments = self.arguments()?;
        if !complete.is_empty() {
            complete.clone_into(arguments);
        }
        Ok(())
    }

    fn arguments(&mut self) -> Result<&mut String, Failure> {
        match &mut self.kind {
            Kind::Call { arguments, .. } => Ok(arguments),
            _ => Err("arguments for an item that is not a call".into()),
        }
    }

    /// Updates the item from its completed form.
    pub(super) fn complete(&mut self, value: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        let last = Self::begin(self.index, value)?;
        self.id = last.id.or(self.id.take());
        match (&mut self.kind, last.kind) {
            (Kind::Message { phase }, Kind::Message { phase: last }) => *phase = last.or(phase.take()),
            (Kind::Reasoning { encrypted }, Kind::Reasoning { encrypted: last }) => {
                *encrypted = last.or(encrypted.take());
            }
            (Kind::Call { call_id, name, .. }, Kind::Call { call_id: last_id, name: last_name, .. }) => {
                *call_id = last_id.or(call_id.take());
                *name = last_name.or(name.take());
                return self.set_arguments(text(value, "arguments")?.unwrap_or_default());
            }
            (Kind::Server(own), Kind::Server(last)) if own["type"] == last["type"] => *own = last,
            _ => return Err("an item changed its `type`".into()),
        }
        self.settle_parts(value, deltas)
    }

    fn settle_parts(&mut self, value: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        if matches!(self.kind, Kind::Server(_)) {
            return Ok(());
        }
        for key in ["summary", "content"] {
            for (index, part) in (0..).zip(list(value, key)?) {
                if let Some((section, text)) = Section::from_part(part)? {
                    self.set_text((section, index), text, deltas)?;
                    self.set_annotations(index, part)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the text of the model's refusal, if any.
    pub(super) fn refusal(&self) -> Option<String> {
        let refusals = self.parts.iter().filter(|part| part.section == Section::Refusal);
        let texts: Vec<_> = refusals.map(|part| part.text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join(""))
    }

    /// Converts the item into a block; returns `None` if it is empty. `tag` marks its provider.
    pub(super) fn into_block(self, tag: &str) -> Result<Option<AssistantBlock>, Failure> {
        let mut meta = Map::new();
        meta.insert(META_PROVIDER.to_owned(), json!(tag));
        if let Some(id) = &self.id {
            meta.insert("id".to_owned(), json!(id));
        }
        match self.kind {
            Kind::Message { phase } => {
                meta.extend(phase.map(|phase| ("phase".to_owned(), json!(phase))));
                meta.extend(annotations(&self.parts));
                let text = self.emitted;
                Ok((!text.is_empty()).then(|| AssistantBlock::Text { text, meta: Some(meta.into()) }))
            }
            Kind::Reasoning { encrypted } => {
                let encrypted = encrypted.filter(|text| !text.is_empty());
                if self.emitted.is_empty() && encrypted.is_none() {
                    return Ok(None);
                }
                meta.extend(encrypted.map(|text| ("encrypted_content".to_owned(), json!(text))));
                meta.extend(reasoning_parts(&self.parts));
                Ok(Some(AssistantBlock::Reasoning { text: self.emitted, meta: Some(meta.into()) }))
            }
            Kind::Call { call_id, name, arguments } => call(call_id.or(self.id), name, &arguments).map(Some),
            Kind::Server(content) => {
                let name = content["type"].as_str().unwrap_or_default();
                let name = name.strip_suffix("_call").unwrap_or(name).to_owned();
                Ok(Some(AssistantBlock::ServerToolContent {
                    id: self.id,
                    name,
                    content,
                    meta: Some(meta.into()),
                }))
            }
        }
    }
}

/// Returns the annotations of a message, with offsets into the full text.
fn annotations(parts: &[Part]) -> Option<(String, Value)> {
    let mut all = Vec::new();
    let mut before = 0;
    for part in parts.iter().filter(|part| part.section == Section::Output) {
        for annotation in &part.annotations {
            let mut annotation = annotation.clone();
            for key in ["start_index", "end_index"] {
                if let Some(offset) = annotation.get(key).and_then(Value::as_u64) {
                    annotation[key] = json!(offset.saturating_add(before));
                }
            }
            all.push(annotation);
        }
        before += part.text.chars().count() as u64;
    }
    (!all.is_empty()).then(|| ("annotations".to_owned(), Value::Array(all)))
}

/// Returns the parts of reasoning in the provider's format, to be sent back.
fn reasoning_parts(parts: &[Part]) -> impl Iterator<Item = (String, Value)> {
    let list = |section: Section, key: &str, kind: &str| {
        let own = parts.iter().filter(|part| part.section == section);
        let list: Vec<_> = own.map(|part| json!({ "type": kind, "text": part.text })).collect();
        (!list.is_empty()).then(|| (key.to_owned(), Value::Array(list)))
    };
    let summary = list(Section::Summary, "summary", "summary_text");
    let content = list(Section::Reasoning, "content", "reasoning_text");
    summary.into_iter().chain(content)
}

fn call(id: Option<String>, name: Option<String>, arguments: &str) -> Result<AssistantBlock, Failure> {
    let id = id.filter(|id| !id.is_empty()).ok_or("a function call has no `call_id`")?;
    let name = name.filter(|name| !name.is_empty()).ok_or("a function call has no `name`")?;
    let args = match arguments.trim() {
        "" => json!({}),
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(arguments.to_owned())),
    };
    Ok(AssistantBlock::ToolUse { id, name, args, meta: None })
}
