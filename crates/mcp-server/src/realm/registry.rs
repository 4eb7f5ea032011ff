//! Skills and prompts registered by workers, as additional resources and prompts.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use meerkat::registry::{INDEX, Kind, StoredPrompt};
use meerkat::skills::Snapshot;
use meerkat::{Error, RealmRegistry, RegistryContents, Runtime, ToolsError};
use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate,
};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::access::RuntimeAccess;
use super::errors::{failed, not_found, not_found_because};
use crate::log::Log;
use crate::protocol::{ChangeNotification, Notifier, Page};
use crate::skills::SkillViews;

const SCHEME: &str = "iii://";
const MARKDOWN: &str = "text/markdown";
const SKILL_TEMPLATE: &str = "iii://{skill_id}";
const SECTION_TEMPLATE: &str = "iii://{skill_id}/{function_id}";
/// Prefix of the numbers of registered skills in cursors.
const CURSOR_PREFIX: &str = "registry:";
/// Number of registered skills per page.
const PAGE_SIZE: usize = 250;
/// Suffix for the name of a prompt that clashes with a skill.
const SUFFIX: &str = "-registry";
/// Interval between checks whether the realm exists.
const REALM_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a list waits for the registry.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(2);

static TEMPLATES: LazyLock<Vec<ResourceTemplate>> = LazyLock::new(|| {
    vec![
        ResourceTemplate::new(SKILL_TEMPLATE, "Skill")
            .with_description("Markdown body of a registered skill")
            .with_mime_type(MARKDOWN),
        ResourceTemplate::new(SECTION_TEMPLATE, "Skill section")
            .with_description("Markdown returned by triggering function_id with empty input")
            .with_mime_type(MARKDOWN),
    ]
});

/// Returns the URI templates of the registry.
pub(super) fn templates() -> &'static [ResourceTemplate] {
    &TEMPLATES
}

/// Returns `true` if a URI belongs to the registry.
pub(super) fn owns(uri: &str) -> bool {
    uri.starts_with(SCHEME)
}

/// Views of the registry, kept current after the first read.
pub(super) struct RegistryViews {
    runtime: Runtime,
    registry: RealmRegistry,
    latest: watch::Receiver<Arc<RegistryContents>>,
    /// Contents whose skills are in the catalog.
    in_catalog: Mutex<Arc<RegistryContents>>,
    _following: DropGuard,
}

impl RegistryViews {
    async fn new(
        runtime: &Runtime,
        skills: Option<SkillViews>,
        notices: Notifier,
        log: Log,
    ) -> Result<Self, Error> {
        let registry = runtime.registry().await?;
        registry.contents().await?;
        let latest = registry.follow();
        let ending = CancellationToken::new();
        let notifier =
            ChangeNotifier { runtime: runtime.clone(), skills, notices, log, warned: HashSet::new() };
        let notifier = notifier.run(latest.clone());
        tokio::spawn(ending.clone().run_until_cancelled_owned(notifier));
        let (runtime, in_catalog) = (runtime.clone(), Mutex::default());
        Ok(Self { runtime, registry, latest, in_catalog, _following: ending.drop_guard() })
    }

    /// Refreshes the contents, so that a list includes everything registered before the request.
    async fn refresh(&self) {
        // Concurrent requests wait until the catalog is up to date as well.
        let mut in_catalog = self.in_catalog.lock().await;
        // If the registry cannot be read, the previous contents are listed.
        let Ok(contents) = self.registry.contents().await else { return };
        if *in_catalog != contents && self.runtime.refresh_skills().await.is_ok() {
            *in_catalog = contents;
        }
    }

    fn contents(&self) -> Arc<RegistryContents> {
        Arc::clone(&self.latest.borrow())
    }

    /// Returns a page of resources starting at number `first`; the index comes first.
    fn page(&self, first: usize) -> Option<(Vec<Resource>, Option<usize>)> {
        let contents = self.contents();
        let skills = &contents.skills.0;
        // An empty index would be useless.
        let count = if skills.is_empty() { 0 } else { skills.len() + 1 };
        if first > count {
            return None;
        }
        let index = Resource::new(INDEX, "skills")
            .with_description("Index of every registered skill")
            .with_mime_type(MARKDOWN);
        let resource = |skill: &Arc<meerkat::registry::SkillSummary>| {
            Resource::new(format!("{SCHEME}{}", skill.id), skill.title.clone()).with_mime_type(MARKDOWN)
        };
        let all = [index].into_iter().chain(skills.iter().map(resource)).take(count);
        let next = Some(first.saturating_add(PAGE_SIZE)).filter(|next| *next < count);
        Some((all.skip(first).take(PAGE_SIZE).collect(), next))
    }
}

