//! `rkat mcp login` and `rkat mcp logout`.

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use meerkat::mcp::config::{Endpoint, ServerConfig, TransportConfig};
use meerkat::mcp::{
    Login, LoginListener, LoginOptions, LoginState, RegisteredClient, ServerState, ServerView, TokenStore,
    token_key,
};

use super::probe::{probe, reason};
use super::{find_startable, tokens};
use crate::args::LoginArgs;
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::count;
use crate::scope::Scope;

pub(super) async fn login(scope: &Scope, args: LoginArgs) -> Result<ExitCode, CliError> {
    let (_, config) = find_startable(&scope.server_files(), &args.name)?;
    let endpoint = endpoint(&config)?.clone();
    let tokens: Arc<dyn TokenStore> = Arc::new(tokens(scope)?);
    let challenge = match probe(scope, config.clone()).await {
        Some(view) if is_known(&view) && args.oauth_scopes.is_empty() => {
            out::line(&format!("{} does not need a login", args.name));
            return Ok(ExitCode::SUCCESS);
        }
        view => view.and_then(|view| view.challenge),
    };
    let listener = LoginListener::bind()
        .await
        .map_err(|error| CliError::Io("cannot listen on a local port".to_owned(), error))?;
    let options = LoginOptions {
        redirect_uri: listener.address().to_owned(),
        scopes: args.oauth_scopes.clone(),
        client: args
            .client_id
            .clone()
            .map(|id| RegisteredClient { id, secret: env::secret("RKAT_MCP_CLIENT_SECRET") }),
        client_metadata_url: None,
        challenge: challenge.filter(|challenge| !challenge.is_empty()),
    };
    let login = Login::begin(&args.name, &endpoint, options, tokens).await.map_err(|error| failed(&error))?;
    let state = login.state().unwrap_or_default();
    ask_user(&args, login.address());
    let limit = Duration::from_secs(args.timeout);
    let answer = tokio::time::timeout(limit, listener.wait_for_redirect(&state)).await.map_err(|_| {
        CliError::Usage(format!("login timed out after {} s; try again, or set `--timeout`", args.timeout))
    })?;
    let answer = answer.map_err(|error| CliError::Io("cannot read the login response".to_owned(), error))?;
    login.finish(&answer).await.map_err(|error| failed(&error))?;
    report(&args.name, probe(scope, config).await)
}

/// Returns `true` if a server is ready and needs no login.
fn is_known(view: &ServerView) -> bool {
    view.state == ServerState::Ready && view.login != LoginState::NeedsReauth
}

fn endpoint(config: &ServerConfig) -> Result<&Endpoint, CliError> {
    match &config.transport {
        TransportConfig::Url(endpoint) | TransportConfig::Http(endpoint) => Ok(endpoint),
        TransportConfig::Stdio { .. } | TransportConfig::Sse(_) => Err(CliError::Usage(format!(
            "`{}` does not use streamable HTTP, so there is nothing to log in to",
            config.name
        ))),
    }
}

/// Prints the URL, and opens it in a browser if a user is at the terminal.
fn ask_user(args: &LoginArgs, address: &str) {
    out::stderr_line(&format!("open this URL to log in to {}:", args.name));
    out::stderr_line(address);
    let is_interactive = env::stdin_is_terminal() && env::stdout_is_terminal();
    if !args.no_browser && is_interactive {
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        // Without a browser, the user opens the printed URL by hand.
        let _ = Command::new(opener)
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
}

fn report(name: &str, view: Option<ServerView>) -> Result<ExitCode, CliError> {
    match view {
        Some(view) if is_known(&view) => {
            out::line(&format!("logged in to {name}, which has {}", count(view.tools.len(), "tool")));
            Ok(ExitCode::SUCCESS)
        }
        view => {
            let why = view.map(|view| reason(&view)).unwrap_or_default();
            out::warn(format_args!("logged in to {name}, but it is not ready: {why}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn failed(error: &meerkat::mcp::LoginError) -> CliError {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    CliError::Usage(text)
}

pub(super) async fn logout(scope: &Scope, name: &str) -> Result<(), CliError> {
    let (_, config) = find_startable(&scope.server_files(), name)?;
    let key = token_key(name, &endpoint(&config)?.url);
    let tokens = tokens(scope)?;
    tokens.clear(&key).await.map_err(|error| CliError::Io("cannot delete the login".to_owned(), error))?;
    out::line(&format!("logged out of {name}"));
    Ok(())
}
