//! Session resources: templates, completion, and notifications.

use meerkat_testkit::McpClient;
use serde_json::{Value, json};

use super::support::{TestEnv, UNKNOWN_SESSION, id_of, new_session};

fn uri(session: &str) -> String {
    format!("meerkat://session/{session}")
}

/// Reads a resource and returns its document.
fn read(client: &mut McpClient, uri: &str) -> Value {
    let reply = client.request("resources/read", json!({ "uri": uri }));
    let contents = reply["result"]["contents"].as_array().unwrap_or_else(|| panic!("no contents: {reply}"));
    assert_eq!(contents.len(), 1);
    assert_eq!((&contents[0]["uri"], &contents[0]["mimeType"]), (&json!(uri), &json!("application/json")));
    serde_json::from_str(contents[0]["text"].as_str().expect("a text")).expect("JSON")
}

fn list_page(client: &mut McpClient, params: Value) -> (Vec<String>, Option<String>) {
    let result = client.request("resources/list", params)["result"].clone();
    let uris = result["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["uri"].as_str().unwrap().to_owned());
    let uris = uris.filter(|uri| uri.starts_with("meerkat://"));
    (uris.collect(), result["nextCursor"].as_str().map(str::to_owned))
}

#[test]
fn reads_do_not_create_the_realm() {
    let env = TestEnv::new();
    let mut client = env.server();
    assert_eq!(list_page(&mut client, json!({})), (Vec::new(), None));
    let missing = client.request("resources/read", json!({ "uri": uri(UNKNOWN_SESSION) }));
    assert_eq!(missing["error"]["code"], -32002);
    assert!(!env.state().exists());
}

#[test]
fn session_resource_has_state_and_history() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "say hello");
    let document = read(&mut client, &uri(&session));
    let state = client.expect_tool("meerkat_read", json!({ "session_id": session }));
    let history =
        client.expect_tool("meerkat_history", json!({ "session_id": session, "offset": 0, "limit": 50 }));
    assert_eq!(document, json!({ "session": state, "history": history }));
}

#[test]
fn history_is_read_in_pages() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "say hello");
    let page = read(&mut client, &format!("{}/history?offset=1&limit=1", uri(&session)));
    let arguments = json!({ "session_id": session, "offset": 1, "limit": 1 });
    assert_eq!(page, client.expect_tool("meerkat_history", arguments));
    let full = read(&mut client, &format!("{}/history", uri(&session)));
    assert_eq!(full["messages"].as_array().map(Vec::len), Some(2));
}

#[test]
fn unknown_uri_returns_not_found() {
    let env = TestEnv::new();
    let mut client = env.server();
    new_session(&mut client, "say hello");
    for uri in [uri(UNKNOWN_SESSION), uri("nonsense"), "file:///etc/passwd".to_owned(), String::new()] {
        let reply = client.request("resources/read", json!({ "uri": uri }));
        assert_eq!((&reply["error"]["code"], &reply["error"]["data"]["uri"]), (&json!(-32002), &json!(uri)));
    }
}

#[test]
fn sessions_are_paged_newest_first() {
    let env = TestEnv::new();
    let mut client = env.server();
    let mut created: Vec<_> = (0..52).map(|_| uri(&new_session(&mut client, "say hello"))).collect();
    created.reverse();
    let (mut all, next) = list_page(&mut client, json!({}));
    assert_eq!(all.len(), 50);
    let (rest, end) = list_page(&mut client, json!({ "cursor": next.expect("a second page") }));
    all.extend(rest);
    assert_eq!((all, end), (created.clone(), None));
    assert_eq!(list_page(&mut client, json!({ "cursor": "" })).0.len(), 50);
    for cursor in ["nonsense", "!", "bm9uc2Vuc2U"] {
        let reply = client.request("resources/list", json!({ "cursor": cursor }));
        assert_eq!(reply["error"]["code"], -32602, "{cursor}: {reply}");
    }
    let first = created[0].rsplit_once('/').unwrap().1;
    client.expect_tool("meerkat_archive", json!({ "session_id": first }));
    assert_eq!(list_page(&mut client, json!({})).0[0], created[1]);
}

#[test]
fn ids_are_completed_in_session_templates() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (one, two) = (new_session(&mut client, "say one"), new_session(&mut client, "say two"));
    let templates = client.request("resources/templates/list", json!({}));
    let templates: Vec<_> = templates["result"]["resourceTemplates"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|template| template["uriTemplate"].as_str().unwrap().to_owned())
        .collect();
    let (sessions, others) = templates.split_at(2);
    assert_eq!(sessions, ["meerkat://session/{id}", "meerkat://session/{id}/history{?offset,limit}"]);
    assert_eq!(others, ["skill://{name}/{+path}", "iii://{skill_id}", "iii://{skill_id}/{function_id}"]);
    let templates = sessions;
    let mut complete = |template: &str, value: &str| {
        let argument = json!({ "name": "id", "value": value });
        let arguments = json!({ "ref": { "type": "ref/resource", "uri": template }, "argument": argument });
        client.request("completion/complete", arguments)
    };
    for template in templates {
        let all = complete(template, "");
        assert_eq!(
            all["result"]["completion"],
            json!({ "values": [two, one], "total": 2, "hasMore": false })
        );
    }
    assert_eq!(complete(&templates[0], &one)["result"]["completion"]["values"], json!([one]));
    assert_eq!(complete("file:///{path}", "")["error"]["code"], -32602);
}

