//! The grammar of `rkat realm`.

use std::path::PathBuf;

use clap::Subcommand;
use meerkat::Backend;

use super::parse_backend;

/// Subcommand of `rkat realm`.
#[derive(Debug, Subcommand)]
pub(crate) enum RealmCommand {
    /// Print the id of the realm in use.
    Current,
    /// List realms with their last use and size.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a realm.
    Show {
        /// The realm.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a realm.
    Create {
        /// The id.
        id: String,
        /// The backend.
        #[arg(long, value_parser = parse_backend)]
        backend: Option<Backend>,
    },
    /// Write a realm to one file: its sessions, blobs, and config. Works while processes use the realm. The file is
    /// private, because the config may contain secrets.
    Backup {
        /// The realm.
        id: String,
        /// The file to write.
        file: PathBuf,
        /// Overwrite the file.
        #[arg(long)]
        force: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a realm from a backup. Never replaces an existing realm.
    Restore {
        /// A file that `rkat realm backup` wrote.
        file: PathBuf,
        /// The id of the new realm [default: that of the original].
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a realm that of the current project, for example after its directory was renamed. The realm gets a new id.
    Adopt {
        /// The realm.
        id: String,
    },
    /// Permanently delete a realm and all its sessions.
    Delete {
        /// The realm.
        id: String,
        /// Delete it even if processes use it. They are named and asked to stop; those that do not can store nothing
        /// more.
        #[arg(long)]
        force: bool,
    },
    /// Show realms of single processes (`--isolated`, and `rkat-mcp` without a realm) that were not used recently;
    /// delete them with --force. Realms with a name, and realms in use, are never deleted.
    Prune {
        /// Also prune realms that belong to directories, with all their sessions.
        #[arg(long)]
        directories: bool,
        /// Only prune realms of single processes, never those of directories (the default).
        #[arg(long, conflicts_with = "directories")]
        isolated_only: bool,
        /// Only prune realms that no process opened or wrote to for this time.
        #[arg(long, value_name = "HOURS", default_value_t = 24)]
        older_than_hours: u64,
        /// Permanently delete the realms that are shown.
        #[arg(long)]
        force: bool,
    },
}
