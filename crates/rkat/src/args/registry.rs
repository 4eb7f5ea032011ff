//! The grammar of `rkat registry`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommand of `rkat registry`.
#[derive(Debug, Subcommand)]
pub(crate) enum RegistryCommand {
    /// List the skills and prompts that workers registered.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the text of a skill, a prompt, or the content of an iii:// URI.
    Show {
        /// Id of a skill, name of a prompt, or a URI such as iii://skills.
        name: String,
        /// Show the prompt with this name, even if a skill has the same name.
        #[arg(long)]
        prompt: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Register a skill or a prompt, replacing one of the same name.
    #[command(subcommand)]
    Register(RegisterCommand),
    /// Remove a skill or a prompt.
    #[command(subcommand)]
    Unregister(UnregisterCommand),
    /// Call a function of a worker or of the registry through the hub.
    Call {
        /// The function, such as demo::guide.
        function: String,
        /// Input as JSON [default: an empty object].
        input: Option<String>,
        /// Print the result as JSON even if it is text.
        #[arg(long)]
        json: bool,
    },
}

/// Subcommand of `rkat registry register`.
#[derive(Debug, Subcommand)]
pub(crate) enum RegisterCommand {
    /// Register a skill: Markdown text, served at iii://ID.
    Skill {
        /// Id of the skill: lowercase letters, digits, - and _.
        id: String,
        /// File with the text; `-` reads stdin.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Register a prompt: a slash command rendered by a worker's function.
    Prompt(PromptArgs),
}

/// Arguments of `rkat registry register prompt`.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// Name of the prompt: lowercase letters, digits, - and _.
    pub(crate) name: String,
    /// Description of the prompt.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: String,
    /// Function that renders the prompt.
    #[arg(long, value_name = "ID")]
    pub(crate) function: String,
    /// Optional argument (repeatable).
    #[arg(long = "argument", value_name = "NAME[=DESCRIPTION]")]
    pub(crate) arguments: Vec<String>,
    /// Required argument (repeatable).
    #[arg(long = "required", value_name = "NAME[=DESCRIPTION]")]
    pub(crate) required: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Subcommand of `rkat registry unregister`.
#[derive(Debug, Subcommand)]
pub(crate) enum UnregisterCommand {
    /// Remove a skill.
    Skill {
        /// Id of the skill.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove a prompt.
    Prompt {
        /// Name of the prompt.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl RegistryCommand {
    /// Returns `true` if output is printed as JSON.
    pub(crate) const fn json(&self) -> bool {
        match self {
            Self::List { json }
            | Self::Show { json, .. }
            | Self::Call { json, .. }
            | Self::Register(
                RegisterCommand::Skill { json, .. } | RegisterCommand::Prompt(PromptArgs { json, .. }),
            )
            | Self::Unregister(
                UnregisterCommand::Skill { json, .. } | UnregisterCommand::Prompt { json, .. },
            ) => *json,
        }
    }
}
