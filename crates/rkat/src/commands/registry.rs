//! `rkat registry`.

use std::process::ExitCode;

use meerkat::RealmRegistry;
use meerkat::registry::{Error as Fault, StoredPrompt};
use serde_json::{Value, json};

use super::{print_json, print_reply};
use crate::args::{PromptArgs, RegisterCommand, RegistryCommand, UnregisterCommand};
use crate::compose::{open, open_known};
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::table;
use crate::scope::Scope;
use crate::stdin;

pub(super) async fn registry(scope: &Scope, command: RegistryCommand) -> Result<ExitCode, CliError> {
    // Only a registration creates the realm.
    let runtime = match command {
        RegistryCommand::Register(_) => open(scope)?,
        _ => open_known(scope)?,
    };
    let registry = runtime.registry().await?;
    match command {
        RegistryCommand::List { json } => list(&registry, json).await?,
        RegistryCommand::Show { name, prompt, json } => show(&registry, &name, prompt, json).await?,
        RegistryCommand::Register(RegisterCommand::Skill { id, file, json }) => {
            let what =
                |error| CliError::Io(format!("cannot read the skill from `{}`", file.display()), error);
            let data = json!({ "id": id, "skill": stdin::read_file(&file).map_err(what)? });
            let done = registry.call("skills::register", data).await?;
            print_reply(&done, &format!("iii://{id}"), json);
        }
        RegistryCommand::Register(RegisterCommand::Prompt(args)) => {
            let json = args.json;
            let done = registry.call("prompts::register", prompt_request(&args)).await?;
            print_reply(&done, &args.name, json);
        }
        RegistryCommand::Unregister(UnregisterCommand::Skill { id, json }) => {
            let done = registry.call("skills::unregister", json!({ "id": id })).await?;
            return Ok(report_removal(&done, &format!("no skill `{id}` is registered"), json));
        }
        RegistryCommand::Unregister(UnregisterCommand::Prompt { name, json }) => {
            let done = registry.call("prompts::unregister", json!({ "name": name })).await?;
            return Ok(report_removal(&done, &format!("no prompt `{name}` is registered"), json));
        }
        RegistryCommand::Call { function, input, json } => {
            match registry.call(&function, parse_input(input.as_deref())?).await? {
                Value::String(text) if !json => out::line(&text),
                answer => print_json(&answer),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the result of a removal. Fails if there was nothing to remove.
fn report_removal(done: &Value, missing: &str, json: bool) -> ExitCode {
    if json {
        print_json(done);
    }
    if done.get("removed") == Some(&Value::Bool(true)) {
        return ExitCode::SUCCESS;
    }
    if !json {
        out::stderr_line(&format!("error: {missing}; `rkat registry list` shows all entries"));
    }
    ExitCode::FAILURE
}

fn prompt_request(args: &PromptArgs) -> Value {
    let argument = |text: &String, required: bool| {
        let (name, description) = text.split_once('=').map_or((text.as_str(), None), |(n, d)| (n, Some(d)));
        json!({ "name": name, "description": description, "required": required })
    };
    let required = args.required.iter().map(|text| argument(text, true));
    let optional = args.arguments.iter().map(|text| argument(text, false));
    json!({
        "name": args.name,
        "description": args.description,
        "function_id": args.function,
        "arguments": required.chain(optional).collect::<Vec<_>>(),
    })
}

fn parse_input(input: Option<&str>) -> Result<Value, CliError> {
    let Some(input) = input else { return Ok(json!({})) };
    serde_json::from_str(input).map_err(|error| CliError::Usage(format!("the input is not JSON: {error}")))
}

async fn list(registry: &RealmRegistry, json: bool) -> Result<(), CliError> {
    let contents = registry.contents().await?;
    if json {
        let skills = contents.skills.0.iter().map(|skill| {
            json!({
                "id": skill.id,
                "title": skill.title,
                "description": skill.description,
                "bytes": skill.bytes,
                "registered_at": skill.registered_at,
            })
        });
        let (skills, prompts) = (skills.collect::<Vec<_>>(), &contents.prompts.0);
        print_json(&json!({ "skills": skills, "prompts": prompts }));
        return Ok(());
    }
    let skills = contents.skills.0.iter().map(|skill| {
        let description = skill.description.clone().unwrap_or_else(|| skill.title.clone());
        vec!["skill".to_owned(), skill.id.clone(), String::new(), description]
    });
    let prompts = contents.prompts.0.iter().map(|prompt| {
        vec!["prompt".to_owned(), prompt.name.clone(), prompt.function_id.clone(), prompt.description.clone()]
    });
    let rows: Vec<_> = skills.chain(prompts).collect();
    out::print(&table(&["KIND", "NAME", "FUNCTION", "DESCRIPTION"], &rows, env::page()));
    Ok(())
}

async fn show(registry: &RealmRegistry, name: &str, prompt: bool, json: bool) -> Result<(), CliError> {
    let known = registry.registry();
    if name.starts_with("iii://") {
        let (mime_type, text) = known.read(name).await.map_err(meerkat::Error::from)?;
        let reply = json!({ "uri": name, "mimeType": mime_type, "text": text });
        print_reply(&reply, without_newline(&text), json);
        return Ok(());
    }
    let skill = if prompt { None } else { known.skill(name).await.map_err(meerkat::Error::from)? };
    if let Some(skill) = skill {
        print_reply(&skill, without_newline(&skill.skill), json);
        return Ok(());
    }
    let missing =
        if prompt { Fault::PromptNotFound(name.to_owned()) } else { Fault::SkillNotFound(name.to_owned()) };
    let stored = known.prompt(name).await.map_err(meerkat::Error::from)?;
    let stored = stored.ok_or_else(|| meerkat::Error::from(missing))?;
    print_reply(&stored, without_newline(&describe(&stored)), json);
    Ok(())
}

/// Renders a prompt for the terminal.
fn describe(prompt: &StoredPrompt) -> String {
    let mut text = format!("/{}\n{}\n", prompt.name, prompt.description);
    for argument in &prompt.arguments {
        let need = if argument.required { "required" } else { "optional" };
        let description = argument.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        text.push_str(&format!("  {} ({need}){description}\n", argument.name));
    }
    text.push_str(&format!("rendered by {}, registered {}\n", prompt.function_id, prompt.registered_at));
    text
}

fn without_newline(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}
