//! Tools that let agents find and read skills.
//!
//! If no skills are available, no tools are provided.

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{
    BoxFuture, Invocation, Tool, ToolDef, ToolFailure, ToolImpact, ToolOutput, ToolSource, input_schema,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Catalog, Error, SkillFilter, SkillKey, SkillName, Snapshot, SourceId, Trust, view};

/// Time that a tool waits for the first scan.
const SCAN_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of skills in a result of `browse_skills`.
const PAGE: usize = 100;

/// Skill tools of an agent: `browse_skills`, `load_skill`, `skill_list_resources`, and `skill_read_resource`, which
/// complement the list of skills in the system prompt. They are those for the skills found so far, so that listing them
/// never waits for a scan.
#[derive(Clone)]
pub struct AgentTools {
    catalog: Catalog,
    offered: SkillFilter,
}

impl AgentTools {
    /// Creates the tools for the skills that a filter selects.
    #[must_use]
    pub const fn new(catalog: Catalog, offered: SkillFilter) -> Self {
        Self { catalog, offered }
    }
}

impl ToolSource for AgentTools {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let snapshot = self.catalog.latest();
        if snapshot.for_agent(self.offered).next().is_none() {
            return Vec::new();
        }
        let tool = |kind: &Kind| {
            let def = kind.def();
            let catalog = self.catalog.clone();
            Arc::new(SkillTool { kind: *kind, def, catalog, offered: self.offered }) as Arc<dyn Tool>
        };
        [Kind::Browse, Kind::Load, Kind::ListFiles, Kind::ReadFile].iter().map(tool).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Browse,
    Load,
    ListFiles,
    ReadFile,
}

struct SkillTool {
    kind: Kind,
    def: ToolDef,
    catalog: Catalog,
    offered: SkillFilter,
}

/// Arguments of `browse_skills`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Browse {
    /// Words to search for in names and descriptions; omit to list all skills.
    query: Option<String>,
    /// List only skills of this source.
    source_uuid: Option<SourceId>,
}

/// Arguments that name a skill.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneSkill {
    /// The skill's source: the first part of its id.
    source_uuid: SourceId,
    /// The skill's name: the second part of its id.
    skill_name: SkillName,
}

/// Arguments that name a file of a skill.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneFile {
    /// The skill's source: the first part of its id.
    source_uuid: SourceId,
    /// The skill's name: the second part of its id.
    skill_name: SkillName,
    /// The file's path, as listed by skill_list_resources.
    path: String,
}

impl Kind {
    fn def(self) -> ToolDef {
        let (name, description, input_schema) = match self {
            Self::Browse => (
                "browse_skills",
                "Find skills by words in their names and descriptions.",
                input_schema::<Browse>(),
            ),
            Self::Load => (
                view::LOAD_SKILL,
                "Read a skill's instructions. Call this before you follow the skill.",
                input_schema::<OneSkill>(),
            ),
            Self::ListFiles => {
                ("skill_list_resources", "List the files that come with a skill.", input_schema::<OneSkill>())
            }
            Self::ReadFile => (
                "skill_read_resource",
                "Read a text file that comes with a skill.",
                input_schema::<OneFile>(),
            ),
        };
        ToolDef { name: name.to_owned(), description: description.to_owned(), input_schema }
    }

    fn answer(self, snapshot: &Snapshot, offered: SkillFilter, args: Value) -> ToolOutput {
        let answer = match self {
            Self::Browse => decode(args).map(|args| Ok(browse(snapshot, offered, &args))),
            Self::Load => decode(args).map(|args| load(snapshot, args)),
            Self::ListFiles => decode(args).map(|args| list_files(snapshot, args)),
            Self::ReadFile => decode(args).map(|args| read_file(snapshot, args)),
        };
        match answer {
            Ok(Ok(value)) => ToolOutput::text(value.to_string()),
            Ok(Err(error)) => ToolOutput::failure(ToolFailure::ExecutionFailed, &error.to_string()),
            Err(output) => output,
        }
    }
}

