//! Admission of connections, and the rights of connections under access rules.

use std::sync::Arc;

use meerkat_hub::{Access, Client, ClientOptions, Limits, LocalFunction, Rbac};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::store::MemoryStore;
use crate::support::{Raw, TestHub, serve_with};

fn served(access: Access) -> TestHub {
    serve_with(Arc::new(MemoryStore::default()), Limits::default(), access, "127.0.0.1:0")
}

/// Requests a WebSocket with these headers; returns the status of the response.
async fn knock(served: &TestHub, headers: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(&served.address).await.unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n",
        served.address
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[9..]).into_owned()
}

#[tokio::test]
async fn pages_connect_only_from_allowed_origins() {
    let origins = vec!["http://localhost:5173".to_owned()];
    let served = served(Access { origins, ..Access::default() });
    for (origin, status) in [
        ("http://localhost:5173", "101"),
        ("http://localhost:3000", "403"),
        ("http://127.0.0.1:5173", "403"),
        ("https://evil.example", "403"),
        ("null", "403"),
    ] {
        assert_eq!(knock(&served, &format!("Origin: {origin}\r\n")).await, status, "{origin}");
    }
    assert_eq!(knock(&served, "").await, "101");
    let two = "Origin: http://localhost:5173\r\nOrigin: https://evil.example\r\n";
    assert_eq!(knock(&served, two).await, "403");
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn same_user_is_admitted_without_a_token() {
    let token = Some("secret".to_owned());
    let lenient = served(Access { token: token.clone(), admit_same_user: true, ..Access::default() });
    assert_eq!(knock(&lenient, "").await, "101");
    let client =
        ClientOptions { url: format!("ws://{}", lenient.address), token: None, name: "worker".to_owned() };
    assert!(Client::connect(client).await.is_ok());
    // A proxy of the user may forward external requests.
    assert_eq!(knock(&lenient, "X-Forwarded-For: 192.0.2.1\r\n").await, "401");
    assert_eq!(
        knock(&lenient, "X-Forwarded-For: 192.0.2.1\r\nAuthorization: Bearer secret\r\n").await,
        "101"
    );
    let strict = served(Access { token, ..Access::default() });
    assert_eq!(knock(&strict, "").await, "401");
    assert_eq!(knock(&strict, "Authorization: Bearer secret\r\n").await, "101");
}

fn rules(value: Value) -> Access {
    Access { rbac: Some(serde_json::from_value::<Rbac>(value).unwrap()), ..Access::default() }
}

#[tokio::test]
async fn reserved_scopes_are_closed_to_guests() {
    let served = served(rules(json!({ "expose_functions": ["state::*"] })));
    served.hub.reserve_scopes(|| Box::pin(async { vec!["skills".to_owned()] }));
    let mut guest = served.raw().await;
    let ops = json!([{ "type": "set", "path": "", "value": 1 }]);
    for (function, scope, allowed) in [
        ("state::set", "own", true),
        ("state::set", "skills", false),
        ("state::update", "skills", false),
        ("state::delete", "skills", false),
        ("state::get", "skills", true),
        ("state::list", "skills", true),
        ("state::get", "iii::queue", false),
        ("state::list", "iii::queue", false),
        ("state::set", "iii::queue", false),
    ] {
        let input = json!({ "scope": scope, "key": "k", "value": 1, "ops": ops });
        let answer = guest.call(function, input).await;
        assert_eq!(answer["error"]["code"] != "FORBIDDEN", allowed, "{function} {scope}: {answer}");
    }
}

#[tokio::test]
async fn handlers_know_the_rights_of_their_callers() {
    let access = rules(json!({ "auth_function_id": "auth", "expose_functions": ["who", "open"] }));
    let served = served(access);
    let auth =
        async |call: meerkat_hub::Invocation| Ok(json!({ "owner": call.data["query_params"]["owner"][0] }));
    served.hub.register(LocalFunction::new("auth", auth)).unwrap();
    let who = async |call: meerkat_hub::Invocation| {
        let Some(guarded) = call.guarded else { return Ok(Value::Null) };
        let of_the_same_kind = guarded.may_replace(call.data["owner"].as_str().unwrap_or_default());
        Ok(json!([guarded.owner(), of_the_same_kind, guarded.may_use("open"), guarded.may_use("closed")]))
    };
    served.hub.register(LocalFunction::new("who", who)).unwrap();
    assert_eq!(served.hub.call("who", &json!({}), crate::support::TIMEOUT).await, Ok(Value::Null));

    let mut named = Raw::open(&served.address, "/?owner=ada").await.unwrap();
    let answer = named.call("who", json!({ "owner": "ada" })).await;
    assert_eq!(answer["result"], json!(["ada", true, true, false]));
    assert_eq!(named.call("who", json!({ "owner": "bob" })).await["result"][1], false);

    // Without an owner name, the entries of a connection belong to it until it ends.
    let mut first = Raw::open(&served.address, "/").await.unwrap();
    let mut second = Raw::open(&served.address, "/").await.unwrap();
    let owner = first.call("who", json!({})).await["result"][0].clone();
    assert_eq!(first.call("who", json!({ "owner": owner })).await["result"][1], true);
    assert_eq!(second.call("who", json!({ "owner": owner })).await["result"][1], false);
    drop(first);
    while second.call("who", json!({ "owner": owner })).await["result"][1] != true {
        tokio::task::yield_now().await;
    }
}
