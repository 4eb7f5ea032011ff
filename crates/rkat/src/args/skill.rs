//! The arguments of `rkat skill`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommand of `rkat skill`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// List skills; skipped skills are reported on stderr.
    List {
        /// Also list skipped skills and those shadowed by another skill of the same name.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the text of a skill.
    Show {
        /// Name of the skill; NAME@SOURCE if it is shadowed.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Serve skills, and nothing else, to an MCP client over stdio.
    Serve,
    /// Update skills from the configured repositories.
    Update,
    /// Check skills against the format's rules.
    Lint {
        /// Skill directories, or directories of skills [default: all skills found from the current directory].
        paths: Vec<PathBuf>,
        /// Fail on any format violation, not only on skills that cannot load.
        #[arg(long)]
        strict: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Install a skill from a directory or a git repository.
    Install {
        /// Directory, or URL of the repository.
        origin: String,
        /// Name of the skill, if the source has several.
        #[arg(long)]
        name: Option<String>,
        /// Branch, tag, or commit of the repository.
        #[arg(long = "ref", value_name = "REF", default_value = "main")]
        reference: String,
        #[command(flatten)]
        place: InstallTarget,
        /// Replace an existing skill.
        #[arg(long)]
        force: bool,
    },
    /// Remove an installed skill.
    Remove {
        /// Name of the skill.
        name: String,
        #[command(flatten)]
        place: InstallTarget,
        /// Remove it even if it was changed since it was installed.
        #[arg(long)]
        force: bool,
    },
    /// Create a new skill from a template.
    New {
        /// Name of the skill: lowercase letters, digits, and hyphens.
        name: String,
        /// Description of the skill, including when to use it.
        #[arg(long, default_value = "What the skill does, and when to use it.")]
        description: String,
        #[command(flatten)]
        place: InstallTarget,
    },
}

/// Directory that a skill is installed in.
#[derive(Debug, Args)]
pub(crate) struct InstallTarget {
    /// Use the user's skills, ~/.rkat/skills, instead of the project's, .rkat/skills.
    #[arg(long)]
    pub(crate) user: bool,
    /// Use this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "user")]
    pub(crate) into: Option<PathBuf>,
}
