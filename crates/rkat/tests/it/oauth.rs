//! An MCP server that requires a login, combined with its authorization server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Outcome of a token refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    Granted,
    Refused,
    Broken,
}

/// The server. Its tokens are `access-1`, `access-2`, and so on; only the last one is valid.
pub(crate) struct OAuthServer {
    address: String,
    state: Arc<Mutex<State>>,
}

struct State {
    issued: usize,
    renewal: Renewal,
    /// Authentication of clients with a secret, or `None` for clients without one.
    secret: Option<Secret>,
    /// The authorization endpoint in the metadata, if it is not this server's.
    authorize: Option<String>,
    /// The authorization server in the metadata of the resource, if it is not this one.
    login_server: Option<String>,
    /// The URL of the metadata of the resource in the challenge, if it is not at this server.
    metadata: Option<String>,
}

/// Authentication method of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secret {
    /// In a header.
    Basic,
    /// Among the parameters.
    Post,
}

/// Secret of every client that has one.
pub(crate) const CLIENT_SECRET: &str = "the-secret";

impl OAuthServer {
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    /// Starts a server whose clients have a secret.
    pub(crate) fn with_secret(secret: Secret) -> Self {
        Self::with(Some(secret))
    }

    fn with(secret: Option<Secret>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            issued: 0,
            renewal: Renewal::Granted,
            secret,
            authorize: None,
            login_server: None,
            metadata: None,
        }));
        let (home, shared) = (address.clone(), Arc::clone(&state));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (home, shared) = (home.clone(), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &home, &shared));
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.address)
    }

    pub(crate) fn renew(&self, renewal: Renewal) {
        self.state.lock().unwrap().renewal = renewal;
    }

    /// Sets another authorization endpoint in the metadata.
    pub(crate) fn authorize_at(&self, url: &str) {
        self.state.lock().unwrap().authorize = Some(url.to_owned());
    }

    /// Sets another authorization server in the metadata of the resource.
    pub(crate) fn log_in_at(&self, url: &str) {
        self.state.lock().unwrap().login_server = Some(url.to_owned());
    }

    /// Sets another URL of the metadata of the resource in the challenge.
    pub(crate) fn describe_at(&self, url: &str) {
        self.state.lock().unwrap().metadata = Some(url.to_owned());
    }

    pub(crate) fn issued(&self) -> usize {
        self.state.lock().unwrap().issued
    }

    /// Logs in as a user would in a browser: opens the URL and follows the redirect.
    pub(crate) fn log_in(address: &str) {
        let field = |name: &str| {
            let query = address.split_once('?').unwrap().1;
            let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            value.unwrap_or_else(|| panic!("no {name} in {address}")).to_owned()
        };
        assert_eq!(field("code_challenge_method"), "S256");
        let redirect = field("redirect_uri").replace("%3A", ":").replace("%2F", "/");
        let answer = visit(&redirect, &format!("/callback?code=the-code&state={}", field("state")));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Requests a target from the server of a URL, as a browser would.
pub(crate) fn visit(url: &str, target: &str) -> String {
    let host = url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let mut stream = TcpStream::connect(&host).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

struct Request {
    line: String,
    token: Option<String>,
    basic: Option<String>,
    body: String,
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut request = Request { line: String::new(), token: None, basic: None, body: String::new() };
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_lowercase();
        if line.trim().is_empty() {
            break;
        } else if request.line.is_empty() {
            line.trim().clone_into(&mut request.line);
        } else if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        } else if let Some(value) = lower.strip_prefix("authorization: bearer ") {
            request.token = Some(value.trim().to_owned());
        } else if lower.starts_with("authorization: basic ") {
            request.basic = line.trim().rsplit_once(' ').map(|(_, value)| value.to_owned());
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}

fn serve(mut stream: TcpStream, home: &str, state: &Mutex<State>) {
    let Some(request) = read(&stream) else { return };
    let (status, extra, body) = answer(&request, home, state);
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\
         {extra}\r\n{body}"
    );
}

type Answer = (&'static str, String, String);

fn answer(request: &Request, home: &str, state: &Mutex<State>) -> Answer {
    let ok = |body: Value| ("200 OK", String::new(), body.to_string());
    let mut words = request.line.split(' ');
    match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
        ("GET", path) if path.starts_with("/.well-known/oauth-protected-resource") => {
            let login_server = state.lock().unwrap().login_server.clone().unwrap_or_else(|| home.to_owned());
            ok(json!({ "resource": format!("{home}/mcp"), "authorization_servers": [login_server] }))
        }
        ("GET", path) if path.starts_with("/.well-known/oauth-authorization-server") => ok(json!({
            "issuer": home,
            "authorization_endpoint":
                state.lock().unwrap().authorize.clone().unwrap_or_else(|| format!("{home}/authorize")),
            "token_endpoint": format!("{home}/token"),
            "registration_endpoint": format!("{home}/register"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [match state.lock().unwrap().secret {
                None => "none",
                Some(Secret::Basic) => "client_secret_basic",
                Some(Secret::Post) => "client_secret_post",
            }],
        })),
        ("POST", "/register") => {
            let mut client: Value = serde_json::from_str(&request.body).unwrap_or_default();
            client["client_id"] = json!("the-client");
            if state.lock().unwrap().secret.is_some() {
                client["client_secret"] = json!(CLIENT_SECRET);
            }
            ("201 Created", String::new(), client.to_string())
        }
        ("POST", "/token") => token(request, &mut state.lock().unwrap()),
        ("POST", "/mcp") => {
            let good = format!("access-{}", state.lock().unwrap().issued);
            if request.token.as_deref() == Some(good.as_str()) {
                return mcp(&request.body);
            }
            let own = || format!("{home}/.well-known/oauth-protected-resource/mcp");
            let metadata = state.lock().unwrap().metadata.clone().unwrap_or_else(own);
            let challenge = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
            ("401 Unauthorized", challenge, String::new())
        }
        _ => ("404 Not Found", String::new(), String::new()),
    }
}

fn token(request: &Request, state: &mut State) -> Answer {
    let is_refresh = request.body.contains("grant_type=refresh_token");
    let is_authenticated = match state.secret {
        None => true,
        // `the-client:the-secret` in base64.
        Some(Secret::Basic) => request.basic.as_deref() == Some("dGhlLWNsaWVudDp0aGUtc2VjcmV0"),
        Some(Secret::Post) => request.body.contains("client_secret=the-secret"),
    };
    if !is_authenticated {
        return ("401 Unauthorized", String::new(), json!({ "error": "invalid_client" }).to_string());
    }
    match (is_refresh, state.renewal) {
        (true, Renewal::Refused) => {
            ("400 Bad Request", String::new(), json!({ "error": "invalid_grant" }).to_string())
        }
        (true, Renewal::Broken) => ("503 Service Unavailable", String::new(), String::new()),
        _ => {
            state.issued += 1;
            let tokens = json!({
                "access_token": format!("access-{}", state.issued),
                "refresh_token": format!("refresh-{}", state.issued),
                "token_type": "Bearer",
                "expires_in": 3600,
            });
            ("200 OK", String::new(), tokens.to_string())
        }
    }
}

fn mcp(body: &str) -> Answer {
    let request: Value = serde_json::from_str(body).unwrap_or_default();
    let id = &request["id"];
    if id.is_null() {
        return ("202 Accepted", String::new(), String::new());
    }
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "guarded", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "greet", "inputSchema": { "type": "object" } }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "hello from behind the door" }] }),
        _ => {
            let error = json!({ "code": -32601, "message": "not known" });
            return (
                "200 OK",
                String::new(),
                json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string(),
            );
        }
    };
    ("200 OK", String::new(), json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
}
