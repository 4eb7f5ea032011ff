//! Web pages in a browser: preflight requests, and what pages may read.

use meerkat_testkit::web::Reply;
use serde_json::json;

use super::support::TestEnv;
use super::web::Web;

const PAGE: &str = "https://app.example.com";

/// Returns the headers that a browser checks.
fn cors_headers(reply: &Reply) -> [Option<&str>; 3] {
    ["access-control-allow-origin", "access-control-expose-headers", "vary"].map(|name| reply.header(name))
}

fn web(env: &TestEnv) -> Web {
    let file = env.path("token");
    std::fs::write(&file, "s3cret").unwrap();
    Web::start_with(env, &["--allow-origin", PAGE, "--token-file", file.to_str().unwrap()])
}

#[test]
fn preflight_needs_no_token() {
    let env = TestEnv::new();
    let web = web(&env);
    let preflight = [
        ("origin", PAGE),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,mcp-param-region"),
    ];
    let reply = web.send("OPTIONS", "/mcp", &preflight, b"");
    assert_eq!((reply.status, reply.body.as_str()), (204, ""));
    assert_eq!(cors_headers(&reply)[0], Some(PAGE));
    assert_eq!(cors_headers(&reply)[2], Some("origin"));
    assert_eq!(reply.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
    assert_eq!(
        reply.header("access-control-allow-headers"),
        Some("authorization,content-type,mcp-param-region")
    );
    assert_eq!(reply.header("access-control-max-age"), Some("600"));
    let plain = web.send("OPTIONS", "/mcp", &preflight[..2], b"");
    let headers = plain.header("access-control-allow-headers").unwrap_or_default();
    for name in ["authorization", "content-type", "last-event-id", "mcp-session-id", "mcp-protocol-version"] {
        assert!(headers.contains(name), "no {name} in {headers}");
    }
    // A request that is not a preflight needs the token.
    assert_eq!(web.send("OPTIONS", "/mcp", &[("origin", PAGE)], b"").status, 401);
}

#[test]
fn allowed_page_can_read_responses_and_errors() {
    let env = TestEnv::new();
    let web = web(&env);
    let token = ("authorization", "Bearer s3cret");
    let hello = super::support::hello("2025-11-25");
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    let exposed = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after";
    for (headers, status) in [
        (vec![("origin", PAGE), token], 200),
        (vec![("origin", PAGE)], 401),
        (vec![("origin", PAGE), token, ("mcp-session-id", "unknown")], 404),
    ] {
        let is_first = status != 404;
        let message =
            if is_first { message.clone() } else { json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }) };
        let reply = web.post(&headers, &message);
        assert_eq!(reply.status, status, "{reply:?}");
        assert_eq!(cors_headers(&reply), [Some(PAGE), Some(exposed), Some("origin")], "{reply:?}");
    }
    let own = format!("http://{}", web.address());
    let reply = web.send("GET", "/", &[("origin", &own)], b"");
    assert_eq!((reply.status, cors_headers(&reply)[0]), (200, Some(own.as_str())));
}

#[test]
fn other_clients_get_no_cors_headers() {
    let env = TestEnv::new();
    let web = web(&env);
    for origin in ["https://evil.example.com", "http://localhost:3000", "http://127.0.0.1"] {
        let preflight = [("origin", origin), ("access-control-request-method", "POST")];
        let rejected = web.send("OPTIONS", "/mcp", &preflight, b"");
        assert_eq!((rejected.status, cors_headers(&rejected)[0]), (403, None), "{origin}");
    }
    let reply = web.send("GET", "/", &[], b"");
    assert_eq!((reply.status, cors_headers(&reply)), (200, [None, None, Some("origin")]));
}
