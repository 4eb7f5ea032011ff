//! Logins at MCP servers: asked for, kept, renewed, refused and forgotten.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::oauth::{CLIENT_SECRET, Guarded, Renewal, Secret, visit};
use crate::support::Rkat;

fn added(server: &Guarded) -> Rkat {
    let rkat = Rkat::new();
    rkat.args(["mcp", "add", "api", "--url", &server.url()]).run().text();
    rkat
}

fn log_in(rkat: &Rkat) -> String {
    let mut running = rkat.args(["mcp", "login", "api"]).start();
    let address = running.wait_for("/authorize?");
    Guarded::log_in(&address);
    running.finish().text().to_owned()
}

/// The state of the login as the list has it.
fn listed(rkat: &Rkat, live: &[&str]) -> (Value, String) {
    let output = rkat.args(["mcp", "list", "--json"].into_iter().chain(live.iter().copied())).run();
    (output.json()["servers"][0]["login"].clone(), output.stdout)
}

fn token_file(rkat: &Rkat) -> PathBuf {
    let folder = rkat.home().join(".rkat/mcp-tokens");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// Makes the tokens that are kept old.
fn expire(rkat: &Rkat) {
    let path = token_file(rkat);
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    kept["credentials"]["token_received_at"] = json!(1);
    fs::write(&path, kept.to_string()).unwrap();
}

const GREET: [&str; 6] =
    ["run", "--wait-for-mcp", "--json", "-m", "offline", "call api__greet {}\nthen\nsay done"];

fn greeted(rkat: &Rkat) -> bool {
    let done = rkat.args(GREET).run().json();
    let session = done["session_id"].as_str().unwrap().to_owned();
    rkat.args(["session", "show", &session, "--json"]).run().stdout.contains("hello from behind the door")
}

#[test]
fn a_login_is_kept_renewed_and_forgotten() {
    let server = Guarded::start();
    let rkat = added(&server);
    assert!(!greeted(&rkat), "without a login there is nothing to call");
    assert_eq!(listed(&rkat, &[]).0, Value::Null);
    assert_eq!(listed(&rkat, &["--live"]).0, json!("needs_reauth"));
    assert_eq!(log_in(&rkat), "logged in to api, which has 1 tool\n");
    assert_eq!(listed(&rkat, &[]).0, json!("ok"));
    assert!(greeted(&rkat));
    expire(&rkat);
    assert!(greeted(&rkat));
    let (state, shown) = listed(&rkat, &[]);
    assert_eq!((state, server.issued()), (json!("refreshed"), 2));
    assert!(!shown.contains("access-") && !shown.contains("refresh-"), "{shown}");
    assert_eq!(rkat.args(["mcp", "login", "api"]).run().text(), "api needs no login now\n");
    assert_eq!(rkat.args(["mcp", "logout", "api"]).run().text(), "forgot the login at api\n");
    assert_eq!(listed(&rkat, &[]).0, Value::Null);
    assert!(!greeted(&rkat));
}

#[test]
fn a_client_with_a_secret_renews_its_tokens_too() {
    for secret in [Secret::Basic, Secret::Post] {
        let server = Guarded::with_secret(secret);
        let rkat = added(&server);
        assert_eq!(log_in(&rkat), "logged in to api, which has 1 tool\n", "{secret:?}");
        expire(&rkat);
        assert!(greeted(&rkat), "{secret:?}");
        expire(&rkat);
        assert!(greeted(&rkat), "{secret:?}: once more");
        assert_eq!(server.issued(), 3);

        // A client that the user registered; its secret is not needed again after the login.
        let server = Guarded::with_secret(secret);
        let rkat = added(&server);
        let login = rkat.args(["mcp", "login", "api", "--client-id", "the-client"]);
        let mut running = login.env("RKAT_MCP_CLIENT_SECRET", CLIENT_SECRET).start();
        let address = running.wait_for("/authorize?");
        Guarded::log_in(&address);
        running.finish().text();
        expire(&rkat);
        assert!(greeted(&rkat), "{secret:?}: registered by hand");
        assert!(!listed(&rkat, &["--live"]).1.contains(CLIENT_SECRET));
    }
}

#[cfg(unix)]
#[test]
fn tokens_are_for_the_users_eyes_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = Guarded::start();
    let rkat = added(&server);
    log_in(&rkat);
    let file = token_file(&rkat);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    expire(&rkat);
    assert!(greeted(&rkat));
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn a_renewal_that_is_refused_asks_for_the_user_and_one_that_fails_costs_nothing() {
    let server = Guarded::start();
    let rkat = added(&server);
    log_in(&rkat);
    expire(&rkat);
    server.renew(Renewal::Broken);
    assert!(!greeted(&rkat));
    assert_eq!(listed(&rkat, &[]).0, json!("ok"), "the tokens are kept");
    server.renew(Renewal::Refused);
    assert_eq!(listed(&rkat, &["--live"]).0, json!("needs_reauth"));
    assert_eq!(listed(&rkat, &[]).0, json!("needs_reauth"));
    log_in(&rkat);
    assert!(greeted(&rkat));
    assert_eq!(listed(&rkat, &[]).0, json!("ok"));
}

#[test]
fn a_login_nobody_comes_to_ends_by_itself() {
    let server = Guarded::start();
    let rkat = added(&server);
    let waited = rkat.args(["mcp", "login", "api", "--timeout", "1"]).run();
    assert!(waited.stderr.contains("nobody logged in within 1 s"), "{waited}");
    rkat.args(["mcp", "add", "local", "--", "true"]).run().text();
    let local = rkat.args(["mcp", "login", "local"]).run();
    assert!(local.stderr.contains("there is nothing to log in to"), "{local}");
}

#[test]
fn tokens_do_not_go_to_another_address_of_the_same_name() {
    let (server, other) = (Guarded::start(), Guarded::start());
    let rkat = added(&server);
    log_in(&rkat);
    rkat.args(["mcp", "remove", "api"]).run().text();
    rkat.args(["mcp", "add", "api", "--url", &other.url()]).run().text();
    assert_eq!(listed(&rkat, &[]).0, Value::Null);
    assert!(!greeted(&rkat));
}

#[test]
fn stray_callback_does_not_end_the_login() {
    let server = Guarded::start();
    let rkat = added(&server);
    let mut running = rkat.args(["mcp", "login", "api"]).start();
    let address = running.wait_for("/authorize?");
    let back = address.split_once("redirect_uri=").unwrap().1.split('&').next().unwrap();
    let back = back.replace("%3A", ":").replace("%2F", "/");
    for target in ["/favicon.ico", "/callback?code=x&state=forged", "/callback?error=access_denied"] {
        let answer = visit(&back, target);
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    Guarded::log_in(&address);
    assert_eq!(running.finish().text(), "logged in to api, which has 1 tool\n");
}

#[test]
fn insecure_login_endpoint_is_never_opened() {
    let server = Guarded::start();
    let rkat = added(&server);
    for url in ["http://login.example/authorize", "file:///etc/passwd"] {
        server.authorize_at(url);
        let output = rkat.args(["mcp", "login", "api"]).run();
        assert_eq!(output.code, Some(2));
        let reason = format!("the authorization endpoint `{url}` is not secure");
        assert!(output.stderr.contains(&reason), "{}", output.stderr);
        assert!(!output.stderr.contains("open this"), "{}", output.stderr);
    }
}
