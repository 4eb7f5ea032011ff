//! The `skills::*` functions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Author, Registry, SKILL, reject_whitespace};
use crate::input::{EmptyInput, ListSkillsInput, ReadResourceInput, RegisterSkillInput};
use crate::listing::{Skills, failed_index};
use crate::uri::{INDEX, Resource, is_reserved, parse};
use crate::{BusError, Error, StoredSkill, output, validate};

const MARKDOWN: &str = "text/markdown";

impl Registry {
    pub(super) async fn register_skill(
        &self,
        author: Option<Author<'_>>,
        input: RegisterSkillInput,
    ) -> Result<Value, Error> {
        validate::skill(&input)?;
        let RegisterSkillInput { id, skill } = input;
        self.register(SKILL, author, &id, json!({ "id": id, "skill": skill })).await
    }

    pub(super) async fn list_skills(&self, _: ListSkillsInput) -> Result<Value, Error> {
        let skills = self.skills().await?;
        let entry = |skill: &Arc<crate::SkillSummary>| json!({ "id": skill.id, "bytes": skill.bytes, "registered_at": skill.registered_at });
        Ok(json!({ "skills": skills.0.iter().map(entry).collect::<Vec<_>>() }))
    }

    pub(super) async fn list_resources(&self, _: EmptyInput) -> Result<Value, Error> {
        let index = json!({
            "uri": INDEX,
            "name": "skills",
            "description": "Index of every registered skill",
            "mimeType": MARKDOWN,
        });
        // For callers that list resources, the index, which reports the problem, is more useful than an error.
        let skills = self.skills().await.unwrap_or_default();
        let resource = |skill: &Arc<crate::SkillSummary>| json!({ "uri": format!("iii://{}", skill.id), "name": skill.title, "mimeType": MARKDOWN });
        let resources: Vec<_> = [index].into_iter().chain(skills.0.iter().map(resource)).collect();
        Ok(json!({ "resources": resources }))
    }

    #[expect(clippy::unused_self, reason = "same signature as the other functions")]
    pub(super) fn list_templates(&self, _: EmptyInput) -> Result<Value, Error> {
        Ok(json!({ "resourceTemplates": [
            {
                "uriTemplate": "iii://{skill_id}",
                "name": "Skill",
                "description": "Markdown body of a registered skill",
                "mimeType": MARKDOWN,
            },
            {
                "uriTemplate": "iii://{skill_id}/{function_id}",
                "name": "Skill section",
                "description": "Markdown returned by triggering function_id with empty input",
                "mimeType": MARKDOWN,
            },
        ] }))
    }

    pub(super) async fn read_resource(
        &self,
        author: Option<Author<'_>>,
        input: ReadResourceInput,
    ) -> Result<Value, Error> {
        if let (Some(author), Resource::Section { function, .. }) = (author, parse(&input.uri)?)
            && !(author.may_use)(function)
        {
            return Err(Error::NotAllowed(function.to_owned()));
        }
        let (mime_type, text) = self.read(&input.uri).await?;
        Ok(json!({ "contents": [{ "uri": input.uri, "mimeType": mime_type, "text": text }] }))
    }

    /// Reads the resource with a URI; returns its MIME type and text.
    ///
    /// # Errors
    /// Returns an error if the URI is invalid or the resource cannot be read.
    pub async fn read(&self, uri: &str) -> Result<(&'static str, String), Error> {
        match parse(uri)? {
            Resource::Index => Ok((MARKDOWN, self.index().await)),
            Resource::Skill(id) => {
                let skill = self.skill(id).await?.ok_or_else(|| Error::SkillNotFound(id.to_owned()))?;
                Ok((MARKDOWN, skill.skill))
            }
            Resource::Section { function, .. } => self.section(function).await,
        }
    }

    /// Returns the index of all skills as Markdown.
    pub async fn index(&self) -> String {
        match self.skills().await {
            Ok(skills) => skills.index(),
            Err(error) => failed_index(&error),
        }
    }

    async fn section(&self, function: &str) -> Result<(&'static str, String), Error> {
        if is_reserved(function) {
            return Err(Error::ReservedSection(function.to_owned()));
        }
        reject_whitespace(function)?;
        Ok(output::section(self.trigger(function, json!({})).await?))
    }

    /// Reads one skill.
    ///
    /// # Errors
    /// Returns an error if the id is invalid or the stored value is not a skill.
    pub async fn skill(&self, id: &str) -> Result<Option<StoredSkill>, Error> {
        self.stored(SKILL, id).await
    }

    /// Lists all skills, without their texts.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn skills(&self) -> Result<Arc<Skills>, BusError> {
        self.listing(&self.options().scopes.skills, &self.shared.skills).await
    }

    /// Reads all skills with their texts, in no particular order; values that are not skills are skipped.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn stored_skills(&self) -> Result<Vec<StoredSkill>, BusError> {
        let values = self.with_timeout(self.shared.bus.list(&self.options().scopes.skills)).await?;
        Ok(values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
    }
}
