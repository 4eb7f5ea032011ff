//! The access token of a realm: a secret that clients send to its servers.
//!
//! The token is created once and reused at every start, so that a client configured with it keeps working. It is
//! stored in a file of the realm's directory that only its owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// The name of the token file in the realm's directory.
pub const FILE_NAME: &str = meerkat_store::TOKEN_FILE;

/// The name of the file with the token for a hub address that has access rules. It is a separate token: a client that
/// has it must not be admitted to addresses without rules.
pub const GUARDED_FILE_NAME: &str = "guarded-token";

/// Error of a token file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or created.
    #[error("cannot read or create the token file `{}`", path.display())]
    Io {
        /// The token file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file contains no token.
    #[error("the token file `{}` is empty; delete it, and the next start creates a new token", path.display())]
    Empty {
        /// The token file.
        path: PathBuf,
    },
    /// Other users can read the file.
    #[error(
        "other users can read the token file `{}`; delete it, and the next start creates a new token",
        path.display()
    )]
    Exposed {
        /// The token file.
        path: PathBuf,
    },
}

/// Returns the token of the realm in a directory, creating the directory and the token if they are missing.
///
/// Processes that start concurrently all return the same token. Blocks on the file system.
///
/// # Errors
/// Returns an error if the file cannot be read or created, is empty, or can be read by other users.
pub fn read_or_create(realm_dir: &Path) -> Result<String, TokenError> {
    read_or_create_named(realm_dir, FILE_NAME)
}

/// Returns the token in a file of a realm's directory, like [`read_or_create`].
///
/// # Errors
/// Returns an error if the file cannot be read or created, is empty, or can be read by other users.
pub fn read_or_create_named(realm_dir: &Path, name: &str) -> Result<String, TokenError> {
    let path = realm_dir.join(name);
    match fs::symlink_metadata(&path) {
        Ok(_) => read(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(realm_dir, &path).map_err(|source| TokenError::Io { path: path.clone(), source })?;
            read(&path)
        }
        Err(source) => Err(TokenError::Io { path, source }),
    }
}

/// Returns `true` if a token is the one in the realm's token file. Creates no file; blocks on the file system.
#[must_use]
pub fn is_own(realm_dir: &Path, token: &str) -> bool {
    read(&realm_dir.join(FILE_NAME)).is_ok_and(|stored| stored == token.trim())
}

/// Returns a new random token, for a realm that has no directory.
#[must_use]
pub fn generate() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

fn read(path: &Path) -> Result<String, TokenError> {
    let failed = |source| TokenError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if is_shared(&file.metadata().map_err(failed)?) {
        return Err(TokenError::Exposed { path: path.to_owned() });
    }
    let text = io::read_to_string(file).map_err(failed)?;
    let token = text.trim();
    if token.is_empty() { Err(TokenError::Empty { path: path.to_owned() }) } else { Ok(token.to_owned()) }
}

/// Creates the file under its name only when it is complete; one that another process created first stays.
fn create(realm_dir: &Path, path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(realm_dir)?;
    let temporary = realm_dir.join(format!(".{FILE_NAME}.{}", Uuid::new_v4().simple()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary)?;
    let text = format!("{}\n", generate());
    let result = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&temporary, path));
    // Only an error of the steps above is reported.
    let _ = fs::remove_file(&temporary);
    match result {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Returns `true` if users other than the owner can read the file.
fn is_shared(metadata: &fs::Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::mode(metadata) & 0o077 != 0;
    #[cfg(not(unix))]
    return !metadata.is_file();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_created_once_and_reused() {
        let directory = tempfile::tempdir().unwrap();
        let realm = directory.path().join("realm");
        let first = read_or_create(&realm).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(read_or_create(&realm).unwrap(), first);
        assert_eq!(fs::read_dir(&realm).unwrap().count(), 1);
        assert_ne!(read_or_create_named(&realm, GUARDED_FILE_NAME).unwrap(), first);
        assert_ne!(generate(), generate());
    }

    #[test]
    fn own_token_is_recognized_without_creating_a_file() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_own(directory.path(), "") && !is_own(directory.path(), "chosen"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let token = read_or_create(directory.path()).unwrap();
        assert!(is_own(directory.path(), &format!("{token}\n")) && !is_own(directory.path(), "chosen"));
    }

    #[test]
    fn concurrent_starts_agree_on_one_token() {
        let directory = tempfile::tempdir().unwrap();
        let tokens: Vec<String> = std::thread::scope(|scope| {
            let starts: Vec<_> =
                (0..8).map(|_| scope.spawn(|| read_or_create(directory.path()).unwrap())).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    }

    #[test]
    #[cfg(unix)]
    fn token_file_is_private_or_rejected() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        read_or_create(directory.path()).unwrap();
        let path = directory.path().join(FILE_NAME);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(read_or_create(directory.path()), Err(TokenError::Exposed { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, " \n").unwrap();
        assert!(matches!(read_or_create(directory.path()), Err(TokenError::Empty { .. })));
    }
}
