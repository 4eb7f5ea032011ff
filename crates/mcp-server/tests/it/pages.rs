//! Pages in a browser: what it asks before it lets them talk to the server, and what they may read.

use serde_json::json;

use crate::support::Place;
use crate::web::{Reply, Web};

const PAGE: &str = "https://app.example.com";

/// What a browser looks at.
fn allowed(reply: &Reply) -> [Option<&str>; 3] {
    ["access-control-allow-origin", "access-control-expose-headers", "vary"].map(|name| reply.header(name))
}

fn web(place: &Place) -> Web {
    let file = place.beside("token");
    std::fs::write(&file, "s3cret").unwrap();
    Web::start_with(place, &["--allow-origin", PAGE, "--token-file", file.to_str().unwrap()])
}

#[test]
fn a_browser_that_asks_first_is_answered_without_a_token() {
    let place = Place::new();
    let web = web(&place);
    let asked = [
        ("origin", PAGE),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,mcp-param-region"),
    ];
    let reply = web.send("OPTIONS", "/mcp", &asked, b"");
    assert_eq!((reply.status, reply.body.as_str()), (204, ""));
    assert_eq!(allowed(&reply)[0], Some(PAGE));
    assert_eq!(allowed(&reply)[2], Some("origin"));
    assert_eq!(reply.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
    assert_eq!(
        reply.header("access-control-allow-headers"),
        Some("authorization,content-type,mcp-param-region")
    );
    assert_eq!(reply.header("access-control-max-age"), Some("600"));
    let plain = web.send("OPTIONS", "/mcp", &asked[..2], b"");
    let headers = plain.header("access-control-allow-headers").unwrap_or_default();
    for name in ["authorization", "content-type", "last-event-id", "mcp-session-id", "mcp-protocol-version"] {
        assert!(headers.contains(name), "no {name} in {headers}");
    }
    // Whoever does not ask as a browser does needs the token.
    assert_eq!(web.send("OPTIONS", "/mcp", &[("origin", PAGE)], b"").status, 401);
}

#[test]
fn a_page_that_is_let_in_may_read_answers_and_errors() {
    let place = Place::new();
    let web = web(&place);
    let token = ("authorization", "Bearer s3cret");
    let hello = crate::support::hello("2025-11-25");
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    let exposed = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after";
    for (headers, status) in [
        (vec![("origin", PAGE), token], 200),
        (vec![("origin", PAGE)], 401),
        (vec![("origin", PAGE), token, ("mcp-session-id", "nobody")], 404),
    ] {
        let is_first = status != 404;
        let message =
            if is_first { message.clone() } else { json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }) };
        let reply = web.post(&headers, &message);
        assert_eq!(reply.status, status, "{reply:?}");
        assert_eq!(allowed(&reply), [Some(PAGE), Some(exposed), Some("origin")], "{reply:?}");
    }
    let own = format!("http://{}", web.address());
    let reply = web.send("GET", "/", &[("origin", &own)], b"");
    assert_eq!((reply.status, allowed(&reply)[0]), (200, Some(own.as_str())));
}

#[test]
fn other_pages_and_other_clients_are_told_nothing_of_it() {
    let place = Place::new();
    let web = web(&place);
    for origin in ["https://evil.example.com", "http://localhost:3000", "http://127.0.0.1"] {
        let asked = [("origin", origin), ("access-control-request-method", "POST")];
        let refused = web.send("OPTIONS", "/mcp", &asked, b"");
        assert_eq!((refused.status, allowed(&refused)[0]), (403, None), "{origin}");
    }
    let reply = web.send("GET", "/", &[], b"");
    assert_eq!((reply.status, allowed(&reply)), (200, [None, None, Some("origin")]));
}
