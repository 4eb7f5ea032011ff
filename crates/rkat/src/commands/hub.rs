//! `rkat hub`, and the hub of `rkat serve`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use meerkat::hub::{Access, Client, ClientOptions, HubError, Rbac, bind};
use meerkat::token::{FILE_NAME, GUARDED_FILE_NAME, TokenError, generate, is_own, read_or_create_named};
use meerkat::{HostedHub, Runtime};
use meerkat_mcp_server::shutdown_signal;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use super::print_json;
use crate::args::{HUB_ADDRESS, HubArgs, HubCommand, HubListen};
use crate::compose::{open, open_known};
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::{count, table};
use crate::scope::Scope;

/// Time limit for a query to the hub.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn hub(scope: &Scope, args: HubArgs) -> Result<ExitCode, CliError> {
    match args.command {
        Some(HubCommand::Status { url, json }) => status(scope, url, json).await,
        None => serve(scope, args.listen).await,
    }
}

async fn serve(scope: &Scope, args: HubListen) -> Result<ExitCode, CliError> {
    let terminated = shutdown_signal();
    let rbac = args.rbac.as_deref().map(read_rules).transpose()?;
    let runtime = open(scope)?;
    let admit = |explicit: Option<String>, name: &str| match args.no_token {
        true => Ok(Access::default()),
        false => access(&runtime, explicit, name),
    };
    let explicit = read_token(args.token_file.as_deref())?.or_else(|| chosen_token(&runtime));
    let access = Access { origins: args.allow_origin.clone(), ..admit(explicit, FILE_NAME)? };
    let listener = bind(&args.listen, &access).map_err(listen_error)?;
    let guarded = match &args.guarded {
        Some(address) => {
            let token = read_token(args.guarded_token_file.as_deref())?;
            let origins = args.allow_origin.clone();
            let access = Access { origins, rbac, ..admit(token, GUARDED_FILE_NAME)? };
            Some((bind(address, &access).map_err(listen_error)?, access))
        }
        None => None,
    };
    let hosted = RealmHub::new(&runtime, &listener, &access).await?;
    out::stderr_line(&format!("rkat: realm `{}`, hub listening on {}", runtime.realm().id(), hosted.url));
    if let Some(paths) = runtime.realm().paths().filter(|_| access.admit_same_user) {
        let file = paths.root.join(FILE_NAME);
        out::stderr_line(&format!(
            "rkat: workers of other users must send the token in `{}`",
            file.display()
        ));
    }
    let shutdown = tokio_util::sync::CancellationToken::new();
    let open = hosted.serve(listener, access, shutdown.cancelled());
    let closed = async {
        if let Some((listener, access)) = guarded {
            out::stderr_line(&format!("rkat: guarded hub listening on {}", listener_url(&listener)));
            hosted.hub.hub().serve(listener, access, shutdown.cancelled()).await;
        }
    };
    let end = async {
        terminated.await;
        shutdown.cancel();
    };
    tokio::join!(open, closed, end);
    Ok(ExitCode::SUCCESS)
}

/// The realm's hub in this process. Other processes can find it until this is dropped.
pub(super) struct RealmHub {
    hub: HostedHub,
    url: String,
    _beacon: Option<meerkat::EndpointFile>,
}

