//! Sessions as resources, and what belongs to them: templates, completion, notices.

use meerkat_testkit::McpClient;
use serde_json::{Value, json};

use crate::support::{Place, UNKNOWN_SESSION, id_of, new_session};

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

fn listed(client: &mut McpClient, params: Value) -> (Vec<String>, Option<String>) {
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
fn looking_at_nothing_makes_nothing() {
    let place = Place::new();
    let mut client = place.server();
    assert_eq!(listed(&mut client, json!({})), (Vec::new(), None));
    let missing = client.request("resources/read", json!({ "uri": uri(UNKNOWN_SESSION) }));
    assert_eq!(missing["error"]["code"], -32002);
    assert!(!place.state().exists());
}

#[test]
fn a_session_reads_as_its_state_and_the_start_of_its_history() {
    let place = Place::new();
    let mut client = place.server();
    let session = new_session(&mut client, "say hello");
    let document = read(&mut client, &uri(&session));
    let state = client.expect_tool("meerkat_read", json!({ "session_id": session }));
    let history =
        client.expect_tool("meerkat_history", json!({ "session_id": session, "offset": 0, "limit": 50 }));
    assert_eq!(document, json!({ "session": state, "history": history }));
}

#[test]
fn a_history_reads_in_pages() {
    let place = Place::new();
    let mut client = place.server();
    let session = new_session(&mut client, "say hello");
    let page = read(&mut client, &format!("{}/history?offset=1&limit=1", uri(&session)));
    let asked = json!({ "session_id": session, "offset": 1, "limit": 1 });
    assert_eq!(page, client.expect_tool("meerkat_history", asked));
    let whole = read(&mut client, &format!("{}/history", uri(&session)));
    assert_eq!(whole["messages"].as_array().map(Vec::len), Some(2));
}

#[test]
fn what_is_not_there_is_not_found_by_its_uri() {
    let place = Place::new();
    let mut client = place.server();
    new_session(&mut client, "say hello");
    for uri in [uri(UNKNOWN_SESSION), uri("nonsense"), "file:///etc/passwd".to_owned(), String::new()] {
        let reply = client.request("resources/read", json!({ "uri": uri }));
        assert_eq!((&reply["error"]["code"], &reply["error"]["data"]["uri"]), (&json!(-32002), &json!(uri)));
    }
}

#[test]
fn sessions_are_listed_in_pages_with_the_newest_first() {
    let place = Place::new();
    let mut client = place.server();
    let mut made: Vec<_> = (0..52).map(|_| uri(&new_session(&mut client, "say hello"))).collect();
    made.reverse();
    let (mut all, next) = listed(&mut client, json!({}));
    assert_eq!(all.len(), 50);
    let (rest, end) = listed(&mut client, json!({ "cursor": next.expect("a second page") }));
    all.extend(rest);
    assert_eq!((all, end), (made.clone(), None));
    assert_eq!(listed(&mut client, json!({ "cursor": "" })).0.len(), 50);
    for cursor in ["nonsense", "!", "bm9uc2Vuc2U"] {
        let reply = client.request("resources/list", json!({ "cursor": cursor }));
        assert_eq!(reply["error"]["code"], -32602, "{cursor}: {reply}");
    }
    let first = made[0].rsplit_once('/').unwrap().1;
    client.expect_tool("meerkat_archive", json!({ "session_id": first }));
    assert_eq!(listed(&mut client, json!({})).0[0], made[1]);
}

#[test]
fn ids_are_completed_in_our_templates() {
    let place = Place::new();
    let mut client = place.server();
    let (one, two) = (new_session(&mut client, "say one"), new_session(&mut client, "say two"));
    let templates = client.request("resources/templates/list", json!({}));
    let templates: Vec<_> = templates["result"]["resourceTemplates"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|template| template["uriTemplate"].as_str().unwrap().to_owned())
        .collect();
    let (ours, skills) = templates.split_at(2);
    assert_eq!(ours, ["meerkat://session/{id}", "meerkat://session/{id}/history{?offset,limit}"]);
    assert_eq!(skills, ["skill://{name}/{+path}", "iii://{skill_id}", "iii://{skill_id}/{function_id}"]);
    let templates = ours;
    let mut complete = |template: &str, value: &str| {
        let argument = json!({ "name": "id", "value": value });
        let asked = json!({ "ref": { "type": "ref/resource", "uri": template }, "argument": argument });
        client.request("completion/complete", asked)
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
fn prompts_are_listed_and_unknown_ones_refused() {
    let place = Place::new();
    let mut client = place.server();
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
fn a_new_session_and_an_archived_one_are_told() {
    let place = Place::new();
    let mut client = place.server();
    let session = new_session(&mut client, "say hello");
    let count = |client: &mut McpClient| {
        client.request("ping", json!({}));
        let told = client.notifications().iter();
        told.filter(|notice| notice["method"] == "notifications/resources/list_changed").count()
    };
    crate::support::eventually("the new session is told", || count(&mut client) == 1);
    client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say more" }));
    client.expect_tool("meerkat_archive", json!({ "session_id": session }));
    crate::support::eventually("the archived session is told", || count(&mut client) == 2);
}

/// The URIs that were told to read differently so far.
fn updated(client: &mut McpClient) -> Vec<String> {
    client.request("ping", json!({}));
    let updates = client.notifications().iter();
    let updates = updates.filter(|notice| notice["method"] == "notifications/resources/updated");
    updates.map(|notice| notice["params"]["uri"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn who_watches_a_page_of_a_history_is_told_when_it_may_read_differently() {
    let place = Place::new();
    let mut client = place.server();
    let (watched, other) = (new_session(&mut client, "say one"), new_session(&mut client, "say two"));
    let pages = ["/history", "/history?offset=2", "/history?limit=3&offset=7"];
    let pages: Vec<_> = pages.iter().map(|page| format!("{}{page}", uri(&watched))).collect();
    for page in &pages {
        assert_eq!(client.request("resources/subscribe", json!({ "uri": page }))["result"], json!({}));
    }
    for session in [&other, &watched] {
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say more" }));
    }
    crate::support::eventually("every page is told", || {
        let told = updated(&mut client);
        pages.iter().all(|page| told.contains(page))
    });
    assert!(updated(&mut client).iter().all(|told| pages.contains(told)));
}

#[test]
fn who_watches_a_session_is_told_that_it_is_archived() {
    let place = Place::new();
    let mut client = place.server();
    let session = new_session(&mut client, "say one");
    client.request("resources/subscribe", json!({ "uri": uri(&session) }));
    let before = updated(&mut client).len();
    client.expect_tool("meerkat_archive", json!({ "session_id": session }));
    crate::support::eventually("the archived session is told", || updated(&mut client).len() > before);
    assert_eq!(read(&mut client, &uri(&session))["session"]["state"]["archived"], true);
}

#[test]
fn who_watches_a_session_is_told_when_its_run_ends() {
    let place = Place::new();
    let mut client = place.server();
    let (watched, other) = (new_session(&mut client, "say one"), new_session(&mut client, "say two"));
    assert_eq!(client.request("resources/subscribe", json!({ "uri": uri(&watched) }))["result"], json!({}));
    for session in [&other, &watched] {
        client.expect_tool("meerkat_resume", json!({ "session_id": session, "prompt": "say more" }));
    }
    let told = |client: &mut McpClient| {
        client.request("ping", json!({}));
        let updates = client.notifications().iter();
        let updates = updates.filter(|notice| notice["method"] == "notifications/resources/updated");
        updates.map(|notice| notice["params"]["uri"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    crate::support::eventually("the run's end is told", || !told(&mut client).is_empty());
    assert!(told(&mut client).iter().all(|told| *told == uri(&watched)), "{:?}", told(&mut client));
    client.request("resources/unsubscribe", json!({ "uri": uri(&watched) }));
    let before = told(&mut client).len();
    let payload =
        client.expect_tool("meerkat_resume", json!({ "session_id": watched, "prompt": "say more" }));
    assert_eq!(id_of(&payload), watched);
    assert_eq!(told(&mut client).len(), before);
}
