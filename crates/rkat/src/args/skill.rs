//! The arguments of `rkat skill`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with skills.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// List skills. Those that were left out are told on stderr.
    List {
        /// List what was left out and what is shadowed by another skill of its name, too.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the text of a skill.
    Show {
        /// Its name; NAME@SOURCE for one that is shadowed.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Serve skills, and nothing else, to an MCP client on stdin and stdout.
    Serve,
    /// Fetch what is new in the repositories of the config, now.
    Update,
    /// Check skills against the rules of the format.
    Lint {
        /// Directories of skills, or of one; without any, those that are found from here.
        paths: Vec<PathBuf>,
        /// Fail on whatever the format forbids, not only on what keeps a skill from being loaded.
        #[arg(long)]
        strict: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Install a skill from a directory or a git repository.
    Install {
        /// The directory, or the address of the repository.
        origin: String,
        /// Which skill, if there are several.
        #[arg(long)]
        name: Option<String>,
        /// The branch, tag or commit of the repository.
        #[arg(long = "ref", value_name = "REF", default_value = "main")]
        reference: String,
        #[command(flatten)]
        place: SkillPlace,
        /// Replace a skill that is there already.
        #[arg(long)]
        force: bool,
    },
    /// Remove a skill that was installed.
    Remove {
        /// Its name.
        name: String,
        #[command(flatten)]
        place: SkillPlace,
        /// Remove it even if it was changed since.
        #[arg(long)]
        force: bool,
    },
    /// Write a new skill to start from.
    New {
        /// Its name: lower-case letters, digits and hyphens.
        name: String,
        /// When to use it.
        #[arg(long, default_value = "What the skill does, and when to use it.")]
        description: String,
        #[command(flatten)]
        place: SkillPlace,
    },
}

/// Where a skill is put.
#[derive(Debug, Args)]
pub(crate) struct SkillPlace {
    /// Into the user's skills, ~/.rkat/skills, instead of the project's, .rkat/skills.
    #[arg(long)]
    pub(crate) user: bool,
    /// Into this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "user")]
    pub(crate) into: Option<PathBuf>,
}
