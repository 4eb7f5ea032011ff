//! Logins at MCP servers: requested, stored, refreshed, rejected, and deleted.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::oauth::{CLIENT_SECRET, OAuthServer, Renewal, Secret, visit};
use crate::support::Rkat;

fn with_server(server: &OAuthServer) -> Rkat {
    let rkat = Rkat::new();
    rkat.args(["mcp", "add", "api", "--url", &server.url()]).run().text();
    rkat
}

fn log_in(rkat: &Rkat) -> String {
    let mut running = rkat.args(["mcp", "login", "api"]).start();
    let address = running.wait_for("/authorize?");
    OAuthServer::log_in(&address);
    running.finish().text().to_owned()
}

/// Returns the login state from the list, and the output.
fn login_state(rkat: &Rkat, live: &[&str]) -> (Value, String) {
    let output = rkat.args(["mcp", "list", "--json"].into_iter().chain(live.iter().copied())).run();
    let listed: Value = serde_json::from_str(&output.stdout).unwrap();
    // The live list fails if the only server is not ready.
    let is_dead = !live.is_empty() && listed["servers"][0]["state"] != "ready";
    assert_eq!(output.code, Some(i32::from(is_dead)), "{output}");
    (listed["servers"][0]["login"].clone(), output.stdout)
}

