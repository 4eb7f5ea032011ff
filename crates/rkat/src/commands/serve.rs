//! `rkat serve`.

use std::process::ExitCode;
use std::sync::Arc;

use meerkat::hub::Access;
use meerkat::{Programs, RuntimeOptions};
use meerkat_mcp_server::http::Listen;
use meerkat_mcp_server::{Host, Server};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::hub::{Hosted, beside};
use crate::args::{ScopeArgs, ServeArgs};
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::servers;

pub(super) async fn serve(args: &ScopeArgs, serve: ServeArgs) -> Result<ExitCode, CliError> {
    let (scope, unnamed) = args.scope();
    let options = scope.options(unnamed, &env::surroundings(), "rkat")?;
    let realm = options.realm.clone();
    let secrets: meerkat::SecretSource = Arc::new(env::secret);
    let instance = scope.instance;
    let programs = match serve.token_file.is_some() || env::token().is_some() {
        true => Programs::Allowed,
        // A caller may be anybody on this machine.
        false => Programs::FromFiles,
    };
    let servers = servers::servers(args, programs);
    let skills = super::skill::skills(args)?;
    let agents = skills.clone();
    let tools = super::tools(args)?;
    let hook_files = Arc::new(servers::hook_files(args));
    let runtime_options = move || RuntimeOptions {
        skills: Some(agents.clone()),
        instance: instance.clone(),
        secrets: Some(Arc::clone(&secrets)),
        servers: Some(Arc::clone(&servers)),
        tools: tools.clone(),
        hook_files: Some(Arc::clone(&hook_files)),
        redactor: out::secrets(),
        ..RuntimeOptions::default()
    };
    let host = Host::on_realm(options, runtime_options, |warning| out::say(&format!("warning: {warning}")));
    let mut listen = Listen {
        address: serve.listen,
        token: env::token(),
        hosts: serve.allow_host,
        origins: serve.allow_origin,
    };
    if let Some(path) = &serve.token_file {
        listen = listen.with_token_file(path).map_err(CliError::Listen)?;
    }
    listen.token.iter().for_each(|token| out::secrets().learn(token));
    let announce = |address| out::say(&format!("rkat: realm `{realm}`, listening on http://{address}/mcp"));
    let hub = match serve.no_hub {
        true => None,
        false => hub(&host, &serve.hub, listen.token.clone()).await?,
    };
    let server = Server::with_skills(host, &skills, out::say);
    let over = CancellationToken::new();
    let programs = async {
        if let Some((hosted, listener, access)) = hub {
            hosted.serve(listener, access, over.cancelled()).await;
        }
    };
    let clients = async {
        let served = server.listen(listen, announce).await;
        over.cancel();
        served
    };
    let (served, ()) = tokio::join!(clients, programs);
    served.map_err(CliError::Listen)?;
    Ok(ExitCode::SUCCESS)
}

/// The hub beside the server, where its address is free and the realm has none.
async fn hub(
    host: &Host,
    address: &str,
    token: Option<String>,
) -> Result<Option<(Hosted, TcpListener, Access)>, CliError> {
    let access = Access { token: token.map(|token| token.trim().to_owned()), rbac: None };
    let Some(listener) = beside(address, &access)? else { return Ok(None) };
    let hosted = match Hosted::new(host.runtime().await?, &listener, &access).await {
        Err(CliError::Meerkat(meerkat::Error::HubRunning { url, pid })) => {
            let instead = "programs connect there";
            out::say(&format!("warning: no hub here: the realm's is at {url} (process {pid}); {instead}"));
            return Ok(None);
        }
        hosted => hosted?,
    };
    out::say(&format!("rkat: hub for programs on {}", hosted.url()));
    Ok(Some((hosted, listener, access)))
}