/// Returns the prompts with the names they are served under: the prompt of a skill keeps the skill's name.
fn served_prompts(contents: &RegistryContents, skills: Option<&SkillViews>) -> Vec<(String, StoredPrompt)> {
    let names = |prompt: Prompt| prompt.name;
    let own: HashSet<String> =
        skills.map(SkillViews::prompts).unwrap_or_default().into_iter().map(names).collect();
    let registered: HashSet<&String> = contents.prompts.0.iter().map(|prompt| &prompt.name).collect();
    let name = |prompt: &StoredPrompt| {
        let mut name = prompt.name.clone();
        while own.contains(&name) || (name != prompt.name && registered.contains(&name)) {
            name.push_str(SUFFIX);
        }
        (name, prompt.clone())
    };
    contents.prompts.0.iter().map(name).collect()
}

fn prompt((name, stored): (String, StoredPrompt)) -> Prompt {
    let argument = |argument: meerkat::registry::PromptArgument| {
        let converted = PromptArgument::new(argument.name).with_required(argument.required);
        match argument.description {
            Some(description) => converted.with_description(description),
            None => converted,
        }
    };
    let arguments: Vec<_> = stored.arguments.into_iter().map(argument).collect();
    Prompt::new(name, Some(stored.description), (!arguments.is_empty()).then_some(arguments))
}

/// Skills and prompts that workers registered in the realm, from its first use on.
pub(super) struct Registered {
    access: Arc<RuntimeAccess>,
    skills: Option<SkillViews>,
    log: Log,
    views: OnceCell<RegistryViews>,
}

impl Registered {
    pub(super) fn new(access: Arc<RuntimeAccess>, skills: Option<SkillViews>, log: Log) -> Self {
        Self { access, skills, log, views: OnceCell::new() }
    }

    /// Returns the registry views, or `None` if the realm does not exist yet or the registry is disabled.
    async fn views(&self) -> Option<&RegistryViews> {
        if self.access.host().is_fresh() {
            return None;
        }
        let views = async {
            let runtime = self.access.runtime().await?;
            let (notices, log) = (self.access.notices().clone(), Arc::clone(&self.log));
            RegistryViews::new(&runtime, self.skills.clone(), notices, log).await
        };
        // Operations that need the realm report why it cannot be opened.
        self.views.get_or_try_init(|| views).await.ok()
    }

    /// Refreshes every view of the registry, up to a timeout.
    pub(super) async fn refresh(&self) {
        let refresh = async {
            if let Some(views) = self.views().await {
                views.refresh().await;
            }
        };
        let _ = tokio::time::timeout(REFRESH_TIMEOUT, refresh).await;
    }

    /// Opens the realm once it exists, so that clients are notified of its registry. Logs the reason if that fails.
    pub(super) async fn open_when_created(&self) {
        while self.access.host().is_fresh() {
            tokio::time::sleep(REALM_POLL_INTERVAL).await;
        }
        if let Err(error) = self.access.runtime().await {
            (self.log)(&format!("error: cannot open the realm: {error}"));
        }
        let known = self.views.initialized();
        if let Some(views) = self.views().await.filter(|_| !known) {
            let contents = views.contents();
            // Clients may already have read lists without the registry.
            publish(&RegistryContents::default(), &contents, self.access.notices());
        }
    }

    /// Returns the prompts of the registry.
    pub(super) fn prompts(&self) -> Vec<Prompt> {
        self.named_prompts().into_iter().map(prompt).collect()
    }

    fn named_prompts(&self) -> Vec<(String, StoredPrompt)> {
        let contents = self.views.get().map(RegistryViews::contents);
        contents.map(|contents| served_prompts(&contents, self.skills.as_ref())).unwrap_or_default()
    }

