//! Selection of the realm, from command line options and defaults.
//!
//! A realm is named, isolated (new and private), or derived from the project: the same project always gets the same
//! realm.

use std::path::{Path, PathBuf};

use meerkat_core::{Clock as _, RealmId};
use meerkat_store::{Backend, RealmOptions, RealmOrigin};
use uuid::Uuid;

use crate::Error;
use crate::clock::SystemClock;
use crate::project::{UserDirs, former_root, project_root, resolve_symlinks};

/// Options that select a realm.
#[derive(Debug, Clone, Default)]
pub struct RealmScope {
    /// Name of the realm.
    pub realm: Option<String>,
    /// Name of this process.
    pub instance: Option<String>,
    /// Backend for a new realm.
    pub backend: Option<Backend>,
    /// Directory that contains the realms.
    pub state_root: Option<PathBuf>,
    /// Directory whose realm to use.
    pub context_root: Option<PathBuf>,
    /// Directory of the user's own files, instead of the home directory.
    pub user_config_root: Option<PathBuf>,
}

/// Directories from the environment. The binaries supply them, because libraries do not read the environment.
#[derive(Debug, Clone, Default)]
pub struct SystemDirs {
    /// The user's data directory.
    pub data_home: Option<PathBuf>,
    /// The current directory.
    pub current_dir: Option<PathBuf>,
    /// The home directory, which is never a project.
    pub home: Option<PathBuf>,
}

/// The realm to use if none is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultRealm {
    /// A new, private realm.
    Isolated,
    /// The realm of the project.
    Project,
}

