//! Which realm a program works in: what was asked for on the command line, and the defaults.
//!
//! A realm is named, isolated (new and used by nobody else) or that of the workspace: the directory one works in
//! always leads to the same one.

use std::path::{Path, PathBuf};

use meerkat_core::{Clock as _, RealmId};
use meerkat_store::{Backend, Origin, RealmOptions};
use uuid::Uuid;

use crate::Error;
use crate::clock::SystemClock;
use crate::project::{UserDirs, former_root, project_root, real};

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct RealmScope {
    /// A realm by name.
    pub realm: Option<String>,
    /// What this process calls itself.
    pub instance: Option<String>,
    /// The backend to create the realm with.
    pub backend: Option<Backend>,
    /// The directory that holds the realms.
    pub state_root: Option<PathBuf>,
    /// The directory one works in.
    pub context_root: Option<PathBuf>,
    /// The directory of the user's own files, in place of the home directory.
    pub user_config_root: Option<PathBuf>,
}

/// Where a program finds itself; only programs know, because only they read the environment.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The user's data directory.
    pub data_home: Option<PathBuf>,
    /// The current directory.
    pub current_dir: Option<PathBuf>,
    /// The home directory, which is never a project.
    pub home: Option<PathBuf>,
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
    /// Refuses a bad realm name, and says so when no directory for realms can be found.
    pub fn options(
        &self,
        unnamed: Unnamed,
        surroundings: &Surroundings,
        surface: &str,
    ) -> Result<RealmOptions, Error> {
        let (realm, origin, workspace) = match (&self.realm, unnamed) {
            (Some(name), _) => (RealmId::explicit(name)?, Origin::Explicit, None),
            (None, Unnamed::Isolated) => {
                (format!("realm-{}", Uuid::now_v7()).parse()?, Origin::Generated, None)
            }
            (None, Unnamed::Workspace) => {
                let project = real(&self.project(surroundings)?);
                (workspace_realm(&project)?, Origin::Workspace, Some(project))
            }
        };
        Ok(RealmOptions {
            state_root: self.state_root(surroundings)?,
            realm,
            origin,
            workspace,
            backend_hint: self.backend,
            instance: self.instance.clone(),
            surface: surface.to_owned(),
            now: SystemClock.now(),
            owner: Uuid::now_v7(),
        })
    }

    /// Returns the directory that holds the realms.
    ///
    /// # Errors
    /// Says so when there is none.
    pub fn state_root(&self, surroundings: &Surroundings) -> Result<PathBuf, Error> {
        let default = || surroundings.data_home.as_ref().map(|data| data.join("meerkat").join("realms"));
        self.state_root.clone().or_else(default).ok_or_else(|| {
            Error::Arguments("no directory for realms: set HOME or pass `--state-root DIR`".to_owned())
        })
    }

    /// Returns the project's root: the context root as it is given, or else the project of the current directory.
    ///
    /// # Errors
    /// Returns an error if the current directory is unknown.
    pub fn project(&self, surroundings: &Surroundings) -> Result<PathBuf, Error> {
        if let Some(root) = &self.context_root {
            return Ok(root.clone());
        }
        let dir = surroundings.current_dir.as_ref().ok_or_else(|| {
            Error::Arguments("the current directory is unknown: pass `--context-root DIR`".to_owned())
        })?;
        let (home, config_root) = (surroundings.home.as_deref(), self.user_config_root.as_deref());
        Ok(project_root(dir, UserDirs { home, config_root }))
    }

    /// Returns the realms that earlier versions used for the current directory, apart from the one that is used now.
    /// Whether they exist is not checked.
    ///
    /// # Errors
    /// Returns an error if the current directory is unknown.
    pub fn former_realms(&self, surroundings: &Surroundings) -> Result<Vec<RealmId>, Error> {
        let (None, None, Some(dir)) = (&self.realm, &self.context_root, &surroundings.current_dir) else {
            return Ok(Vec::new());
        };
        let current = workspace_realm(&self.project(surroundings)?)?;
        let mut found = Vec::new();
        for root in [former_root(dir), dir] {
            let realm = workspace_realm(root)?;
            if realm != current && !found.contains(&realm) {
                found.push(realm);
            }
        }
        Ok(found)
    }
}

/// Names the realm of a workspace by its path.
fn workspace_realm(workspace: &Path) -> Result<RealmId, Error> {
    let hash = real(workspace)
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
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
            home: None,
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
    fn realms_of_the_former_rule_are_listed() {
        let root = tempfile::tempdir().unwrap();
        let (home, repo) = (root.path().join("home"), root.path().join("home/repo"));
        let src = repo.join("src");
        std::fs::create_dir_all(&src).unwrap();
        std::fs::create_dir(repo.join(".git")).unwrap();
        let former = |dir: &Path| {
            let home = Some(home.clone());
            let around = Surroundings { current_dir: Some(dir.to_owned()), home, data_home: None };
            RealmScope::default().former_realms(&around).unwrap()
        };
        let [of_home, of_src] = [&home, &src].map(|dir| workspace_realm(dir).unwrap());
        assert_eq!((former(&repo), former(&src)), (Vec::new(), vec![of_src.clone()]));
        std::fs::create_dir(home.join(".rkat")).unwrap();
        assert_eq!((former(&repo), former(&src)), (vec![of_home.clone()], vec![of_home, of_src]));
        assert_eq!(former(&home), Vec::new());
    }

    #[test]
    fn isolated_realms_are_new_and_bad_names_are_refused() {
        let here = Surroundings { data_home: Some("/tmp".into()), ..Surroundings::default() };
        let isolated = || realm(&RealmScope::default(), Unnamed::Isolated, &here).unwrap();
        assert_ne!(isolated(), isolated());
        let named = |name: &str| RealmScope { realm: Some(name.to_owned()), ..RealmScope::default() };
        assert_eq!(realm(&named("team"), Unnamed::Isolated, &here).unwrap(), "team");
        assert!(realm(&named("../up"), Unnamed::Isolated, &here).is_err());
        let nowhere = realm(&named("team"), Unnamed::Isolated, &Surroundings::default()).unwrap_err();
        assert!(nowhere.to_string().contains("--state-root"), "{nowhere}");
    }
}
