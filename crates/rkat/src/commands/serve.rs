//! `rkat serve`.

use meerkat::hub::Access;
use meerkat::mcp::config::{Scope as FileScope, SourcedServer};
use meerkat::token::FILE_NAME;
use meerkat::{LoadedServerFiles, ProjectTrust, Skills, ToolsError};
use meerkat_mcp_server::http::{ClientToken, Listen, TokenOptions};
use meerkat_mcp_server::{LazyRuntime, Server, tools_list};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::hub::{RealmHub, access, bind_optional};
use crate::args::ServeArgs;
use crate::compose;
use crate::error::CliError;
use crate::out;
use crate::render::count;
use crate::scope::Scope;

pub(super) async fn serve(scope: &Scope, serve: ServeArgs) -> Result<(), CliError> {
    let options = scope.options()?;
    let (realm_dir, mut greeting) = (options.dir(), format!("rkat: realm `{}`", options.realm));
    match &realm_dir {
        Some(dir) => greeting.push_str(&format!(" ({}, `{}`)", options.backend(), dir.display())),
        None => greeting.push_str(&format!(" ({})", options.backend())),
    }
    let token = TokenOptions {
        no_token: serve.no_token,
        file: serve.token_file,
        realm_dir: realm_dir.clone(),
        ..TokenOptions::default()
    };
    let token = compose::client_token(token).map_err(CliError::Listen)?;
    let skills = compose::skills(scope)?;
    let host = compose::lazy_runtime(scope, options, &skills, token.access())?;
    let listen = Listen {
        address: serve.listen,
        token: token.clone(),
        hosts: serve.allow_host,
        origins: serve.allow_origin,
    };
    let hub = match serve.no_hub {
        true => None,
        false => hub(&host, &serve.hub, token).await?,
    };
    greeting.push_str(&contents(&host, scope, &skills).await);
    let server = Server::with_skills(host, &skills, out::queue);
    let shutdown = CancellationToken::new();
    let workers = async {
        if let Some((hosted, listener, access)) = hub {
            hosted.serve(listener, access, shutdown.cancelled()).await;
        }
    };
    let clients = async {
        let served = compose::listen(&server, listen, scope.surface, &greeting, realm_dir).await;
        shutdown.cancel();
        served
    };
    let (served, ()) = tokio::join!(clients, workers);
    served.map_err(CliError::Listen)?;
    Ok(())
}

/// Describes what is served, for the greeting, and warns if runs cannot start.
async fn contents(host: &LazyRuntime, scope: &Scope, skills: &Skills) -> String {
    let mut parts = Vec::new();
    let problem = match host.is_creatable().await {
        Ok(true) => None,
        // If the realm cannot be opened, the server logs the reason.
        Ok(false) => match host.runtime().await {
            Ok(runtime) => {
                match runtime.default_model().await {
                    Ok(model) => parts.push(format!("model `{model}`")),
                    Err(error) => out::warn(format_args!("runs that name no model fail: {error}")),
                }
                runtime.health().await.store.err()
            }
            Err(_) => None,
        },
        Err(error) => Some(error),
    };
    if let Some(error) = problem {
        out::warn(format_args!("runs fail, because they cannot be stored: {}", error.body().message));
    }
    parts.push(count(tools_list().len(), "tool"));
    parts.push(count(skills.catalog().load().await.active().count(), "skill"));
    if let Ok(LoadedServerFiles { entries, trust }) = scope.server_files().load() {
        let is_trusted =
            |server: &SourcedServer| server.scope == FileScope::User || trust == ProjectTrust::Trusted;
        let started = |server: &&SourcedServer| server.config.enabled && is_trusted(server);
        parts.push(count(entries.servers.iter().filter(started).count(), "MCP server"));
    }
    parts.iter().map(|part| format!(", {part}")).collect()
}

/// Starts a hub next to the server if its address is free and the realm has no hub.
async fn hub(
    host: &LazyRuntime,
    address: &str,
    token: ClientToken,
) -> Result<Option<(RealmHub, TcpListener, Access)>, CliError> {
    let runtime = host.runtime().await?;
    let access = match token {
        ClientToken::Given(token) => access(runtime, Some(token), FILE_NAME)?,
        // An in-memory realm has no token file, so it uses this token.
        ClientToken::Realm(token) => Access { token: Some(token), ..access(runtime, None, FILE_NAME)? },
        // `--no-token` applies to MCP clients only, not to the hub.
        ClientToken::None => access(runtime, None, FILE_NAME)?,
    };
    let Some(listener) = bind_optional(address, &access)? else { return Ok(None) };
    let hosted = match RealmHub::new(runtime, &listener, &access).await {
        Err(CliError::Meerkat(meerkat::Error::Tools(ToolsError::HubRunning { url, pid }))) => {
            let running = "the realm already has one";
            out::warn(format_args!("hub not started: {running} at {url} (pid {pid}); workers connect there"));
            return Ok(None);
        }
        hosted => hosted?,
    };
    out::stderr_line(&format!("rkat: hub for workers on {}", hosted.url()));
    Ok(Some((hosted, listener, access)))
}