impl RealmScope {
    /// Returns the options for opening the realm.
    ///
    /// # Errors
    /// Returns an error if the realm name is invalid, or if no directory for realms is known.
    pub fn options(
        &self,
        default_realm: DefaultRealm,
        system_dirs: &SystemDirs,
        surface: &str,
    ) -> Result<RealmOptions, Error> {
        let (realm, origin, workspace) = match (&self.realm, default_realm) {
            (Some(name), _) => (RealmId::explicit(name)?, RealmOrigin::Explicit, None),
            (None, DefaultRealm::Isolated) => {
                (format!("realm-{}", Uuid::now_v7()).parse()?, RealmOrigin::Generated, None)
            }
            (None, DefaultRealm::Project) => {
                let project = resolve_symlinks(&self.project(system_dirs)?);
                (project_realm(&project)?, RealmOrigin::Workspace, Some(project))
            }
        };
        Ok(RealmOptions {
            state_root: self.state_root(system_dirs)?,
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

    /// Returns the directory that contains the realms.
    ///
    /// # Errors
    /// Returns an error if no directory is known.
    pub fn state_root(&self, system_dirs: &SystemDirs) -> Result<PathBuf, Error> {
        let default = || system_dirs.data_home.as_ref().map(|data| data.join("meerkat").join("realms"));
        self.state_root
            .clone()
            .or_else(default)
            .ok_or_else(|| Error::arguments("no directory for realms: set HOME or pass `--state-root DIR`"))
    }

    /// Returns the project's root: the context root if set, or else the project of the current directory.
    ///
    /// # Errors
    /// Returns an error if the current directory is unknown.
    pub fn project(&self, system_dirs: &SystemDirs) -> Result<PathBuf, Error> {
        if let Some(root) = &self.context_root {
            return Ok(root.clone());
        }
        let dir = system_dirs
            .current_dir
            .as_ref()
            .ok_or_else(|| Error::arguments("the current directory is unknown: pass `--context-root DIR`"))?;
        let (home, config_root) = (system_dirs.home.as_deref(), self.user_config_root.as_deref());
        Ok(project_root(dir, UserDirs { home, config_root }))
    }

    /// Returns the realms that earlier versions used for the current directory, except the current one. They may not
    /// exist.
    ///
    /// # Errors
    /// Returns an error if the current directory is unknown.
    pub fn former_realms(&self, system_dirs: &SystemDirs) -> Result<Vec<RealmId>, Error> {
        let (None, None, Some(dir)) = (&self.realm, &self.context_root, &system_dirs.current_dir) else {
            return Ok(Vec::new());
        };
        let current = project_realm(&self.project(system_dirs)?)?;
        let mut realms = Vec::new();
        for root in [former_root(dir), dir] {
            let realm = project_realm(root)?;
            if realm != current && !realms.contains(&realm) {
                realms.push(realm);
            }
        }
        Ok(realms)
    }
}

/// Returns the realm of a project, derived from its path.
fn project_realm(project: &Path) -> Result<RealmId, Error> {
    let hash = resolve_symlinks(project)
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

    fn realm(
        scope: &RealmScope,
        default_realm: DefaultRealm,
        system_dirs: &SystemDirs,
    ) -> Result<String, Error> {
        scope.options(default_realm, system_dirs, "test").map(|o| o.realm.to_string())
    }

    #[test]
    fn workspace_always_leads_to_the_same_realm() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir(root.path().join(".rkat")).unwrap();
        let at = |dir: &Path| SystemDirs {
            data_home: Some(root.path().to_owned()),
            current_dir: Some(dir.to_owned()),
            home: None,
        };
        let scope = RealmScope::default();
        let top = realm(&scope, DefaultRealm::Project, &at(root.path())).unwrap();
        assert_eq!(realm(&scope, DefaultRealm::Project, &at(&deep)).unwrap(), top);
        let named = RealmScope { context_root: Some(deep), ..RealmScope::default() };
        assert_ne!(realm(&named, DefaultRealm::Project, &at(root.path())).unwrap(), top);
        assert_eq!((top.len(), top.starts_with("ws-")), (19, true));
    }

    #[test]
    fn workspace_hash_is_fnv_1a() {
        assert_eq!(
            project_realm(Path::new("a-path-that-is-not-there")).unwrap().as_str(),
            "ws-5358b821062eea06"
        );
    }

    #[test]
    fn realms_of_earlier_versions_are_listed() {
        let root = tempfile::tempdir().unwrap();
        let (home, repo) = (root.path().join("home"), root.path().join("home/repo"));
        let src = repo.join("src");
        std::fs::create_dir_all(&src).unwrap();
        std::fs::create_dir(repo.join(".git")).unwrap();
        let former = |dir: &Path| {
            let home = Some(home.clone());
            let dirs = SystemDirs { current_dir: Some(dir.to_owned()), home, data_home: None };
            RealmScope::default().former_realms(&dirs).unwrap()
        };
        let [home_realm, src_realm] = [&home, &src].map(|dir| project_realm(dir).unwrap());
        assert_eq!((former(&repo), former(&src)), (Vec::new(), vec![src_realm.clone()]));
        std::fs::create_dir(home.join(".rkat")).unwrap();
        assert_eq!((former(&repo), former(&src)), (vec![home_realm.clone()], vec![home_realm, src_realm]));
        assert_eq!(former(&home), Vec::new());
    }

    #[test]
    fn isolated_realms_are_new_and_names_are_checked() {
        let dirs = SystemDirs { data_home: Some("/tmp".into()), ..SystemDirs::default() };
        let isolated = || realm(&RealmScope::default(), DefaultRealm::Isolated, &dirs).unwrap();
        assert_ne!(isolated(), isolated());
        let named = |name: &str| RealmScope { realm: Some(name.to_owned()), ..RealmScope::default() };
        assert_eq!(realm(&named("team"), DefaultRealm::Isolated, &dirs).unwrap(), "team");
        assert!(realm(&named("../up"), DefaultRealm::Isolated, &dirs).is_err());
        let error = realm(&named("team"), DefaultRealm::Isolated, &SystemDirs::default()).unwrap_err();
        assert!(error.to_string().contains("--state-root"), "{error}");
    }
}
