//! Skills over MCP: the `skill` tool, resources, prompts, and the skills extension.
//!
//! All of them are views of one catalog, whose changes are published to every interested client.

mod extension;
mod serve;

use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat::skills::view::{self, ResourceText};
use meerkat::skills::{Catalog, Effect, Error, Snapshot, Trust, Watch, WatchOptions};
use meerkat::{ErrorKind, excerpt};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, CompleteRequestParams, ContentBlock, GetPromptRequestParams, GetPromptResult, JsonObject,
    MetaObject, Prompt, PromptArgument, PromptMessage, ReadResourceResult, Reference, Resource,
    ResourceContents, ResourceTemplate, Role, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use tokio::sync::watch;

pub use serve::serve_skills;

use crate::log::Log;
use crate::protocol::{ChangeNotification, Notifier};

/// Argument of a prompt.
const ARGUMENTS: &str = "arguments";
/// Number of skills per page of resources: more than most users have, because many clients read only one page.
const PAGE_SIZE: usize = 250;
/// Metadata key of a resource's digest.
const DIGEST: &str = "rkat/digest";
/// Metadata key that marks a resource from a directory the user has not trusted.
const TRUSTED: &str = "rkat/trusted";

static TEMPLATES: LazyLock<Vec<ResourceTemplate>> = LazyLock::new(|| {
    vec![
        ResourceTemplate::new(TEMPLATE, "skill-file")
            .with_title("A file of a skill")
            .with_description("A skill's SKILL.md or another of its files."),
    ]
});

/// URI template of a skill's file.
const TEMPLATE: &str = "skill://{name}/{+path}";

/// Returns the URI templates of skill resources.
pub(crate) fn templates() -> &'static [ResourceTemplate] {
    &TEMPLATES
}

/// MCP views of a skill catalog. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SkillViews {
    catalog: Catalog,
    rendered: Arc<Mutex<Arc<Rendered>>>,
    watch: Arc<OnceLock<Option<Watch>>>,
    log: Log,
}

/// Lists rendered from one snapshot.
#[derive(Default)]
struct Rendered {
    generation: u64,
    tool: Option<Tool>,
    prompts: Vec<Prompt>,
}

impl SkillViews {
    /// Creates the views. Changes are published to `notices`; `log` receives problems with skills.
    pub(crate) fn new(catalog: Catalog, notices: Notifier, log: Log) -> Self {
        let file_notices = notices.clone();
        catalog.on_file(move |skill, file| {
            file_notices.publish(&ChangeNotification::Updated(view::uri(skill, file)))
        });
        let problem_log = Arc::clone(&log);
        catalog.on_change(move |old, new| {
            log_problems(old, new, &problem_log);
            // No client has seen anything before the first scan.
            if old.generation() > 0 {
                publish_changes(old, new, &notices);
            }
        });
        Self { catalog, rendered: Arc::default(), watch: Arc::default(), log }
    }

    /// Returns the current skills. The first call starts watching for changes: before it, no client has seen any
    /// skills, and a server that is only started need not scan. The first scan runs on a blocking thread.
    pub(crate) async fn snapshot(&self) -> Arc<Snapshot> {
        self.watch.get_or_init(|| {
            let watch = self.catalog.watch(WatchOptions::default());
            let failed = |error| (self.log)(&format!("warning: cannot watch skills for changes: {error}"));
            watch.map_err(failed).ok()
        });
        self.catalog.load().await
    }

    /// Subscribes to snapshots, without a scan.
    pub(crate) fn follow(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.catalog.subscribe()
    }

    /// Returns the lists of the latest snapshot; they are empty before the first scan.
    fn rendered(&self) -> Arc<Rendered> {
        let snapshot = self.catalog.latest();
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if rendered.generation != snapshot.generation() {
            *rendered = Arc::new(render(&snapshot));
        }
        Arc::clone(&rendered)
    }