    /// Renders a prompt, if it belongs to the registry.
    pub(super) async fn prompt(
        &self,
        get: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResult, ErrorData>> {
        let (_, stored) = self.named_prompts().into_iter().find(|(name, _)| *name == get.name)?;
        let views = self.views.get()?;
        let arguments = get.arguments.clone().map_or(Value::Null, Value::Object);
        Some(match views.registry.registry().render(&stored.name, arguments).await {
            Ok((description, messages)) => match serde_json::from_value::<Vec<PromptMessage>>(messages) {
                Ok(messages) => Ok(GetPromptResult::new(messages).with_description(description)),
                Err(error) => {
                    let message = format!("`{}` returned invalid MCP messages: {error}", stored.function_id);
                    Err(ErrorData::internal_error(message, None))
                }
            },
            Err(error) => Err(render_error(error)),
        })
    }

    /// Returns one page of registered skills: the first one, or the one after the cursor. Returns `None` for the cursor
    /// of another list.
    pub(super) async fn page(&self, after: Option<&str>) -> Option<Result<Page<Resource>, ErrorData>> {
        let views = self.views().await?;
        Page::numbered(CURSOR_PREFIX, after, async |first| views.page(first)).await
    }

    /// Reads a resource of the registry.
    pub(super) async fn read(&self, uri: String) -> Result<ReadResourceResult, ErrorData> {
        let Some(views) = self.views().await else { return Err(not_found(&uri)) };
        // The registry is requested again because the config may have changed.
        let registry = match views.runtime.registry().await {
            Ok(registry) => registry,
            Err(Error::Tools(ToolsError::Request(_))) => return Err(not_found(&uri)),
            Err(error) => return Err(failed(&error)),
        };
        let (mime_type, text) = match registry.registry().read(&uri).await {
            Ok(read) => read,
            Err(error) if error.kind() == Kind::Failed => {
                return Err(failed(&error.into()));
            }
            Err(error) => return Err(not_found_because(&uri, error.to_string())),
        };
        let contents = ResourceContents::text(text, uri).with_mime_type(mime_type);
        Ok(ReadResourceResult::new(vec![contents]))
    }

    /// Completes a part of a registry URI. Returns `None` for other templates.
    pub(super) async fn complete(&self, template: &str, argument: &str, prefix: &str) -> Option<Vec<String>> {
        if template != SKILL_TEMPLATE && template != SECTION_TEMPLATE {
            return None;
        }
        let Some(views) = self.views().await else { return Some(Vec::new()) };
        let mut known: Vec<String> = match argument {
            "skill_id" => views.contents().skills.0.iter().map(|skill| skill.id.clone()).collect(),
            "function_id" if template == SECTION_TEMPLATE => {
                let functions = match views.runtime.registry().await {
                    Ok(registry) => registry.functions().await.unwrap_or_default(),
                    Err(_) => Vec::new(),
                };
                let id = |function: &Value| function.get("function_id")?.as_str().map(str::to_owned);
                functions.iter().filter_map(id).collect()
            }
            _ => Vec::new(),
        };
        known.retain(|value| value.starts_with(prefix));
        Some(known)
    }

    /// Returns `true` if a prompt belongs to the registry. Only its handler knows the possible arguments.
    pub(super) fn has_prompt(&self, name: &str) -> bool {
        self.named_prompts().iter().any(|(known, _)| known == name)
    }
}

fn render_error(error: meerkat::registry::Error) -> ErrorData {
    use meerkat::registry::Error as RegistryError;
    match error {
        RegistryError::PromptNotFound(_) | RegistryError::Invalid(_) | RegistryError::Input(_) => {
            ErrorData::invalid_params(error.to_string(), None)
        }
        other => failed(&other.into()),
    }
}

/// Notifies clients of changes in the registry.
struct ChangeNotifier {
    runtime: Runtime,
    skills: Option<SkillViews>,
    notices: Notifier,
    log: Log,
    warned: HashSet<String>,
}

impl ChangeNotifier {
    async fn run(mut self, mut latest: watch::Receiver<Arc<RegistryContents>>) {
        let mut skills = self.skills.as_ref().map(SkillViews::follow);
        let mut known = Arc::clone(&latest.borrow_and_update());
        self.warn(&known);
        loop {
            tokio::select! {
                changed = latest.changed() => if changed.is_err() { return },
                // A new skill may clash with a prompt.
                () = next_snapshot(skills.as_mut()) => {}
            }
            let contents = Arc::clone(&latest.borrow_and_update());
            publish(&known, &contents, &self.notices);
            self.warn(&contents);
            if known.skills != contents.skills {
                // They are also in the catalog, which publishes its own changes.
                let _ = self.runtime.refresh_skills().await;
            }
            known = contents;
        }
    }

    /// Logs each prompt that is served under another name than its registered one, once.
    fn warn(&mut self, contents: &RegistryContents) {
        for (name, stored) in served_prompts(contents, self.skills.as_ref()) {
            if name != stored.name && self.warned.insert(stored.name.clone()) {
                let line = format!(
                    "warning: the registered prompt `{}` is served as `{name}`, because a skill has the same name",
                    stored.name
                );
                (self.log)(&line);
            }
        }
    }
}

/// Waits until the skills change; never completes if there are no skills to follow.
async fn next_snapshot(skills: Option<&mut watch::Receiver<Arc<Snapshot>>>) {
    if let Some(skills) = skills
        && skills.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Notifies clients of the differences between two versions of the contents.
fn publish(old: &RegistryContents, new: &RegistryContents, notices: &Notifier) {
    if old.prompts != new.prompts {
        notices.publish(&ChangeNotification::Prompts);
    }
    if old.skills == new.skills {
        return;
    }
    notices.publish(&ChangeNotification::Resources);
    notices.publish(&ChangeNotification::Updated(INDEX.to_owned()));
    let before: HashSet<_> = old.skills.0.iter().collect();
    let after: HashSet<_> = new.skills.0.iter().collect();
    for skill in before.symmetric_difference(&after) {
        notices.publish(&ChangeNotification::Updated(format!("{SCHEME}{}", skill.id)));
    }
}
