//! Skills as MCP serves them: the `skill` tool, resources, prompts, and the skills extension.
//!
//! All of it is read from one catalog, whose changes reach every client that wants to know of them.

mod extension;
mod serve;

use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat::ErrorKind;
use meerkat::skill::view::{self, ResourceText};
use meerkat::skill::{Catalogue, Effect, Error, Snapshot, Trust, Watch, WatchOptions};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, CompleteRequestParams, ContentBlock, GetPromptRequestParams, GetPromptResult, JsonObject,
    MetaObject, Prompt, PromptArgument, PromptMessage, ReadResourceResult, Reference, Resource,
    ResourceContents, ResourceTemplate, Role, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use tokio::sync::watch;

pub use serve::serve_skills;

use crate::layer::{Notice, Notices};
use crate::product::Log;

/// What a prompt takes.
const ARGUMENTS: &str = "arguments";
/// How many skills a page of resources has: more than most people have, as many clients read one page only.
const PAGE: usize = 250;
/// Where a resource's digest is told.
const DIGEST: &str = "rkat/digest";
/// Where it is told that a resource came with a directory that the user has not trusted.
const TRUSTED: &str = "rkat/trusted";

static TEMPLATES: LazyLock<Vec<ResourceTemplate>> = LazyLock::new(|| {
    vec![
        ResourceTemplate::new(TEMPLATE, "skill-file")
            .with_title("A file of a skill")
            .with_description("A skill's SKILL.md, or a file beside it."),
    ]
});

/// The address of a skill's file.
const TEMPLATE: &str = "skill://{name}/{+path}";

fn unknown_cursor() -> ErrorData {
    ErrorData::invalid_params("the cursor is unknown; start again without one", None)
}

/// Lists how the resources of skills are addressed.
pub(crate) fn templates() -> &'static [ResourceTemplate] {
    &TEMPLATES
}

/// Serves the skills of a catalog. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct SkillViews {
    catalogue: Catalogue,
    rendered: Arc<Mutex<Arc<Rendered>>>,
    watch: Arc<OnceLock<Option<Watch>>>,
    log: Log,
}

/// The lists of one snapshot.
#[derive(Default)]
struct Rendered {
    generation: u64,
    tool: Option<Tool>,
    prompts: Vec<Prompt>,
}

impl SkillViews {
    /// Makes the views. `notices` tells clients of every change, `log` takes what is wrong with skills.
    pub(crate) fn new(catalogue: Catalogue, notices: Notices, log: Log) -> Self {
        let of_files = notices.clone();
        catalogue.on_file(move |skill, file| of_files.publish(&Notice::Updated(view::uri(skill, file))));
        let told = Arc::clone(&log);
        catalogue.on_change(move |old, new| {
            log_problems(old, new, &told);
            // Nobody has seen anything before the first look.
            if old.generation() > 0 {
                publish_changes(old, new, &notices);
            }
        });
        Self { catalogue, rendered: Arc::default(), watch: Arc::default(), log }
    }

    /// Returns the skills. From the first time on their changes are followed: before that no client has seen any, and a
    /// server that is only being started need not scan. A thread that may block does the first scan.
    pub(crate) async fn snapshot(&self) -> Arc<Snapshot> {
        self.watch.get_or_init(|| {
            let watch = self.catalogue.watch(WatchOptions::default());
            let failed =
                |error| (self.log)(&format!("warning: changes of skills cannot be followed: {error}"));
            watch.map_err(failed).ok()
        });
        self.catalogue.load().await
    }

    /// Follows the snapshots, without a scan.
    pub(crate) fn follow(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.catalogue.subscribe()
    }

    /// Returns the lists of the latest snapshot, which are empty before the first scan.
    fn rendered(&self) -> Arc<Rendered> {
        let snapshot = self.catalogue.latest();
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if rendered.generation != snapshot.generation() {
            *rendered = Arc::new(render(&snapshot));
        }
        Arc::clone(&rendered)
    }

