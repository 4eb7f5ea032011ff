//! What programs registered, as resources and prompts beside the others.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use meerkat::registered::{INDEX, Kind, StoredPrompt};
use meerkat::skill::Snapshot;
use meerkat::{Contents, Error, RealmRegistry, Runtime};
use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Log, Product};
use crate::layer::{Notice, Notices, Page};
use crate::skills::SkillViews;

const SCHEME: &str = "iii://";
const MARKDOWN: &str = "text/markdown";
const OF_SKILL: &str = "iii://{skill_id}";
const OF_SECTION: &str = "iii://{skill_id}/{function_id}";
/// Stands before the number of a registered skill in a cursor.
const CURSOR: &str = "registry:";
/// How many registered skills a page has.
const PAGE: usize = 250;
/// What the name of a prompt gets that a skill has too.
const SUFFIX: &str = "-registry";
/// How often it is looked whether there is a realm yet.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a list waits for what is registered.
const PATIENCE: Duration = Duration::from_secs(2);

static TEMPLATES: LazyLock<Vec<ResourceTemplate>> = LazyLock::new(|| {
    vec![
        ResourceTemplate::new(OF_SKILL, "Skill")
            .with_description("Markdown body of a registered skill")
            .with_mime_type(MARKDOWN),
        ResourceTemplate::new(OF_SECTION, "Skill section")
            .with_description("Markdown returned by triggering function_id with empty input")
            .with_mime_type(MARKDOWN),
    ]
});

/// Lists how what is registered is addressed.
pub(super) fn templates() -> &'static [ResourceTemplate] {
    &TEMPLATES
}

/// Says whether a URI is of what is registered.
pub(super) fn owns(uri: &str) -> bool {
    uri.starts_with(SCHEME)
}

/// What is registered, followed from the first look on.
pub(super) struct RegistryViews {
    runtime: Runtime,
    registry: RealmRegistry,
    latest: watch::Receiver<Arc<Contents>>,
    /// The contents whose skills the catalog has.
    in_catalog: Mutex<Arc<Contents>>,
    _following: DropGuard,
}

impl RegistryViews {
    async fn new(
        runtime: &Runtime,
        skills: Option<SkillViews>,
        notices: Notices,
        log: Log,
    ) -> Result<Self, Error> {
        let registry = runtime.registry().await?;
        registry.contents().await?;
        let latest = registry.follow();
        let ending = CancellationToken::new();
        let telling = Telling { runtime: runtime.clone(), skills, notices, log, told: HashSet::new() };
        let telling = telling.run(latest.clone());
        tokio::spawn(ending.clone().run_until_cancelled_owned(telling));
        let (runtime, in_catalog) = (runtime.clone(), Mutex::default());
        Ok(Self { runtime, registry, latest, in_catalog, _following: ending.drop_guard() })
    }

    /// Reads what is registered now, so that a list has everything that was registered before the request.
    async fn refresh(&self) {
        // A request that comes in between waits until the catalog is up to date as well.
        let mut in_catalog = self.in_catalog.lock().await;
        // What cannot be read now is listed as it was.
        let Ok(contents) = self.registry.contents().await else { return };
        if *in_catalog != contents && self.runtime.settle_skills().await.is_ok() {
            *in_catalog = contents;
        }
    }

    fn contents(&self) -> Arc<Contents> {
        Arc::clone(&self.latest.borrow())
    }

    /// Lists resources from the `first`th on, the index before all.
    fn page(&self, first: usize) -> Option<(Vec<Resource>, Option<usize>)> {
        let contents = self.contents();
        let skills = &contents.skills.0;
        // An index of nothing would only be in the way.
        let count = if skills.is_empty() { 0 } else { skills.len() + 1 };
        if first > count {
            return None;
        }
        let index = Resource::new(INDEX, "skills")
            .with_description("Index of every registered skill")
            .with_mime_type(MARKDOWN);
        let resource = |skill: &Arc<meerkat::registered::SkillSummary>| {
            Resource::new(format!("{SCHEME}{}", skill.id), skill.title.clone()).with_mime_type(MARKDOWN)
        };
        let all = [index].into_iter().chain(skills.iter().map(resource)).take(count);
        let next = Some(first.saturating_add(PAGE)).filter(|next| *next < count);
        Some((all.skip(first).take(PAGE).collect(), next))
    }
}

