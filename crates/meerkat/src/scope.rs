//! Which realm a program works in: what was asked for on the command line, and the defaults.
//!
//! A realm is named, isolated (new and used by nobody else) or that of the workspace: the folder one works in
//! always leads to the same one.

use std::path::{Path, PathBuf};

use meerkat_core::{Clock as _, RealmId};
use meerkat_store::{Backend, Origin, RealmOptions};
use uuid::Uuid;

use crate::Error;
use crate::clock::SystemClock;

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct RealmScope {
    /// A realm by name.
    pub realm: Option<String>,
    /// What this process calls itself.
    pub instance: Option<String>,
    /// The backend to create the realm with.
    pub backend: Option<Backend>,
    /// The folder that holds the realms.
    pub state_root: Option<PathBuf>,
    /// The folder one works in.
    pub context_root: Option<PathBuf>,
}

/// Where a program finds itself; only programs know, because only they read the environment.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The user's data folder.
    pub data_home: Option<PathBuf>,
    /// The current folder.
    pub current_dir: Option<PathBuf>,
}

/// Which realm to use when none is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnamed {
    /// A new one.
    Isolated,
    /// The workspace's.
    Workspace,
}

impl RealmScope {
    /// Says how to open the realm.
    ///
    /// # Errors
    /// Refuses a bad realm name, and says so when no folder for realms can be found.
    pub fn options(
        &self,
        unnamed: Unnamed,
        surroundings: &Surroundings,
        surface: &str,
    ) -> Result<RealmOptions, Error> {
        let (realm, origin) = match (&self.realm, unnamed) {
            (Some(name), _) => (RealmId::explicit(name)?, Origin::Explicit),
            (None, Unnamed::Isolated) => (format!("realm-{}", Uuid::now_v7()).parse()?, Origin::Generated),
            (None, Unnamed::Workspace) => {
                (workspace_realm(&self.workspace(surroundings)?)?, Origin::Workspace)
            }
        };
        Ok(RealmOptions {
            state_root: self.state_root(surroundings)?,
            realm,
            origin,
            backend_hint: self.backend,
            instance: self.instance.clone(),
            surface: surface.to_owned(),
            now: SystemClock.now(),
            owner: Uuid::now_v7(),
        })
    }

    /// Returns the folder that holds the realms.
    ///
    /// # Errors
    /// Says so when there is none.
    pub fn state_root(&self, surroundings: &Surroundings) -> Result<PathBuf, Error> {
        let default = || surroundings.data_home.as_ref().map(|data| data.join("meerkat").join("realms"));
        self.state_root.clone().or_else(default).ok_or_else(|| {
            Error::Arguments("no folder for realms: set HOME or pass `--state-root DIR`".to_owned())
        })
    }

    /// Returns the folder one works in: the one named, else the nearest that holds `.rkat`, else this one.
    ///
    /// # Errors
    /// Says so when the current folder is unknown.
    pub fn workspace(&self, surroundings: &Surroundings) -> Result<PathBuf, Error> {
        let here = self.context_root.as_ref().or(surroundings.current_dir.as_ref());
        let here = here.ok_or_else(|| {
            Error::Arguments("the current folder is unknown: pass `--context-root DIR`".to_owned())
        })?;
        if self.context_root.is_some() {
            return Ok(here.clone());
        }
        let marked = here.ancestors().find(|folder| folder.join(".rkat").is_dir());
        Ok(marked.unwrap_or(here).to_owned())
    }
}

/// Names the realm of a workspace by its path.
fn workspace_realm(workspace: &Path) -> Result<RealmId, Error> {
    let path = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    let hash = path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Ok(format!("ws-{hash:016x}").parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn realm(scope: &RealmScope, unnamed: Unnamed, surroundings: &Surroundings) -> Result<String, Error> {
        scope.options(unnamed, surroundings, "test").map(|o| o.realm.to_string())
    }

    #[test]
    fn a_workspace_always_leads_to_the_same_realm() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir(root.path().join(".rkat")).unwrap();
        let at = |folder: &Path| Surroundings {
            data_home: Some(root.path().to_owned()),
            current_dir: Some(folder.to_owned()),
        };
        let scope = RealmScope::default();
        let top = realm(&scope, Unnamed::Workspace, &at(root.path())).unwrap();
        assert_eq!(realm(&scope, Unnamed::Workspace, &at(&deep)).unwrap(), top);
        let named = RealmScope { context_root: Some(deep), ..RealmScope::default() };
        assert_ne!(realm(&named, Unnamed::Workspace, &at(root.path())).unwrap(), top);
        assert_eq!((top.len(), top.starts_with("ws-")), (19, true));
    }

    #[test]
    fn the_hash_of_a_workspace_is_fnv_1a() {
        assert_eq!(
            workspace_realm(Path::new("a-path-that-is-not-there")).unwrap().as_str(),
            "ws-5358b821062eea06"
        );
    }

    #[test]
    fn isolated_realms_are_new_and_bad_names_are_refused() {
        let here = Surroundings { data_home: Some("/tmp".into()), current_dir: None };
        let isolated = || realm(&RealmScope::default(), Unnamed::Isolated, &here).unwrap();
        assert_ne!(isolated(), isolated());
        let named = |name: &str| RealmScope { realm: Some(name.to_owned()), ..RealmScope::default() };
        assert_eq!(realm(&named("team"), Unnamed::Isolated, &here).unwrap(), "team");
        assert!(realm(&named("../up"), Unnamed::Isolated, &here).is_err());
        let nowhere = realm(&named("team"), Unnamed::Isolated, &Surroundings::default()).unwrap_err();
        assert!(nowhere.to_string().contains("--state-root"), "{nowhere}");
    }
}