#[test]
fn prompts_are_listed_and_unknown_ones_rejected() {
    let env = TestEnv::new();
    let mut client = env.server();
    let listed = client.request("prompts/list", json!({}))["result"]["prompts"].clone();
    let names: Vec<_> = listed.as_array().expect("prompts").iter().map(|prompt| &prompt["name"]).collect();
    assert_eq!(
        names,
        [
            "hook-authoring",
            "mcp-server-setup",
            "meerkat-cli-reference",
            "meerkat-platform",
            "memory-retrieval",
            "session-management"
        ]
    );
    let unknown = client.request("prompts/get", json!({ "name": "nope" }));
    assert_eq!(unknown["error"]["code"], -32602);
}

#[test]
fn new_and_archived_sessions_are_notified() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "say hello");
    let count = |client: &mut McpClient| {
        client.request("ping", json!({}));
        let notices = client.notifications().iter();
        notices.filter(|notice| notice["method"] == "notifications/resources/list_changed").count()
    };
    meerkat_testkit::eventually("the new session is notified", || count(&mut client) == 1);
    client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say more" }));
    client.expect_tool("meerkat_archive", json!({ "session_id": session }));
    meerkat_testkit::eventually("the archived session is notified", || count(&mut client) == 2);
}

/// Returns the URIs of all update notifications so far.
fn updated(client: &mut McpClient) -> Vec<String> {
    client.request("ping", json!({}));
    let updates = client.notifications().iter();
    let updates = updates.filter(|notice| notice["method"] == "notifications/resources/updated");
    updates.map(|notice| notice["params"]["uri"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn history_page_watchers_are_notified() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (watched, other) = (new_session(&mut client, "say one"), new_session(&mut client, "say two"));
    let pages = ["/history", "/history?offset=2", "/history?limit=3&offset=7"];
    let pages: Vec<_> = pages.iter().map(|page| format!("{}{page}", uri(&watched))).collect();
    for page in &pages {
        assert_eq!(client.request("resources/subscribe", json!({ "uri": page }))["result"], json!({}));
    }
    for session in [&other, &watched] {
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say more" }));
    }
    meerkat_testkit::eventually("every page is notified", || {
        let uris = updated(&mut client);
        pages.iter().all(|page| uris.contains(page))
    });
    assert!(updated(&mut client).iter().all(|uri| pages.contains(uri)));
}

#[test]
fn archiving_notifies_session_watchers() {
    let env = TestEnv::new();
    let mut client = env.server();
    let session = new_session(&mut client, "say one");
    client.request("resources/subscribe", json!({ "uri": uri(&session) }));
    let before = updated(&mut client).len();
    client.expect_tool("meerkat_archive", json!({ "session_id": session }));
    meerkat_testkit::eventually("the archived session is notified", || updated(&mut client).len() > before);
    assert_eq!(read(&mut client, &uri(&session))["session"]["state"]["archived"], true);
}

#[test]
fn end_of_run_notifies_session_watchers() {
    let env = TestEnv::new();
    let mut client = env.server();
    let (watched, other) = (new_session(&mut client, "say one"), new_session(&mut client, "say two"));
    assert_eq!(client.request("resources/subscribe", json!({ "uri": uri(&watched) }))["result"], json!({}));
    for session in [&other, &watched] {
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say more" }));
    }
    let updated_uris = |client: &mut McpClient| {
        client.request("ping", json!({}));
        let updates = client.notifications().iter();
        let updates = updates.filter(|notice| notice["method"] == "notifications/resources/updated");
        updates.map(|notice| notice["params"]["uri"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    meerkat_testkit::eventually("the end of the run is notified", || !updated_uris(&mut client).is_empty());
    assert!(
        updated_uris(&mut client).iter().all(|updated| *updated == uri(&watched)),
        "{:?}",
        updated_uris(&mut client)
    );
    client.request("resources/unsubscribe", json!({ "uri": uri(&watched) }));
    let before = updated_uris(&mut client).len();
    let payload =
        client.expect_tool("meerkat_resume", json!({ "session_id": watched, "prompt": "say more" }));
    assert_eq!(id_of(&payload), watched);
    assert_eq!(updated_uris(&mut client).len(), before);
}