impl RealmHub {
    pub(super) async fn new(
        runtime: &Runtime,
        listener: &TcpListener,
        access: &Access,
    ) -> Result<Self, CliError> {
        let hub = runtime.host_hub(|line| out::stderr_line(&format!("hub: {line}"))).await?;
        let url = listener_url(listener);
        let beacon = hub.announce(url.clone(), access.token.clone())?;
        Ok(Self { hub, url, _beacon: beacon })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Serves workers until the future resolves.
    pub(super) async fn serve(&self, listener: TcpListener, access: Access, until: impl Future<Output = ()>) {
        self.hub.hub().serve(listener, access, until).await;
    }
}

fn listener_url(listener: &TcpListener) -> String {
    listener.local_addr().map_or_else(|_| format!("ws://{HUB_ADDRESS}"), |address| format!("ws://{address}"))
}

/// Binds the hub address of `rkat serve`; prints a warning and returns `None` if the address is in use.
pub(super) fn bind_optional(address: &str, access: &Access) -> Result<Option<TcpListener>, CliError> {
    match bind(address, access) {
        Ok(listener) => Ok(Some(listener)),
        Err(HubError::Listen { address, source }) => {
            let hint = "pass --hub ADDRESS or --no-hub";
            out::warn(format_args!("hub not started: cannot listen on `{address}`: {source}; {hint}"));
            Ok(None)
        }
        Err(error) => Err(listen_error(error)),
    }
}

/// Returns the access rules: with a token chosen by the user, every worker that sends it; otherwise every worker that
/// sends the realm's own token or runs as the same user on this machine.
pub(super) fn access(runtime: &Runtime, explicit: Option<String>, name: &str) -> Result<Access, CliError> {
    let admit_same_user = explicit.is_none();
    let token = match (explicit, runtime.realm().paths()) {
        (Some(token), _) if token.trim().is_empty() => {
            return Err(CliError::Usage("the token is empty".to_owned()));
        }
        (Some(token), _) => token.trim().to_owned(),
        (None, Some(paths)) => read_or_create_named(&paths.root, name).map_err(token_error)?,
        (None, None) => generate(),
    };
    out::secrets().add(&token);
    Ok(Access { token: Some(token), admit_same_user, ..Access::default() })
}

fn token_error(error: TokenError) -> CliError {
    let text = error.to_string();
    match error {
        TokenError::Io { source, .. } => CliError::Io(text, source),
        _ => CliError::Usage(text),
    }
}

/// Returns the token from the environment, unless it is the realm's own, set there for clients.
fn chosen_token(runtime: &Runtime) -> Option<String> {
    let own = |token: &String| runtime.realm().paths().is_some_and(|paths| is_own(&paths.root, token));
    env::token().filter(|token| !own(token))
}

/// Reads the token from a file that the user named.
fn read_token(file: Option<&Path>) -> Result<Option<String>, CliError> {
    let Some(path) = file else { return Ok(None) };
    let read = std::fs::read_to_string(path);
    read.map(Some)
        .map_err(|error| CliError::Io(format!("cannot read the token in `{}`", path.display()), error))
}

fn read_rules(file: &Path) -> Result<Rbac, CliError> {
    let name = file.display();
    let text = std::fs::read(file)
        .map_err(|error| CliError::Io(format!("cannot read the rules in `{name}`"), error))?;
    // Read as an object first: an empty array would deserialize to empty rules.
    let object = serde_json::from_slice::<Map<String, Value>>(&text);
    let rules = object.and_then(|object| serde_json::from_value(Value::Object(object)));
    rules.map_err(|error| CliError::Usage(format!("invalid rules in `{name}`: {error}")))
}

/// Converts the error of an address that cannot be bound.
fn listen_error(error: HubError) -> CliError {
    match error {
        HubError::Listen { address, source } => {
            let hint = "another hub may be using it; see `rkat hub status`, or pass --listen";
            CliError::Io(format!("cannot listen on `{address}` ({hint})"), source)
        }
        other => CliError::Usage(other.to_string()),
    }
}

async fn status(scope: &Scope, url: Option<String>, json: bool) -> Result<ExitCode, CliError> {
    let (url, token) = match url {
        Some(url) => (url, env::token()),
        None => locate_hub(scope).await?,
    };
    let options = ClientOptions { url: url.clone(), token, name: "rkat hub status".to_owned() };
    let client = match Client::connect(options).await {
        Ok(client) => client,
        Err(HubError::Url { url }) => return Err(CliError::Usage(HubError::Url { url }.to_string())),
        Err(error) => {
            if json {
                print_json(&json!({ "url": url, "reachable": false }));
            }
            let why =
                std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
            out::stderr_line(&format!("error: {error}{why}; `rkat hub` starts one"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let query = async |function: &str, rows: &str| -> Result<Vec<Value>, CliError> {
        let reply = client.call(function, &json!({}), QUERY_TIMEOUT).await;
        let mut reply =
            reply.map_err(|error| CliError::Usage(format!("cannot query the hub at `{url}`: {error}")))?;
        Ok(reply[rows].as_array_mut().map(std::mem::take).unwrap_or_default())
    };
    let mut workers = query("engine::workers::list", "workers").await?;
    workers.retain(|worker| worker["pid"] != std::process::id());
    let functions = query("engine::functions::list", "functions").await?;
    if json {
        print_json(&json!({ "url": url, "reachable": true, "workers": workers, "functions": functions }));
    } else {
        show(&url, &workers, &functions);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the published URL and token of the realm's hub, or the default address.
async fn locate_hub(scope: &Scope) -> Result<(String, Option<String>), CliError> {
    let endpoint = open_known(scope)?.registry().await?.hub();
    Ok(endpoint.map_or_else(|| (format!("ws://{HUB_ADDRESS}"), env::token()), |at| (at.url, at.token)))
}

fn show(url: &str, workers: &[Value], functions: &[Value]) {
    out::line(&format!("{url}: {}, {}", count(workers.len(), "worker"), count(functions.len(), "function")));
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or("-").to_owned();
    if !workers.is_empty() {
        let rows = workers.iter().map(|worker| {
            let sdk = format!("{} {}", text(worker, "runtime"), text(worker, "version"));
            vec![text(worker, "name"), sdk, text(worker, "status"), worker["function_count"].to_string()]
        });
        out::print(&table(&["WORKER", "SDK", "STATUS", "FUNCTIONS"], &rows.collect::<Vec<_>>(), env::page()));
    }
    let rows = functions.iter().map(|row| vec![text(row, "function_id"), text(row, "worker_name")]);
    out::print(&table(&["FUNCTION", "WORKER"], &rows.collect::<Vec<_>>(), env::page()));
}
