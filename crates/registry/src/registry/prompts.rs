//! The `prompts::*` functions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Author, PROMPT, Registry, reject_whitespace};
use crate::input::{EmptyInput, ListPromptsInput, PromptGetInput, RegisterPromptInput};
use crate::listing::Prompts;
use crate::uri::is_reserved;
use crate::{BusError, Error, StoredPrompt, output, validate};

impl Registry {
    pub(super) async fn register_prompt(
        &self,
        author: Option<Author<'_>>,
        input: RegisterPromptInput,
    ) -> Result<Value, Error> {
        validate::prompt(&input)?;
        let RegisterPromptInput { name, description, arguments, function_id } = input;
        if author.is_some_and(|author| !(author.may_use)(&function_id)) {
            return Err(Error::NotAllowed(function_id));
        }
        let entry = json!({
            "name": name,
            "description": description,
            "arguments": arguments,
            "function_id": function_id,
        });
        self.register(PROMPT, author, &name, entry).await
    }

    pub(super) async fn list_prompts(&self, _: ListPromptsInput) -> Result<Value, Error> {
        let prompts = self.prompts().await?;
        let entry = |prompt: &StoredPrompt| {
            json!({
                "name": prompt.name,
                "function_id": prompt.function_id,
                "arguments": prompt.arguments.len(),
                "registered_at": prompt.registered_at,
            })
        };
        Ok(json!({ "prompts": prompts.0.iter().map(entry).collect::<Vec<_>>() }))
    }

    pub(super) async fn list_prompts_in_full(&self, _: EmptyInput) -> Result<Value, Error> {
        // For callers that list prompts, an empty list is more useful than an error.
        let prompts = self.prompts().await.unwrap_or_default();
        let entry = |prompt: &StoredPrompt| {
            json!({
                "name": prompt.name,
                "description": prompt.description,
                "arguments": prompt.arguments,
            })
        };
        Ok(json!({ "prompts": prompts.0.iter().map(entry).collect::<Vec<_>>() }))
    }

    pub(super) async fn get_prompt(
        &self,
        author: Option<Author<'_>>,
        input: PromptGetInput,
    ) -> Result<Value, Error> {
        let (description, messages) = self.render_as(author, &input.name, input.arguments).await?;
        Ok(json!({ "description": description, "messages": messages }))
    }

    /// Renders a prompt with its handler; returns the prompt's description and messages.
    ///
    /// # Errors
    /// Returns an error if the prompt does not exist or its handler fails.
    pub async fn render(&self, name: &str, arguments: Value) -> Result<(String, Value), Error> {
        self.render_as(None, name, arguments).await
    }

    async fn render_as(
        &self,
        author: Option<Author<'_>>,
        name: &str,
        arguments: Value,
    ) -> Result<(String, Value), Error> {
        let prompt = self.prompt(name).await?.ok_or_else(|| Error::PromptNotFound(name.to_owned()))?;
        if is_reserved(&prompt.function_id) {
            return Err(Error::ReservedHandler(prompt.function_id));
        }
        reject_whitespace(&prompt.function_id)?;
        if author.is_some_and(|author| !(author.may_use)(&prompt.function_id)) {
            return Err(Error::NotAllowed(prompt.function_id));
        }
        let arguments = if arguments.is_null() { json!({}) } else { arguments };
        let response = self.trigger(&prompt.function_id, arguments).await?;
        Ok((prompt.description, output::messages(response)?))
    }

    /// Reads one prompt.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or the stored value is not a prompt.
    pub async fn prompt(&self, name: &str) -> Result<Option<StoredPrompt>, Error> {
        self.stored(PROMPT, name).await
    }

    /// Lists all prompts.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn prompts(&self) -> Result<Arc<Prompts>, BusError> {
        self.listing(&self.options().scopes.prompts, &self.shared.prompts).await
    }
}