/// Lists prompts with the names they are served by: the name of a skill is that of the skill's prompt.
fn named(contents: &Contents, skills: Option<&SkillViews>) -> Vec<(String, StoredPrompt)> {
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
    let argument = |argument: meerkat::registered::PromptArgument| {
        let listed = PromptArgument::new(argument.name).with_required(argument.required);
        match argument.description {
            Some(description) => listed.with_description(description),
            None => listed,
        }
    };
    let arguments: Vec<_> = stored.arguments.into_iter().map(argument).collect();
    Prompt::new(name, Some(stored.description), (!arguments.is_empty()).then_some(arguments))
}

impl Product {
    /// Returns what is registered; `None` while there is no realm, or if it is switched off.
    pub(super) async fn registered(&self) -> Option<&RegistryViews> {
        if self.host.is_fresh() {
            return None;
        }
        let views = async {
            let runtime = self.runtime().await?;
            let (notices, log) = (self.notices.clone(), Arc::clone(&self.log));
            RegistryViews::new(&runtime, self.skills.clone(), notices, log).await
        };
        // Whoever needs the realm is told why it cannot be opened.
        self.registry.get_or_try_init(|| views).await.ok()
    }

    /// Brings every view of what is registered up to date, unless that takes too long.
    pub(super) async fn refresh_registered(&self) {
        let refresh = async {
            if let Some(views) = self.registered().await {
                views.refresh().await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, refresh).await;
    }

    /// Opens a realm that is there, or as soon as it is there, so that what is registered in it is told.
    pub(crate) async fn look_ahead(&self) {
        while self.host.is_fresh() {
            tokio::time::sleep(AGAIN).await;
        }
        let known = self.registry.initialized();
        if let Some(views) = self.registered().await.filter(|_| !known) {
            let contents = views.contents();
            // A client that was faster has seen lists without what is registered.
            publish(&Contents::default(), &contents, &self.notices);
        }
    }

    /// Lists the prompts of the registry.
    pub(super) fn registered_prompts(&self) -> Vec<Prompt> {
        self.named_prompts().into_iter().map(prompt).collect()
    }

    fn named_prompts(&self) -> Vec<(String, StoredPrompt)> {
        let contents = self.registry.get().map(RegistryViews::contents);
        contents.map(|contents| named(&contents, self.skills.as_ref())).unwrap_or_default()
    }

    /// Has a prompt written, if it is one of the registry.
    pub(super) async fn registered_prompt(
        &self,
        get: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResult, ErrorData>> {
        let (_, stored) = self.named_prompts().into_iter().find(|(name, _)| *name == get.name)?;
        let views = self.registry.get()?;
        let arguments = get.arguments.clone().map_or(Value::Null, Value::Object);
        Some(match views.registry.registry().render(&stored.name, arguments).await {
            Ok((description, messages)) => match serde_json::from_value::<Vec<PromptMessage>>(messages) {
                Ok(messages) => Ok(GetPromptResult::new(messages).with_description(description)),
                Err(error) => {
                    let place =
                        format!("`{}` gave messages that are none of MCP: {error}", stored.function_id);
                    Err(ErrorData::internal_error(place, None))
                }
            },
            Err(error) => Err(not_written(error)),
        })
    }

    /// Lists one page of what is registered, the first one or that after the cursor. Returns `None` for the cursor of
    /// another list.
    pub(super) async fn registered_page(
        &self,
        after: Option<&str>,
    ) -> Option<Result<Page<Resource>, ErrorData>> {
        let first = match after.map(|after| after.strip_prefix(CURSOR)) {
            None => Some(0),
            Some(number) => number?.parse().ok(),
        };
        let views = self.registered().await?;
        let page = first.and_then(|first| views.page(first));
        Some(page.ok_or_else(super::resources::unknown_cursor).map(|(items, next)| {
            let next = next.map(|next| format!("{CURSOR}{next}"));
            Page { items, next }
        }))
    }

    /// Reads what is registered under an address.
    pub(super) async fn read_registered(&self, uri: String) -> Result<ReadResourceResult, ErrorData> {
        let Some(views) = self.registered().await else { return Err(super::resources::not_found(&uri)) };
        // It is asked for again, because the config may have changed.
        let registry = match views.runtime.registry().await {
            Ok(registry) => registry,
            Err(Error::Disabled { .. }) => return Err(super::resources::not_found(&uri)),
            Err(error) => return Err(super::resources::failed(&error)),
        };
        let (mime_type, text) = match registry.registry().read(&uri).await {
            Ok(read) => read,
            Err(error) if error.kind() == Kind::Failed => {
                return Err(super::resources::failed(&error.into()));
            }
            Err(error) => {
                return Err(ErrorData::resource_not_found(error.to_string(), Some(json!({ "uri": uri }))));
            }
        };
        let contents = ResourceContents::text(text, uri).with_mime_type(mime_type);
        Ok(ReadResourceResult::new(vec![contents]))
    }

    /// Completes a part of an address of what is registered; `None` if something else is asked.
    pub(super) async fn complete_registered(
        &self,
        template: &str,
        argument: &str,
        begun: &str,
    ) -> Option<Vec<String>> {
        if template != OF_SKILL && template != OF_SECTION {
            return None;
        }
        let Some(views) = self.registered().await else { return Some(Vec::new()) };
        let mut known: Vec<String> = match argument {
            "skill_id" => views.contents().skills.0.iter().map(|skill| skill.id.clone()).collect(),
            "function_id" if template == OF_SECTION => {
                let functions = match views.runtime.registry().await {
                    Ok(registry) => registry.functions().await.unwrap_or_default(),
                    Err(_) => Vec::new(),
                };
                let id = |function: &Value| function.get("function_id")?.as_str().map(str::to_owned);
                functions.iter().filter_map(id).collect()
            }
            _ => Vec::new(),
        };
        known.retain(|value| value.starts_with(begun));
        Some(known)
    }

    /// Says whether a prompt is one of the registry; what its arguments may be, only its handler knows.
    pub(super) fn is_registered_prompt(&self, name: &str) -> bool {
        self.named_prompts().iter().any(|(known, _)| known == name)
    }
}

fn not_written(error: meerkat::registered::Error) -> ErrorData {
    use meerkat::registered::Error as Fault;
    match error {
        Fault::PromptNotFound(_) | Fault::Invalid(_) | Fault::Input(_) => {
            ErrorData::invalid_params(error.to_string(), None)
        }
        other => super::resources::failed(&other.into()),
    }
}

/// Tells clients of what changes.
struct Telling {
    runtime: Runtime,
    skills: Option<SkillViews>,
    notices: Notices,
    log: Log,
    told: HashSet<String>,
}

impl Telling {
    async fn run(mut self, mut latest: watch::Receiver<Arc<Contents>>) {
        let mut skills = self.skills.as_ref().map(SkillViews::follow);
        let mut known = Arc::clone(&latest.borrow_and_update());
        self.warn(&known);
        loop {
            tokio::select! {
                changed = latest.changed() => if changed.is_err() { return },
                // Another skill may have the name of a prompt.
                () = next_snapshot(skills.as_mut()) => {}
            }
            let contents = Arc::clone(&latest.borrow_and_update());
            publish(&known, &contents, &self.notices);
            self.warn(&contents);
            if known.skills != contents.skills {
                // They are skills of the catalog too, which tells of them itself.
                let _ = self.runtime.settle_skills().await;
            }
            known = contents;
        }
    }

    /// Says which prompts have another name than they were registered by, each once.
    fn warn(&mut self, contents: &Contents) {
        for (name, stored) in named(contents, self.skills.as_ref()) {
            if name != stored.name && self.told.insert(stored.name.clone()) {
                let line = format!(
                    "warning: the registered prompt `{}` is served as `{name}`, because a skill has its name",
                    stored.name
                );
                (self.log)(&line);
            }
        }
    }
}

/// Waits until the skills change; for ever if there are none to follow.
async fn next_snapshot(skills: Option<&mut watch::Receiver<Arc<Snapshot>>>) {
    if let Some(skills) = skills
        && skills.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Tells clients what of the lists they have read is no longer so.
fn publish(old: &Contents, new: &Contents, notices: &Notices) {
    if old.prompts != new.prompts {
        notices.publish(&Notice::Prompts);
    }
    if old.skills == new.skills {
        return;
    }
    notices.publish(&Notice::Resources);
    notices.publish(&Notice::Updated(INDEX.to_owned()));
    let before: HashSet<_> = old.skills.0.iter().collect();
    let after: HashSet<_> = new.skills.0.iter().collect();
    for skill in before.symmetric_difference(&after) {
        notices.publish(&Notice::Updated(format!("{SCHEME}{}", skill.id)));
    }
}
