//! The grammar of `rkat registry`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with registered skills and prompts.
#[derive(Debug, Subcommand)]
pub(crate) enum RegistryCommand {
    /// List the skills and prompts that programs registered.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what is registered: the text of a skill, a prompt, or what an iii:// address gives.
    Show {
        /// The id of a skill, the name of a prompt, or an address such as iii://skills.
        name: String,
        /// Show the prompt of that name, also if a skill has it too.
        #[arg(long)]
        prompt: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Register a skill or a prompt; one of the same name is replaced.
    #[command(subcommand)]
    Register(RegisterCommand),
    /// Remove a skill or a prompt.
    #[command(subcommand)]
    Unregister(UnregisterCommand),
    /// Call a function through the hub: one of a worker, or one of the registry.
    Call {
        /// The function, such as demo::guide.
        function: String,
        /// What it is given, as JSON; without it, an empty object.
        input: Option<String>,
        /// Print the answer as JSON also if it is a text.
        #[arg(long)]
        json: bool,
    },
}

/// What to register.
#[derive(Debug, Subcommand)]
pub(crate) enum RegisterCommand {
    /// A skill: a text in Markdown, at iii://ID.
    Skill {
        /// Its id: lowercase letters, digits, - and _.
        id: String,
        /// The text; `-` reads it from stdin.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A prompt: a slash command that a worker's function writes.
    Prompt(PromptArgs),
}

/// A prompt to register.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// Its name: lowercase letters, digits, - and _.
    pub(crate) name: String,
    /// What it does.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: String,
    /// The function that writes it.
    #[arg(long, value_name = "ID")]
    pub(crate) function: String,
    /// An argument that may be given; may be repeated.
    #[arg(long = "argument", value_name = "NAME[=DESCRIPTION]")]
    pub(crate) arguments: Vec<String>,
    /// An argument that has to be given; may be repeated.
    #[arg(long = "required", value_name = "NAME[=DESCRIPTION]")]
    pub(crate) required: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to remove.
#[derive(Debug, Subcommand)]
pub(crate) enum UnregisterCommand {
    /// A skill.
    Skill {
        /// Its id.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// A prompt.
    Prompt {
        /// Its name.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl RegistryCommand {
    /// Says whether JSON is to be printed.
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