impl Tool for SkillTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        ToolImpact::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        let (kind, offered, catalog) = (self.kind, self.offered, self.catalog.clone());
        Box::pin(async move {
            let Some(snapshot) = catalog.load_within(SCAN_LIMIT).await else {
                let message = "the scan for skills is still running; try again later";
                return ToolOutput::failure(ToolFailure::Unavailable, message);
            };
            let work = move || kind.answer(&snapshot, offered, invocation.call.args);
            tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
                ToolOutput::failure(ToolFailure::ExecutionFailed, &format!("reading skills failed: {error}"))
            })
        })
    }
}

fn decode<T: DeserializeOwned>(args: Value) -> Result<T, ToolOutput> {
    meerkat_core::decode(args).map_err(|error| ToolOutput::failure(ToolFailure::InvalidArguments, &error))
}

fn browse(snapshot: &Snapshot, offered: SkillFilter, args: &Browse) -> Value {
    let query = args.query.as_deref().unwrap_or_default().to_lowercase();
    let words: Vec<&str> = query.split_whitespace().collect();
    let fits = |skill: &&Arc<crate::Skill>| {
        let text = format!("{} {} {}", skill.name, skill.display_name(), skill.description).to_lowercase();
        args.source_uuid.is_none_or(|source| source == skill.key.source_uuid)
            && words.iter().all(|word| text.contains(word))
    };
    let found: Vec<_> = snapshot.for_agent(offered).filter(fits).collect();
    let row = |skill: &&Arc<crate::Skill>| {
        let row = json!({
            "source_uuid": skill.key.source_uuid,
            "skill_name": skill.key.skill_name,
            "name": skill.display_name(),
            "description": skill.description,
        });
        marked(row, skill)
    };
    let rows: Vec<_> = found.iter().take(PAGE).map(row).collect();
    let left_out = found.len() - rows.len();
    if left_out == 0 { json!({ "skills": rows }) } else { json!({ "skills": rows, "left_out": left_out }) }
}

fn load(snapshot: &Snapshot, OneSkill { source_uuid, skill_name }: OneSkill) -> Result<Value, Error> {
    let skill = snapshot.by_key(&SkillKey { source_uuid, skill_name })?;
    let text = skill.read()?;
    let answer = json!({
        "source_uuid": skill.key.source_uuid,
        "skill_name": skill.key.skill_name,
        "name": skill.display_name(),
        "body": text.body(),
        "byte_size": text.body().len(),
    });
    Ok(marked(answer, skill))
}

/// Adds `"trusted": false` for an untrusted skill.
fn marked(mut answer: Value, skill: &crate::Skill) -> Value {
    if skill.trust == Trust::Untrusted {
        answer["trusted"] = json!(false);
    }
    answer
}

fn list_files(snapshot: &Snapshot, OneSkill { source_uuid, skill_name }: OneSkill) -> Result<Value, Error> {
    let skill = snapshot.by_key(&SkillKey { source_uuid, skill_name })?;
    let bundle = skill.bundle()?;
    Ok(json!({
        "source_uuid": skill.key.source_uuid,
        "skill_name": skill.key.skill_name,
        "base_directory": skill.base(),
        "resources": bundle.files,
        "left_out": bundle.left_out,
    }))
}

fn read_file(snapshot: &Snapshot, args: OneFile) -> Result<Value, Error> {
    let OneFile { source_uuid, skill_name, path } = args;
    let skill = snapshot.by_key(&SkillKey { source_uuid, skill_name })?;
    let bytes = skill.read_file(&path)?;
    let size = bytes.len();
    let Ok(content) = String::from_utf8(bytes) else {
        return Err(Error::BadPath { path, why: "it is not a text file" });
    };
    Ok(json!({
        "source_uuid": skill.key.source_uuid,
        "skill_name": skill.key.skill_name,
        "path": path,
        "content": content,
        "byte_size": size,
    }))
}
