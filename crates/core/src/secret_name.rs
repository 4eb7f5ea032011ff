//! Names that imply a secret.

/// Returns `true` if a name implies a secret: the name of a variable, header, option, or key.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    const ANYWHERE: [&str; 6] = ["apikey", "credential", "passw", "privatekey", "secret", "token"];
    const FIRST: [&str; 6] = ["auth", "bearer", "cookie", "key", "pass", "pwd"];
    const LAST: [&str; 3] = ["key", "pass", "pwd"];
    const INNOCENT: [&str; 4] = ["bypass", "compass", "hotkey", "monkey"];
    let name = name.to_ascii_lowercase();
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    parts.any(|part| match part.strip_prefix("author") {
        Some(rest) => rest.starts_with("iz"),
        None => {
            part == "pat"
                || ANYWHERE.iter().any(|word| part.contains(word))
                || FIRST.iter().any(|word| part.starts_with(word))
                || LAST.iter().any(|word| part.ends_with(word)) && !INNOCENT.contains(&part)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::is_secret_name;

    #[test]
    fn secrets_are_detected_by_name() {
        let secret = [
            "GITHUB_TOKEN",
            "X-Api-Key",
            "--api-key",
            "clientSecret",
            "DB_PASSWORD",
            "Authorization",
            "GH_PAT",
            "PGPASSWORD",
            "MYSQL_PWD",
            "SSHPASS",
            "REDISCLI_AUTH",
            "BORG_PASSPHRASE",
            "dbPass",
            "SIGNINGKEY",
        ];
        let plain = ["GIT_AUTHOR_NAME", "PATH", "HOME", "LANG", "--keep", "X-Tenant", "pattern", "--bypass"];
        assert_eq!(secret.map(is_secret_name), [true; 14]);
        assert_eq!(plain.map(is_secret_name), [false; 8]);
    }
}
