//! `rkat serve`.

use std::process::ExitCode;
use std::sync::Arc;

use meerkat::hub::Access;
use meerkat::token::FILE_NAME;
use meerkat::{RuntimeOptions, ToolsError};
use meerkat_mcp_server::http::{ClientToken, Listen, TokenOptions};
use meerkat_mcp_server::{LazyRuntime, Server};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::hub::{RealmHub, access, bind_optional};
use crate::args::{ScopeArgs, ServeArgs};
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::servers;

pub(super) async fn serve(args: &ScopeArgs, serve: ServeArgs) -> Result<ExitCode, CliError> {
    let (scope, unnamed) = args.scope();
    let options = scope.options(unnamed, &env::system_dirs(), "rkat")?;
    let realm = options.realm.clone();
    let secrets: meerkat::SecretSource = Arc::new(env::secret);
    let instance = scope.instance;
    let token = TokenOptions {
        no_token: serve.no_token,
        file: serve.token_file,
        value: env::token(),
        realm_dir: options.dir(),
    };
    let token = token.resolve().map_err(CliError::Listen)?;
    token.secret().iter().for_each(|secret| out::secrets().add(secret));
    let config_access = token.access();
    let servers = servers::servers(args, Arc::new(out::queue));
    let skills = super::skill::skills(args)?;
    let agents = skills.clone();
    let tools = super::tools(args)?;
    let hook_files = Arc::new(servers::hook_files(args).with_notices(Arc::new(out::queue)));
    let runtime_options = move || RuntimeOptions {
        skills: Some(agents.clone()),
        instance: instance.clone(),
        secrets: Some(Arc::clone(&secrets)),
        servers: Some(Arc::clone(&servers)),
        tools: tools.clone(),
        hook_files: Some(Arc::clone(&hook_files)),
        redactor: out::secrets(),
        config_access,
        ..RuntimeOptions::default()
    };
    let host = LazyRuntime::on_realm(options, runtime_options, |warning| {
        out::stderr_line(&format!("warning: {warning}"))
    });
    let announce = |address| {
        out::stderr_line(&format!("rkat: realm `{realm}`, listening on http://{address}/mcp"));
        token.connect_line(address).iter().for_each(|line| out::print_token(&format!("rkat: {line}")));
    };
    let listen = Listen {
        address: serve.listen,
        token: token.clone(),
        hosts: serve.allow_host,
        origins: serve.allow_origin,
    };
    let hub = match serve.no_hub {
        true => None,
        false => hub(&host, &serve.hub, token.clone()).await?,
    };
    let server = Server::with_skills(host, &skills, out::queue);
    let shutdown = CancellationToken::new();
    let workers = async {
        if let Some((hosted, listener, access)) = hub {
            hosted.serve(listener, access, shutdown.cancelled()).await;
        }
    };
    let clients = async {
        let served = server.listen(listen, announce).await;
        shutdown.cancel();
        served
    };
    let (served, ()) = tokio::join!(clients, workers);
    served.map_err(CliError::Listen)?;
    Ok(ExitCode::SUCCESS)
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
            let instead = "workers connect there";
            out::stderr_line(&format!(
                "warning: hub not started: the realm already has one at {url} (pid {pid}); {instead}"
            ));
            return Ok(None);
        }
        hosted => hosted?,
    };
    out::stderr_line(&format!("rkat: hub for workers on {}", hosted.url()));
    Ok(Some((hosted, listener, access)))
}
