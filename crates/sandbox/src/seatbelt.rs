//! The profile of `sandbox-exec`, which enforces a policy on macOS. It is text: any system can generate it.

use std::fmt::Write as _;
use std::path::Path;

use crate::guard::rules;
use crate::policy::{Network, SandboxPolicy};

/// Rules that every program needs: other programs, its own processes, and reading what is not a secret.
const BASE: &str = "(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal process-info* (target same-sandbox))
(allow sysctl-read ipc-posix-sem)
(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))
(allow file-read* file-test-existence)
(deny file-read* (vnode-type BLOCK-DEVICE))
(allow file-write-data file-ioctl (literal \"/dev/null\") (literal \"/dev/zero\"))
";

/// Returns the profile. All paths of the policy must be real paths: `/private/tmp`, not `/tmp`.
#[must_use]
pub fn seatbelt_profile(policy: &SandboxPolicy) -> String {
    let mut text = BASE.to_owned();
    let names = &policy.names;
    let mut writable = policy.writable_roots();
    writable.push(policy.temporary.clone());
    let filters: Vec<_> = writable.iter().map(|path| filter("subpath", path)).collect();
    let inside = format!("(require-any {})", filters.join(" "));
    let _ = writeln!(text, "(allow file-write* file-link {inside})");
    for pattern in &names.patterns {
        // The last rule that matches decides, as the last pattern does.
        let (pattern, is_secret) =
            pattern.strip_prefix('!').map_or((pattern.as_str(), true), |rest| (rest, false));
        for regex in pattern_regexes(pattern, &names.roots, is_secret) {
            let _ = if is_secret {
                writeln!(text, "(deny file-read-data file-write* file-link (regex #\"{regex}\"))")
            } else {
                writeln!(
                    text,
                    "(allow file-read-data (regex #\"{regex}\"))\n\
                     (allow file-write* (require-all {inside} (regex #\"{regex}\")))"
                )
            };
        }
    }
    for root in &names.roots {
        guard(&mut text, &format!("^{}/(.*/)?", path_regex(root)), true);
    }
    for dir in &names.git_dirs {
        guard(&mut text, &format!("^{}/", path_regex(dir)), false);
    }
    for path in &names.guarded {
        let _ = writeln!(text, "(deny file-write* file-link {})", filter("subpath", path));
    }
    for pattern in &names.unguarded {
        for regex in pattern_regexes(pattern, &names.roots, false) {
            let regex = regex.trim_end_matches('$');
            let _ = writeln!(text, "(allow file-write* (require-all {inside} (regex #\"{regex}(/.*)?$\")))");
        }
    }
    for place in &names.places {
        let _ = writeln!(
            text,
            "(deny file-read* file-write* file-link (regex #\"^{}(/.*)?$\"))",
            any_case(place)
        );
    }
    for device in &policy.devices {
        let _ = writeln!(text, "(allow file-write-data file-ioctl {})", filter("subpath", device));
    }
    network(&mut text, policy, &filters);
    text
}

fn network(text: &mut String, policy: &SandboxPolicy, own: &[String]) {
    let _ = match &policy.network {
        Network::Full => {
            writeln!(text, "(allow network* system-socket)\n(deny network* (remote unix-socket))")
        }
        Network::Own { loopback } => loopback
            .iter()
            .try_for_each(|port| writeln!(text, "(allow network-outbound (remote ip \"localhost:{port}\"))")),
    };
    let granted = policy.sockets.iter().map(|path| filter("literal", path));
    for path in granted.chain(own.iter().cloned()) {
        let _ = writeln!(text, "(allow network-outbound (remote unix-socket {path}))");
    }
    for path in own {
        let _ = writeln!(text, "(allow network-bind network-inbound (local unix-socket {path}))");
    }
}

/// Denies changes of guarded files; `start` is what a path of one begins with.
fn guard(text: &mut String, start: &str, has_all: bool) {
    let deny = |text: &mut String, what: &str, regex: &str| {
        let _ = writeln!(text, "(deny {what} (regex #\"{start}{}$\"))", insensitive(regex));
    };
    let git = if has_all { "\\.git/" } else { "" };
    let files = rules::GIT_FILES.map(escape).join("|");
    deny(text, "file-write* file-link", &format!("{git}(.*/)?({files})"));
    let data = rules::GIT_DATA.join("|");
    let _ = writeln!(
        text,
        "(allow file-write* (regex #\"{start}{git}({data})/.*$\"))\n\
         (deny file-write* file-link (regex #\"{start}{}$\"))",
        insensitive(&format!("{git}(.*/)?hooks(/.*)?"))
    );
    if !has_all {
        return;
    }
    deny(text, "file-write* file-link", &format!("({})(/.*)?", rules::DIRECTORIES.map(escape).join("|")));
    deny(text, "file-write* file-link", &format!("({})", rules::FILES.map(escape).join("|")));
    deny(text, "file-write* file-link", &format!("({})[^/]*", rules::BEGINNINGS.map(escape).join("|")));
    deny(text, "file-write* file-link", "[^/]*\\.code-workspace");
    for (directory, ends) in rules::FILES_IN {
        let ends: Vec<_> = ends.iter().map(escape).collect();
        deny(text, "file-write* file-link", &format!("{}/[^/]*({})", escape(directory), ends.join("|")));
    }
    // A directory may be created under these names; it may not be moved, and nothing else may have them.
    let kept = insensitive("(\\.git|\\.vscode|\\.cargo)");
    let _ = writeln!(
        text,
        "(deny file-write-unlink file-link (regex #\"{start}{kept}$\"))\n\
         (deny file-write-create (require-all (regex #\"{start}{kept}$\") (require-not (vnode-type DIRECTORY))))"
    );
}

fn filter(kind: &str, path: &Path) -> String {
    let path = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("({kind} \"{path}\")")
}

/// Returns regular expressions for the paths that a pattern matches.
fn pattern_regexes(pattern: &str, roots: &[std::path::PathBuf], is_any_case: bool) -> Vec<String> {
    let parts: Vec<_> = pattern.split('*').map(escape).collect();
    let mut regex = parts.join("[^/]*");
    if is_any_case {
        regex = insensitive(&regex);
    }
    if pattern.contains('/') {
        roots.iter().map(|root| format!("^{}/{regex}$", path_regex(root))).collect()
    } else {
        vec![format!("/{regex}$")]
    }
}

fn path_regex(path: &Path) -> String {
    escape(path.to_string_lossy())
}

fn any_case(path: &Path) -> String {
    insensitive(&path_regex(path))
}

fn escape(text: impl AsRef<str>) -> String {
    let mut escaped = String::new();
    for char in text.as_ref().chars() {
        if "\\.^$|?*+()[]{}\"".contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

/// Lets letters of a regular expression match in any case. It must have no letters in brackets or after `\`.
fn insensitive(regex: &str) -> String {
    let mut text = String::new();
    for char in regex.chars() {
        if char.is_ascii_alphabetic() {
            let _ = write!(text, "[{}{}]", char.to_ascii_lowercase(), char.to_ascii_uppercase());
        } else {
            text.push(char);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use crate::policy::Limits;

    fn policy() -> SandboxPolicy {
        SandboxPolicy {
            home: Some("/Users/u".into()),
            temporary: "/private/tmp/s".into(),
            names: Names {
                roots: vec!["/Users/u/a \"b\" (c)".into()],
                places: vec!["/Users/u/.ssh".into()],
                patterns: [".env*", "!.env.example", "keys/*.pem"].map(str::to_owned).to_vec(),
                guarded: vec!["/Users/u/w/hooks".into()],
                ..Names::default()
            },
            network: Network::Own { loopback: vec![5432] },
            sockets: vec!["/var/run/docker.sock".into()],
            devices: Vec::new(),
            limits: Limits::default(),
        }
    }

    #[test]
    fn profile_denies_by_default_and_grants_what_the_policy_does() {
        let text = seatbelt_profile(&policy());
        assert!(text.starts_with("(version 1)\n(deny default)\n"));
        for line in [
            r#"(allow file-write* file-link (require-any (subpath "/Users/u/a \"b\" (c)") (subpath "/private/tmp/s")))"#,
            r#"(deny file-read-data file-write* file-link (regex #"/\.[eE][nN][vV][^/]*$"))"#,
            r#"(allow file-read-data (regex #"/\.env\.example$"))"#,
            r#"(deny file-read-data file-write* file-link (regex #"^/Users/u/a \"b\" \(c\)/[kK][eE][yY][sS]/[^/]*\.[pP][eE][mM]$"))"#,
            r#"(deny file-write* file-link (subpath "/Users/u/w/hooks"))"#,
            r#"(deny file-read* file-write* file-link (regex #"^/[uU][sS][eE][rR][sS]/[uU]/\.[sS][sS][hH](/.*)?$"))"#,
            r#"(allow network-outbound (remote ip "localhost:5432"))"#,
            r#"(allow network-outbound (remote unix-socket (literal "/var/run/docker.sock")))"#,
            r#"(allow signal process-info* (target same-sandbox))"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("(allow network*"));
    }

    #[test]
    fn later_rules_narrow_earlier_ones() {
        let text = seatbelt_profile(&policy());
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}"));
        assert!(at("(allow file-write* file-link (require-any") < at("[eE][nN][vV][^/]*$"));
        assert!(at("[eE][nN][vV][^/]*$") < at(r"\.env\.example$"));
        assert!(at(r"\.env\.example$") < at("[hH][oO][oO][kK][sS](/.*)?$"));
        assert!(at("(logs|objects|refs)/") < at("[hH][oO][oO][kK][sS](/.*)?$"));
    }

    #[test]
    fn home_and_everything_are_never_writable() {
        for root in ["/", "/Users", "/Users/u"] {
            let mut policy = policy();
            policy.names.roots = vec![root.into()];
            let text = seatbelt_profile(&policy);
            assert!(
                text.contains("(allow file-write* file-link (require-any (subpath \"/private/tmp/s\")))")
            );
        }
    }

    #[test]
    fn full_network_has_no_sockets_of_others() {
        let policy = SandboxPolicy { network: Network::Full, ..policy() };
        let text = seatbelt_profile(&policy);
        assert!(text.contains("(allow network* system-socket)\n(deny network* (remote unix-socket))\n"));
    }

    #[test]
    fn parentheses_and_quotes_are_balanced() {
        let text = seatbelt_profile(&policy());
        for line in text.lines() {
            let (mut depth, mut is_quoted, mut is_escaped) = (0, false, false);
            for char in line.chars() {
                match char {
                    _ if is_escaped => is_escaped = false,
                    '\\' => is_escaped = true,
                    '"' => is_quoted = !is_quoted,
                    '(' if !is_quoted => depth += 1,
                    ')' if !is_quoted => depth -= 1,
                    _ => {}
                }
            }
            assert!(depth == 0 && !is_quoted, "{line}");
        }
    }
}