    /// Returns the `skill` tool; there is none while there are no skills.
    pub(crate) fn tool(&self) -> Option<Tool> {
        self.rendered().tool.clone()
    }

    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        self.rendered().prompts.clone()
    }

    /// Calls the `skill` tool.
    pub(crate) async fn call(&self, arguments: Option<JsonObject>) -> CallToolResult {
        let arguments = arguments.unwrap_or_default();
        let answer = match name_of(&arguments) {
            Err(why) => return refused(&why),
            Ok(name) => {
                let (snapshot, name) = (self.snapshot().await, name.to_owned());
                blocking(move || Ok(view::skill_tool_answer(&snapshot, &name))).await
            }
        };
        match answer {
            Ok(answer) if answer.is_error() => refused(answer.text()),
            Ok(answer) => CallToolResult::success(vec![ContentBlock::text(answer.text())]),
            Err(error) => refused(&error.to_string()),
        }
    }

    /// Lists skills as resources, from the `first`th on, and says where the next page begins; `None` if no page begins
    /// there.
    pub(crate) async fn page(&self, first: usize) -> Option<(Vec<Resource>, Option<usize>)> {
        let snapshot = self.snapshot().await;
        let count = snapshot.active().count();
        if first > count {
            return None;
        }
        let next = Some(first.saturating_add(PAGE)).filter(|next| *next < count);
        let resource = |skill: &Arc<meerkat::skill::Skill>| {
            let mut meta = JsonObject::new();
            meta.insert(DIGEST.to_owned(), json!(skill.digest));
            if skill.trust == Trust::Untrusted {
                meta.insert(TRUSTED.to_owned(), json!(false));
            }
            Resource::new(view::uri(skill, "SKILL.md"), skill.name.clone())
                .with_title(skill.display_name())
                .with_description(skill.description.clone())
                .with_mime_type("text/markdown")
                .with_size(skill.size)
                .with_meta(MetaObject(meta))
        };
        Some((snapshot.active().skip(first).take(PAGE).map(resource).collect(), next))
    }

    /// Says whether a URI is one of ours.
    pub(crate) fn owns(uri: &str) -> bool {
        uri.starts_with("skill://")
    }

    /// Reads a skill, or a file beside it.
    pub(crate) async fn read(&self, uri: String) -> Result<ReadResourceResult, ErrorData> {
        let (snapshot, wanted) = (self.snapshot().await, uri.clone());
        let read = blocking(move || view::read_resource(&snapshot, &wanted)).await;
        let contents = match read.map_err(|error| not_found(&uri, &error))? {
            ResourceText::Text { mime_type, text } => {
                ResourceContents::text(text, uri).with_mime_type(mime_type)
            }
            ResourceText::Bytes { mime_type, bytes } => {
                ResourceContents::blob(STANDARD.encode(bytes), uri).with_mime_type(mime_type)
            }
        };
        Ok(ReadResourceResult::new(vec![contents]))
    }

    /// Writes the prompt of a slash command.
    pub(crate) async fn prompt(&self, get: GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
        let given = get.arguments.as_ref().and_then(|given| given.get(ARGUMENTS));
        let given = match given {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => {
                return Err(ErrorData::invalid_params(format!("`{ARGUMENTS}` must be a string"), None));
            }
        };
        let snapshot = self.snapshot().await;
        let text = blocking(move || view::prompt(&snapshot, &get.name, &given)).await;
        let text = text.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
    }

    /// Completes the name of a skill in the address of one; `None` if something else is asked.
    pub(crate) async fn complete(&self, complete: &CompleteRequestParams) -> Option<Vec<String>> {
        match &complete.r#ref {
            Reference::Resource(template) if template.uri == TEMPLATE => {
                let begun = complete.argument.value.to_lowercase();
                let asks_name = complete.argument.name == "name";
                let snapshot = self.snapshot().await;
                let names = snapshot.active().map(|skill| skill.name.clone());
                Some(names.filter(|name| asks_name && name.to_lowercase().starts_with(&begun)).collect())
            }
            // What is written after a slash command is the user's own.
            Reference::Prompt(prompt) => {
                self.snapshot().await;
                self.prompts().iter().any(|known| known.name == prompt.name).then(Vec::new)
            }
            _ => None,
        }
    }
}

