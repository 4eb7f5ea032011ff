//! An entry for people and programs to look at: what may be secret is masked.

use std::collections::BTreeMap;

use meerkat_core::{Redactor, secret_args};
use serde_json::{Map, Value, json};

use super::{Endpoint, EraChoice, ServerConfig, TransportConfig};

impl ServerConfig {
    /// Tells what the entry has in secret: headers and variables whose names speak of one, arguments that follow
    /// a word for one, and who asks, as addresses say it.
    pub fn tell_secrets(&self, redactor: &Redactor) {
        match &self.transport {
            TransportConfig::Stdio { command, args, env } => {
                redactor.learn_args(command, args);
                env.iter().for_each(|(name, value)| redactor.learn_named(name, value));
            }
            TransportConfig::Url(endpoint)
            | TransportConfig::Http(endpoint)
            | TransportConfig::Sse(endpoint) => {
                redactor.learn_url(&endpoint.url);
                endpoint.headers.iter().for_each(|(name, value)| redactor.learn_named(name, value));
            }
        }
    }

    /// Shows the entry with the fields of a file. Values of variables and headers are masked unless they only
    /// name a variable, as are arguments that follow a word for a secret, and an address loses who asks and its
    /// query.
    #[must_use]
    pub fn masked(&self) -> Value {
        let mut shown = Map::new();
        shown.insert("name".to_owned(), json!(self.name));
        match &self.transport {
            TransportConfig::Stdio { command, args, env } => {
                shown.insert("transport".to_owned(), json!("stdio"));
                shown.insert("command".to_owned(), json!(command));
                shown.insert("args".to_owned(), json!(masked_args(command, args)));
                shown.insert("env".to_owned(), masked_map(env));
            }
            TransportConfig::Url(endpoint) | TransportConfig::Http(endpoint) => {
                show_endpoint(&mut shown, "streamable-http", endpoint);
            }
            TransportConfig::Sse(endpoint) => show_endpoint(&mut shown, "sse", endpoint),
        }
        shown.insert("connect_timeout_secs".to_owned(), json!(self.connect_timeout.as_secs()));
        shown.insert("tool_timeout_secs".to_owned(), json!(self.tool_timeout.as_secs()));
        shown.insert("required".to_owned(), json!(self.required));
        shown.insert("enabled".to_owned(), json!(self.enabled));
        let era = match self.era {
            EraChoice::Auto => "auto",
            EraChoice::Legacy => "legacy",
            EraChoice::Modern => "modern",
        };
        shown.insert("era".to_owned(), json!(era));
        shown.insert("allow".to_owned(), json!(self.allow));
        shown.insert("deny".to_owned(), json!(self.deny));
        Value::Object(shown)
    }
}

fn show_endpoint(shown: &mut Map<String, Value>, transport: &str, endpoint: &Endpoint) {
    shown.insert("transport".to_owned(), json!(transport));
    shown.insert("url".to_owned(), json!(masked_url(&endpoint.url)));
    shown.insert("headers".to_owned(), masked_map(&endpoint.headers));
}

fn masked_map(values: &BTreeMap<String, String>) -> Value {
    values.iter().map(|(key, value)| (key.clone(), json!(masked_value(value)))).collect()
}

fn masked_value(value: &str) -> String {
    // A value such as `Bearer ${TOKEN}` says where the secret is and not what it is.
    let names_only = value.split_once("${").is_some_and(|(scheme, rest)| {
        let known = matches!(scheme.trim_end(), "" | "Basic" | "Bearer" | "Token" | "token");
        known && rest.find('}') == Some(rest.len() - 1)
    });
    if names_only { value.to_owned() } else { "***".to_owned() }
}

/// Masks what holds a secret among arguments, and what is secret in addresses.
fn masked_args(command: &str, args: &[String]) -> Vec<String> {
    let mut shown = args.to_vec();
    // From the last to the first, so that a place does not move before its turn.
    for secret in secret_args(command, args).into_iter().rev() {
        let masked = masked_value(&args[secret.index][secret.range.clone()]);
        shown[secret.index].replace_range(secret.range, &masked);
    }
    shown.iter().map(|arg| masked_urls(arg)).collect()
}

/// Masks what is secret in the URLs of a text. A URL ends where a shell would begin something else, so a mask never
/// covers a command.
fn masked_urls(text: &str) -> String {
    let ends_url = |letter: char| letter.is_whitespace() || ";|<>()`'\"".contains(letter);
    let mut shown = String::with_capacity(text.len());
    for piece in text.split_inclusive(ends_url) {
        let url = piece.trim_end_matches(ends_url);
        shown.push_str(&masked_url(url));
        shown.push_str(&piece[url.len()..]);
    }
    shown
}

/// Masks who asks and what is asked in an address; any other text stays as it is.
fn masked_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let (host, path) = place.find('/').map_or((place, ""), |slash| place.split_at(slash));
    let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("***@{host}"));
    let query = query.map_or("", |_| "?***");
    format!("{scheme}://{host}{path}{query}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::config::ServerConfig;

    #[test]
    fn secrets_among_arguments_are_not_shown() {
        let args = [
            "-y",
            "server",
            "--api-key",
            "secret",
            "--token=secret",
            "--auth",
            "${TOKEN}",
            "--keep",
            "--path",
            "/a?b",
            "postgres://me:secret@db/x?y=secret",
            "${BASE}://x?secret",
            "KEY=secret",
            "curl",
            "-u",
            "me:secret",
        ];
        let entry = json!({ "name": "a", "command": "npx", "args": args });
        let shown = ServerConfig::from_json(&entry).unwrap().masked();
        let expected = [
            "-y",
            "server",
            "--api-key",
            "***",
            "--token=***",
            "--auth",
            "${TOKEN}",
            "--keep",
            "--path",
            "/a?b",
            "postgres://***@db/x?***",
            "${BASE}://x?***",
            "KEY=***",
            "curl",
            "-u",
            "me:***",
        ];
        assert_eq!(shown["args"], json!(expected));
    }

    #[test]
    fn a_masked_url_covers_no_command() {
        let script = "curl https://me:pw@x.example/a?key=1 | sh; echo http://x?;rm -rf ~ @x";
        let entry = json!({ "name": "a", "command": "sh", "args": ["-c", script] });
        let shown = ServerConfig::from_json(&entry).unwrap().masked();
        let expected = "curl https://***@x.example/a?*** | sh; echo http://x?***;rm -rf ~ @x";
        assert_eq!(shown["args"], json!(["-c", expected]));
    }

    #[test]
    fn secrets_are_not_shown() {
        let entry = json!({
            "name": "a", "url": "https://me:secret@x.example/mcp?key=secret",
            "headers": { "Authorization": "Bearer ${TOKEN}", "X-Key": "secret", "X-Odd": "secret ${A}" },
        });
        let shown = ServerConfig::from_json(&entry).unwrap().masked();
        assert_eq!(
            shown,
            json!({
                "name": "a",
                "transport": "streamable-http",
                "url": "https://***@x.example/mcp?***",
                "headers": { "Authorization": "Bearer ${TOKEN}", "X-Key": "***", "X-Odd": "***" },
                "connect_timeout_secs": 10,
                "tool_timeout_secs": 300,
                "required": false,
                "enabled": true,
                "era": "auto",
                "allow": [],
                "deny": [],
            })
        );
    }
}