fn token_file(rkat: &Rkat) -> PathBuf {
    let dir = rkat.home().join(".rkat/mcp-tokens");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// Expires the stored tokens.
fn expire(rkat: &Rkat) {
    let path = token_file(rkat);
    let mut stored: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    stored["credentials"]["token_received_at"] = json!(1);
    fs::write(&path, stored.to_string()).unwrap();
}

const GREET: [&str; 6] =
    ["run", "--wait-for-mcp", "--json", "-m", "offline", "call api__greet {}\nthen\nsay done"];

fn can_greet(rkat: &Rkat) -> bool {
    let done = rkat.args(GREET).run().json();
    let session = done["session_id"].as_str().unwrap().to_owned();
    rkat.args(["session", "show", &session, "--json"]).run().stdout.contains("hello from behind the door")
}

#[test]
fn login_is_stored_refreshed_and_deleted() {
    let server = OAuthServer::start();
    let rkat = with_server(&server);
    assert!(!can_greet(&rkat), "no tool is callable without a login");
    assert_eq!(login_state(&rkat, &[]).0, Value::Null);
    assert_eq!(login_state(&rkat, &["--live"]).0, json!("needs_reauth"));
    assert_eq!(log_in(&rkat), "logged in to api, which has 1 tool\n");
    assert_eq!(login_state(&rkat, &[]).0, json!("ok"));
    assert!(can_greet(&rkat));
    expire(&rkat);
    assert!(can_greet(&rkat));
    let (state, output) = login_state(&rkat, &[]);
    assert_eq!((state, server.issued()), (json!("refreshed"), 2));
    assert!(!output.contains("access-") && !output.contains("refresh-"), "{output}");
    assert_eq!(rkat.args(["mcp", "login", "api"]).run().text(), "api does not need a login\n");
    assert_eq!(rkat.args(["mcp", "logout", "api"]).run().text(), "logged out of api\n");
    assert_eq!(login_state(&rkat, &[]).0, Value::Null);
    assert!(!can_greet(&rkat));
}

#[test]
fn client_with_secret_refreshes_tokens() {
    for secret in [Secret::Basic, Secret::Post] {
        let server = OAuthServer::with_secret(secret);
        let rkat = with_server(&server);
        assert_eq!(log_in(&rkat), "logged in to api, which has 1 tool\n", "{secret:?}");
        expire(&rkat);
        assert!(can_greet(&rkat), "{secret:?}");
        expire(&rkat);
        assert!(can_greet(&rkat), "{secret:?}: once more");
        assert_eq!(server.issued(), 3);

        // A client that the user registered; its secret is not needed again after the login.
        let server = OAuthServer::with_secret(secret);
        let rkat = with_server(&server);
        let login = rkat.args(["mcp", "login", "api", "--client-id", "the-client"]);
        let mut running = login.env("RKAT_MCP_CLIENT_SECRET", CLIENT_SECRET).start();
        let address = running.wait_for("/authorize?");
        OAuthServer::log_in(&address);
        running.finish().text();
        expire(&rkat);
        assert!(can_greet(&rkat), "{secret:?}: registered by hand");
        assert!(!login_state(&rkat, &["--live"]).1.contains(CLIENT_SECRET));
    }
}

#[cfg(unix)]
#[test]
fn token_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = OAuthServer::start();
    let rkat = with_server(&server);
    log_in(&rkat);
    let file = token_file(&rkat);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    expire(&rkat);
    assert!(can_greet(&rkat));
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn only_a_rejected_refresh_requires_login() {
    let server = OAuthServer::start();
    let rkat = with_server(&server);
    log_in(&rkat);
    expire(&rkat);
    server.renew(Renewal::Broken);
    assert!(!can_greet(&rkat));
    assert_eq!(login_state(&rkat, &[]).0, json!("ok"), "the tokens are kept");
    server.renew(Renewal::Refused);
    assert_eq!(login_state(&rkat, &["--live"]).0, json!("needs_reauth"));
    assert_eq!(login_state(&rkat, &[]).0, json!("needs_reauth"));
    log_in(&rkat);
    assert!(can_greet(&rkat));
    assert_eq!(login_state(&rkat, &[]).0, json!("ok"));
}

#[test]
fn unfinished_login_times_out() {
    let server = OAuthServer::start();
    let rkat = with_server(&server);
    let timed_out = rkat.args(["mcp", "login", "api", "--timeout", "1"]).run();
    assert!(timed_out.stderr.contains("login timed out after 1 s"), "{timed_out}");
    rkat.args(["mcp", "add", "local", "--", "true"]).run().text();
    let local = rkat.args(["mcp", "login", "local"]).run();
    assert!(local.stderr.contains("there is nothing to log in to"), "{local}");
}

#[test]
fn tokens_are_not_sent_to_another_url() {
    let (server, other) = (OAuthServer::start(), OAuthServer::start());
    let rkat = with_server(&server);
    log_in(&rkat);
    rkat.args(["mcp", "remove", "api"]).run().text();
    rkat.args(["mcp", "add", "api", "--url", &other.url()]).run().text();
    assert_eq!(login_state(&rkat, &[]).0, Value::Null);
    assert!(!can_greet(&rkat));
}

#[test]
fn stray_callback_does_not_end_the_login() {
    let server = OAuthServer::start();
    let rkat = with_server(&server);
    let mut running = rkat.args(["mcp", "login", "api"]).start();
    let address = running.wait_for("/authorize?");
    let redirect = address.split_once("redirect_uri=").unwrap().1.split('&').next().unwrap();
    let redirect = redirect.replace("%3A", ":").replace("%2F", "/");
    for target in ["/favicon.ico", "/callback?code=x&state=forged", "/callback?error=access_denied"] {
        let answer = visit(&redirect, target);
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    OAuthServer::log_in(&address);
    assert_eq!(running.finish().text(), "logged in to api, which has 1 tool\n");
}

#[test]
fn insecure_login_endpoint_is_never_opened() {
    let server = OAuthServer::start();
    let rkat = with_server(&server);
    for url in ["http://login.example/authorize", "file:///etc/passwd"] {
        server.authorize_at(url);
        let output = rkat.args(["mcp", "login", "api"]).run();
        assert_eq!(output.code, Some(2));
        let reason = format!("the authorization endpoint `{url}` is not secure");
        assert!(output.stderr.contains(&reason), "{}", output.stderr);
        assert!(!output.stderr.contains("open this"), "{}", output.stderr);
    }
}

/// Starts a proxy that answers nothing, and returns its URL and the request lines it received.
fn recording_proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&lines);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let _ = BufReader::new(stream).read_line(&mut line);
            received.lock().unwrap().push(line.trim().to_owned());
        }
    });
    (url, lines)
}

#[test]
fn metadata_is_read_from_secure_urls_only() {
    type Name = fn(&OAuthServer, &str);
    let named: [Name; 2] = [OAuthServer::log_in_at, OAuthServer::describe_at];
    for name in named {
        let server = OAuthServer::start();
        let (proxy, requests) = recording_proxy();
        let rkat = with_server(&server);
        let log_in = |url: &str| {
            name(&server, url);
            let login = rkat.args(["mcp", "login", "api"]);
            let output =
                login.env("HTTP_PROXY", &proxy).env("HTTPS_PROXY", &proxy).env("NO_PROXY", "127.0.0.1").run();
            assert_eq!(output.code, Some(2), "{}", output.stderr);
            output.stderr
        };
        let refused = log_in("http://login.example/metadata");
        assert_eq!(*requests.lock().unwrap(), [""; 0]);
        let reason = "the URL `http://login.example";
        assert!(refused.contains(reason) && refused.contains("is not secure"), "{refused}");
        // The same over `https` reaches the proxy, so it would have recorded the other.
        log_in("https://login.example/metadata");
        assert_eq!(requests.lock().unwrap()[0], "CONNECT login.example:443 HTTP/1.1");
    }
}