fn render(snapshot: &Snapshot) -> Rendered {
    let has_skills = snapshot.for_model().next().is_some();
    let prompts = view::prompts(snapshot).into_iter().map(prompt).collect();
    Rendered { generation: snapshot.generation(), tool: has_skills.then(|| tool(snapshot)), prompts }
}

fn tool(snapshot: &Snapshot) -> Tool {
    let hints = view::skill_tool_annotations();
    let annotations = ToolAnnotations::new()
        .read_only(hints.read_only_hint)
        .destructive(hints.destructive_hint)
        .idempotent(hints.idempotent_hint)
        .open_world(hints.open_world_hint);
    let schema = match view::skill_tool_schema() {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    };
    Tool::new(view::SKILL_TOOL, view::skill_tool_description(snapshot), schema)
        .with_title(view::SKILL_TOOL_TITLE)
        .with_annotations(annotations)
}

fn prompt(view: view::PromptView) -> Prompt {
    let hint = view.argument_hint.unwrap_or_else(|| "What to do with the skill.".to_owned());
    let argument = PromptArgument::new(ARGUMENTS).with_description(hint).with_required(false);
    Prompt::new(view.name, Some(view.description), Some(vec![argument])).with_title(view.title)
}

/// The name of a skill in the tool's arguments; `command` is another word for it.
fn name_of(arguments: &JsonObject) -> Result<&str, String> {
    if let Some(other) = arguments.keys().find(|key| !matches!(key.as_str(), "name" | "command")) {
        return Err(format!("unknown argument `{other}`; give the skill's `name`"));
    }
    match arguments.get("name").or_else(|| arguments.get("command")) {
        Some(Value::String(name)) => Ok(name),
        Some(_) => Err("`name` must be a string".to_owned()),
        None => Err("`name` is missing; give the skill's name".to_owned()),
    }
}

fn refused(why: &str) -> CallToolResult {
    let body = json!({ "code": ErrorKind::InvalidParams.code(), "message": why });
    CallToolResult::error(vec![ContentBlock::text(body.to_string())])
}

fn not_found(uri: &str, error: &Error) -> ErrorData {
    ErrorData::resource_not_found(error.to_string(), Some(json!({ "uri": uri })))
}

/// Reads files on a thread that may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            let source = std::io::Error::other(error);
            Err(Error::File { doing: "read", path: "a skill".into(), source })
        }
    }
}

/// Tells clients what of the lists they have read is no longer so.
fn publish_changes(old: &Snapshot, new: &Snapshot, notices: &Notices) {
    let (before, after) = (render(old), render(new));
    if before.tool != after.tool {
        notices.publish(&Notice::Tools);
    }
    if before.prompts != after.prompts {
        notices.publish(&Notice::Prompts);
    }
    let listed = |snapshot: &Snapshot| -> Vec<_> { snapshot.active().map(Arc::clone).collect() };
    let (before, after) = (listed(old), listed(new));
    if before != after {
        notices.publish(&Notice::Resources);
    }
    for skill in before {
        let same = new.by_name(&skill.name).is_ok_and(|now| now.digest == skill.digest);
        if !same {
            notices.publish(&Notice::Updated(view::uri(&skill, "SKILL.md")));
        }
    }
}

/// Says which skills had to be left out, each once.
fn log_problems(old: &Snapshot, new: &Snapshot, log: &Log) {
    let told = new.problems().iter().filter(|problem| problem.effect != Effect::Withheld);
    for problem in told.filter(|problem| !old.problems().contains(problem)) {
        log(&format!("warning: {problem}"));
    }
}