    /// Returns the `skill` tool, or `None` if there are no skills.
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
            Err(reason) => return invalid_params(&reason),
            Ok(name) => {
                let (snapshot, name) = (self.snapshot().await, name.to_owned());
                blocking(move || Ok(view::skill_tool_answer(&snapshot, &name))).await
            }
        };
        match answer {
            Ok(answer) if answer.is_error() => invalid_params(answer.text()),
            Ok(answer) => CallToolResult::success(vec![ContentBlock::text(answer.text())]),
            Err(error) => invalid_params(&error.to_string()),
        }
    }

    /// Returns a page of skills as resources, starting at number `first`, and the start of the next page. Returns
    /// `None` if `first` is beyond the end.
    pub(crate) async fn page(&self, first: usize) -> Option<(Vec<Resource>, Option<usize>)> {
        let snapshot = self.snapshot().await;
        let count = snapshot.active().count();
        if first > count {
            return None;
        }
        let next = Some(first.saturating_add(PAGE_SIZE)).filter(|next| *next < count);
        let resource = |skill: &Arc<meerkat::skills::Skill>| {
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
        Some((snapshot.active().skip(first).take(PAGE_SIZE).map(resource).collect(), next))
    }

    /// Returns `true` if a URI belongs to a skill.
    pub(crate) fn owns(uri: &str) -> bool {
        uri.starts_with("skill://")
    }

    /// Reads a file of a skill.
    pub(crate) async fn read(&self, uri: String) -> Result<ReadResourceResult, ErrorData> {
        let (snapshot, requested) = (self.snapshot().await, uri.clone());
        let read = blocking(move || view::read_resource(&snapshot, &requested)).await;
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

    /// Renders the prompt of a slash command.
    pub(crate) async fn prompt(&self, get: GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
        let argument = get.arguments.as_ref().and_then(|arguments| arguments.get(ARGUMENTS));
        let argument = match argument {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => {
                return Err(ErrorData::invalid_params(format!("`{ARGUMENTS}` must be a string"), None));
            }
        };
        let snapshot = self.snapshot().await;
        let text = blocking(move || view::prompt(&snapshot, &get.name, &argument)).await;
        let text = text.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
    }

    /// Completes a skill name in the URI template. Returns `None` for other references.
    pub(crate) async fn complete(&self, complete: &CompleteRequestParams) -> Option<Vec<String>> {
        match &complete.r#ref {
            Reference::Resource(template) if template.uri == TEMPLATE => {
                let prefix = complete.argument.value.to_lowercase();
                let asks_name = complete.argument.name == "name";
                let snapshot = self.snapshot().await;
                let names = snapshot.active().map(|skill| skill.name.clone());
                Some(names.filter(|name| asks_name && name.to_lowercase().starts_with(&prefix)).collect())
            }
            // The arguments of a slash command are free text.
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

/// Returns the skill name in the tool's arguments; `command` is an alias of `name`.
fn name_of(arguments: &JsonObject) -> Result<&str, String> {
    if let Some(other) = arguments.keys().find(|key| !matches!(key.as_str(), "name" | "command")) {
        return Err(format!("unknown argument `{}`; give the skill's `name`", excerpt(other)));
    }
    match arguments.get("name").or_else(|| arguments.get("command")) {
        Some(Value::String(name)) => Ok(name),
        Some(_) => Err("`name` must be a string".to_owned()),
        None => Err("`name` is missing; give the skill's name".to_owned()),
    }
}

fn invalid_params(reason: &str) -> CallToolResult {
    let body = json!({ "code": ErrorKind::InvalidParams.code(), "message": reason });
    CallToolResult::error(vec![ContentBlock::text(body.to_string())])
}

fn not_found(uri: &str, error: &Error) -> ErrorData {
    ErrorData::resource_not_found(error.to_string(), Some(json!({ "uri": excerpt(uri) })))
}

/// Runs file operations on a blocking thread.
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

/// Notifies clients of the differences between two snapshots.
fn publish_changes(old: &Snapshot, new: &Snapshot, notices: &Notifier) {
    let (before, after) = (render(old), render(new));
    if before.tool != after.tool {
        notices.publish(&ChangeNotification::Tools);
    }
    if before.prompts != after.prompts {
        notices.publish(&ChangeNotification::Prompts);
    }
    let listed = |snapshot: &Snapshot| -> Vec<_> { snapshot.active().map(Arc::clone).collect() };
    let (before, after) = (listed(old), listed(new));
    if before != after {
        notices.publish(&ChangeNotification::Resources);
    }
    for skill in before {
        let same = new.by_name(&skill.name).is_ok_and(|now| now.digest == skill.digest);
        if !same {
            notices.publish(&ChangeNotification::Updated(view::uri(&skill, "SKILL.md")));
        }
    }
}

/// Logs each new problem with a skill, except for withheld skills.
fn log_problems(old: &Snapshot, new: &Snapshot, log: &Log) {
    let reported = new.problems().iter().filter(|problem| problem.effect != Effect::Withheld);
    for problem in reported.filter(|problem| !old.problems().contains(problem)) {
        log(&format!("warning: {problem}"));
    }
}
