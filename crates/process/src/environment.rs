//! The environment passed to child programs.

use std::collections::BTreeMap;

/// Variables that are passed on. Any other may hold a secret.
const PASSED_ON: [&str; 20] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Default search path if the environment has none.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the part of an environment that holds no secrets.
#[must_use]
pub fn without_secrets(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let entry = |name: &&str| environment.get(*name).map(|value| ((*name).to_owned(), value.clone()));
    PASSED_ON.iter().filter_map(entry).collect()
}
