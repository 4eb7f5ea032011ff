//! `${NAME}` in the values of an entry.

use std::collections::BTreeMap;

use super::{Endpoint, FieldError, ServerConfig, TransportConfig};

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) fn expand_server(server: &ServerConfig, lookup: Lookup<'_>) -> Result<ServerConfig, FieldError> {
    let transport = match &server.transport {
        TransportConfig::Stdio { command, args, env } => TransportConfig::Stdio {
            command: expand("command", command, lookup)?,
            args: args
                .iter()
                .enumerate()
                .map(|(index, arg)| expand(&format!("args[{index}]"), arg, lookup))
                .collect::<Result<_, _>>()?,
            env: expand_map("env", env, lookup)?,
        },
        TransportConfig::Url(endpoint) => TransportConfig::Url(expand_endpoint(endpoint, lookup)?),
        TransportConfig::Http(endpoint) => TransportConfig::Http(expand_endpoint(endpoint, lookup)?),
        TransportConfig::Sse(endpoint) => TransportConfig::Sse(expand_endpoint(endpoint, lookup)?),
    };
    Ok(ServerConfig { transport, ..server.clone() })
}

/// Returns the field of a remote server that contains a variable.
pub(super) fn endpoint_variable(server: &ServerConfig) -> Option<String> {
    let endpoint = server.transport.endpoint()?;
    let has_variable = |text: &str| text.contains("${");
    if has_variable(&endpoint.url) {
        return Some("url".to_owned());
    }
    let header = endpoint.headers.iter().find(|(_, value)| has_variable(value))?;
    Some(format!("headers.{}", header.0))
}

fn expand_endpoint(endpoint: &Endpoint, lookup: Lookup<'_>) -> Result<Endpoint, FieldError> {
    let url = expand("url", &endpoint.url, lookup)?;
    // The value of a variable may be secret, so the error omits the URL.
    super::read::check_url(&url).map_err(|_| {
        FieldError::new("url", "is not an `http://` or `https://` URL after expanding variables")
    })?;
    Ok(Endpoint { url, headers: expand_map("headers", &endpoint.headers, lookup)? })
}

fn expand_map(
    field: &str,
    values: &BTreeMap<String, String>,
    lookup: Lookup<'_>,
) -> Result<BTreeMap<String, String>, FieldError> {
    let expanded = |(key, value): (&String, &String)| {
        expand(&format!("{field}.{key}"), value, lookup).map(|value| (key.clone(), value))
    };
    values.iter().map(expanded).collect()
}

fn expand(field: &str, text: &str, lookup: Lookup<'_>) -> Result<String, FieldError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        expanded.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        let Some(end) = after.find('}') else {
            return Err(FieldError::new(field, "has `${` without `}`"));
        };
        let name = &after[..end];
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(FieldError::new(field, format!("`${{{name}}}` is not a valid variable name")));
        }
        let unset = || format!("the environment variable `{name}` is not set; set it or write its value");
        let value = lookup(name).ok_or_else(|| FieldError::new(field, unset()))?;
        expanded.push_str(&value);
        rest = &after[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}
