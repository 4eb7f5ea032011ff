//! The command line of `rkat-mcp`.

use std::path::PathBuf;

use clap::Parser;
use meerkat::skill::{Roots, Trust};
use meerkat::{Backend, Origin, RealmOptions, RealmScope, ServerFiles, ServerFilesError, Surroundings};
use meerkat_mcp_server::http::{Listen, ListenError, TokenOptions};

/// Meerkat as an MCP server: durable agent sessions as tools.
///
/// Speaks MCP on stdin and stdout; logs go to stderr. Point your MCP client at this command, with no
/// arguments for a realm of its own, or with --realm NAME to keep sessions across restarts. It ends when
/// its client closes stdin or dies; runs that are still going are interrupted and kept.
///
/// With --http it serves any number of clients at /mcp instead, until it gets a signal.
#[derive(Debug, Parser)]
#[command(name = "rkat-mcp", version, max_term_width = 100)]
pub(crate) struct Args {
    /// Work in the realm of this name; its sessions stay after a restart.
    #[arg(long, value_name = "ID", conflicts_with = "isolated")]
    realm: Option<String>,
    /// Work in a new realm (the default without --realm).
    #[arg(long)]
    isolated: bool,
    /// Call this process so in the config and in sessions.
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
    /// Create the realm with this backend; an existing realm keeps its own.
    #[arg(long, value_name = "BACKEND", value_parser = parse_backend)]
    realm_backend: Option<Backend>,
    /// Keep realms in this directory.
    #[arg(long, value_name = "DIR")]
    state_root: Option<PathBuf>,
    /// The project directory: its skills, and the MCP servers in its .rkat/mcp.toml once `rkat trust` was said there.
    /// Without it, nothing of a project is read.
    #[arg(long, value_name = "DIR")]
    context_root: Option<PathBuf>,
    /// The directory of the user's own files, in place of the home directory: MCP servers are in its .rkat/mcp.toml, skills in
    /// its .rkat/skills.
    #[arg(long, value_name = "DIR")]
    user_config_root: Option<PathBuf>,
    /// Look for skills in this directory first; may be repeated.
    #[arg(long, value_name = "DIR")]
    skill_dir: Vec<PathBuf>,
    /// Serve HTTP on this address, such as 127.0.0.1:8000, instead of stdio; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Read the bearer token that clients must show from this file [default: RKAT_TOKEN, or else the realm's own token,
    /// which is printed].
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Ask clients for no token: every user of this machine can use the server. Such clients cannot change what the
    /// config enables. Only for addresses of this machine.
    #[arg(long, requires = "http", conflicts_with = "token_file")]
    no_token: bool,
    /// Accept requests for this host name too; may be repeated.
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// Accept pages of this origin too, such as `https://app.example.com`; may be repeated.
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
    /// Show where files are in the config; they are always shown.
    #[arg(long)]
    expose_paths: bool,
}

impl Args {
    /// Where to serve HTTP, if that is wanted. `value` is the token that the environment has.
    pub(crate) fn listen(
        &self,
        value: Option<String>,
        realm: &RealmOptions,
    ) -> Result<Option<Listen>, ListenError> {
        let Some(address) = self.http.clone() else { return Ok(None) };
        let options = TokenOptions {
            no_token: self.no_token,
            file: self.token_file.clone(),
            value,
            // Nobody comes back to a new realm that has no name, so its token need not be kept.
            realm_dir: realm.dir().filter(|_| realm.origin != Origin::Generated),
        };
        let (hosts, origins) = (self.allow_host.clone(), self.allow_origin.clone());
        Ok(Some(Listen { address, token: options.resolve()?, hosts, origins }))
    }

    /// Where skills are looked for.
    pub(crate) fn skill_roots(&self, surroundings: Surroundings) -> Result<Roots, ServerFilesError> {
        let project = self.context_root.clone();
        let home = self.user_config_root.clone().or(surroundings.home);
        let files = ServerFiles::of(project.as_deref(), home.as_deref());
        let trust = if files.trusts_folder()? { Trust::Trusted } else { Trust::Untrusted };
        let trusted = files.trusted_folders()?;
        let extra = self.skill_dir.clone();
        let roots = Roots { extra, project, home, trust, trusted, ..Roots::default() };
        Ok(roots.in_directory(surroundings.current_dir))
    }

    /// The project's directory and the user's own, where they are given.
    pub(crate) fn folders(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        (self.context_root.clone(), self.user_config_root.clone())
    }

    pub(crate) fn scope(&self) -> RealmScope {
        RealmScope {
            realm: self.realm.clone(),
            instance: self.instance.clone(),
            backend: self.realm_backend,
            state_root: self.state_root.clone(),
            context_root: self.context_root.clone(),
            user_config_root: self.user_config_root.clone(),
        }
    }
}

fn parse_backend(text: &str) -> Result<Backend, String> {
    text.parse().map_err(|error: meerkat::UnknownBackend| error.to_string())
}
