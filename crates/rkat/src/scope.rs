//! Realm and directories that a binary works with.

use std::path::PathBuf;

use meerkat::{
    DefaultRealm, Error, HookFiles, RealmId, RealmManifest, RealmOptions, RealmScope, ServerFiles,
};

use crate::env;

/// Binary that is running.
///
/// A user starts `rkat` in a project. A client starts `rkat-mcp` anywhere, so it uses only a project that is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    Rkat,
    RkatMcp,
}

impl Surface {
    /// Returns the name of the binary.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rkat => "rkat",
            Self::RkatMcp => "rkat-mcp",
        }
    }
}

/// Realm and directories that a binary works with.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) surface: Surface,
    /// Choices on the command line.
    pub(crate) flags: RealmScope,
    /// Realm to use if none is named.
    pub(crate) default_realm: DefaultRealm,
    /// Directories to search for skills first.
    pub(crate) skill_dirs: Vec<PathBuf>,
}

impl Scope {
    /// Returns the options for opening the realm.
    pub(crate) fn options(&self) -> Result<RealmOptions, Error> {
        self.flags.options(self.default_realm, &env::system_dirs(), self.surface.name())
    }

    /// Returns the scope for the realm of a session locator, if it names one.
    pub(crate) fn with_realm(&self, realm: Option<&str>) -> Self {
        let mut scope = self.clone();
        scope.flags.realm = realm.map(str::to_owned).or(scope.flags.realm);
        scope
    }

    /// Returns an error if a realm is named that does not exist.
    pub(crate) fn check_known(&self) -> Result<(), Error> {
        if let Some(name) = &self.flags.realm {
            RealmManifest::read(&self.state_root()?, &RealmId::explicit(name)?)?;
        }
        Ok(())
    }

    /// Returns the directory that contains the realms.
    pub(crate) fn state_root(&self) -> Result<PathBuf, Error> {
        self.flags.state_root(&env::system_dirs())
    }

    /// Returns the project's root, or `None` if there is no project.
    pub(crate) fn project(&self) -> Result<Option<PathBuf>, Error> {
        match self.surface {
            Surface::Rkat => self.flags.project(&env::system_dirs()).map(Some),
            Surface::RkatMcp => Ok(self.flags.context_root.clone()),
        }
    }

    /// Returns the directory of the user's own files.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.flags.user_config_root.clone().or_else(env::home)
    }

    /// Returns the MCP config files. The project's is omitted if the current directory is unknown.
    pub(crate) fn server_files(&self) -> ServerFiles {
        ServerFiles::for_dirs(self.project().ok().flatten().as_deref(), self.home().as_deref())
    }

    /// Returns the hook files, which are used in addition to the realm's config.
    pub(crate) fn hook_files(&self) -> HookFiles {
        let files = HookFiles::for_dirs(self.project().ok().flatten().as_deref(), self.home().as_deref());
        files.below(env::home().as_deref())
    }
}
