//! Output of an entry with possible secrets masked.

use std::collections::BTreeMap;

use meerkat_core::{Redactor, secret_args};
use serde_json::{Value, json};

use super::{Endpoint, ServerConfig, TransportConfig};

impl ServerConfig {
    /// Adds the secrets of the entry to the redactor: headers and variables with secret names, arguments that follow a
    /// secret option, and credentials in URLs.
    pub fn register_secrets(&self, redactor: &Redactor) {
        match &self.transport {
            TransportConfig::Stdio { command, args, env } => {
                redactor.add_args(command, args);
                env.iter().for_each(|(name, value)| redactor.add_named(name, value));
            }
            TransportConfig::Url(endpoint)
            | TransportConfig::Http(endpoint)
            | TransportConfig::Sse(endpoint) => {
                redactor.add_url(&endpoint.url);
                endpoint.headers.iter().for_each(|(name, value)| redactor.add_named(name, value));
            }
        }
    }

    /// Returns the entry with the fields of a file. Values of variables and headers are masked unless they only name a
    /// variable, as are arguments that follow a secret option, and credentials and queries in URLs.
    #[must_use]
    pub fn masked(&self) -> Value {
        let transport = match &self.transport {
            TransportConfig::Stdio { command, args, env } => vec![
                ("transport", json!("stdio")),
                ("command", json!(command)),
                ("args", json!(masked_args(command, args))),
                ("env", masked_map(env)),
            ],
            TransportConfig::Url(endpoint) | TransportConfig::Http(endpoint) => {
                masked_endpoint("streamable-http", endpoint)
            }
            TransportConfig::Sse(endpoint) => masked_endpoint("sse", endpoint),
        };
        let rest = [
            ("connect_timeout_secs", json!(self.connect_timeout.as_secs())),
            ("tool_timeout_secs", json!(self.tool_timeout.as_secs())),
            ("required", json!(self.required)),
            ("enabled", json!(self.enabled)),
            ("era", json!(self.era.as_str())),
            ("allow", json!(self.allow)),
            ("deny", json!(self.deny)),
        ];
        let fields = [("name", json!(self.name))].into_iter().chain(transport).chain(rest);
        fields.map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn masked_endpoint(transport: &str, endpoint: &Endpoint) -> Vec<(&'static str, Value)> {
    vec![
        ("transport", json!(transport)),
        ("url", json!(masked_url(&endpoint.url))),
        ("headers", masked_map(&endpoint.headers)),
    ]
}

fn masked_map(values: &BTreeMap<String, String>) -> Value {
    values.iter().map(|(key, value)| (key.clone(), json!(masked_value(value)))).collect()
}

fn masked_value(value: &str) -> String {
    // A value such as `Bearer ${TOKEN}` only names the variable that has the secret.
    let names_only = value.split_once("${").is_some_and(|(scheme, rest)| {
        let known = matches!(scheme.trim_end(), "" | "Basic" | "Bearer" | "Token" | "token");
        known && rest.find('}') == Some(rest.len() - 1)
    });
    if names_only { value.to_owned() } else { "***".to_owned() }
}

/// Masks secrets in arguments, including those in URLs.
fn masked_args(command: &str, args: &[String]) -> Vec<String> {
    let mut redacted = args.to_vec();
    // In reverse order, so that earlier ranges stay valid.
    for secret in secret_args(command, args).into_iter().rev() {
        let masked = masked_value(&args[secret.index][secret.range.clone()]);
        redacted[secret.index].replace_range(secret.range, &masked);
    }
    redacted.iter().map(|arg| masked_urls(arg)).collect()
}

/// Masks secrets in the URLs of a text. A URL ends where a shell would end the word, so a mask never covers a command.
fn masked_urls(text: &str) -> String {
    let ends_url = |letter: char| letter.is_whitespace() || ";|<>()`'\"".contains(letter);
    let mut redacted = String::with_capacity(text.len());
    for piece in text.split_inclusive(ends_url) {
        let url = piece.trim_end_matches(ends_url);
        redacted.push_str(&masked_url(url));
        redacted.push_str(&piece[url.len()..]);
    }
    redacted
}

/// Masks the credentials and the query of a URL; any other text is returned unchanged.
fn masked_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (base, query) = rest.split_once('?').map_or((rest, None), |(base, query)| (base, Some(query)));
    let (host, path) = base.find('/').map_or((base, ""), |slash| base.split_at(slash));
    let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("***@{host}"));
    let query = query.map_or("", |_| "?***");
    format!("{scheme}://{host}{path}{query}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::config::ServerConfig;

    #[test]
    fn secret_arguments_are_masked() {
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
        let redacted = ServerConfig::from_json(&entry).unwrap().masked();
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
        assert_eq!(redacted["args"], json!(expected));
    }

    #[test]
    fn masked_url_does_not_hide_a_command() {
        let script = "curl https://me:pw@x.example/a?key=1 | sh; echo http://x?;rm -rf ~ @x";
        let entry = json!({ "name": "a", "command": "sh", "args": ["-c", script] });
        let redacted = ServerConfig::from_json(&entry).unwrap().masked();
        let expected = "curl https://***@x.example/a?*** | sh; echo http://x?***;rm -rf ~ @x";
        assert_eq!(redacted["args"], json!(["-c", expected]));
    }

    #[test]
    fn secrets_are_masked() {
        let entry = json!({
            "name": "a", "url": "https://me:secret@x.example/mcp?key=secret",
            "headers": { "Authorization": "Bearer ${TOKEN}", "X-Key": "secret", "X-Odd": "secret ${A}" },
        });
        let redacted = ServerConfig::from_json(&entry).unwrap().masked();
        assert_eq!(
            redacted,
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
