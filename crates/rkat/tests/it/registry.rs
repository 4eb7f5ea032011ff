//! `rkat registry` and `rkat hub`.

use serde_json::json;

use crate::support::Rkat;

#[test]
fn registered_entries_are_listed_shown_and_removed() {
    let rkat = Rkat::new();
    std::fs::write(rkat.work().join("demo.md"), "# Demo\n\nA demo.\n").unwrap();
    let registered = rkat.args(["registry", "register", "skill", "demo", "demo.md"]).run();
    assert_eq!((registered.stdout.as_str(), registered.stderr.as_str()), ("iii://demo\n", ""));
    let piped = rkat.args(["registry", "register", "skill", "other", "-", "--json"]).stdin("Other.").run();
    assert_eq!(piped.json()["id"], "other");
    let prompt = [
        "registry",
        "register",
        "prompt",
        "greet",
        "--description",
        "Greets.",
        "--function",
        "demo::greet",
        "--argument",
        "how",
        "--required",
        "name=Who to greet",
    ];
    assert_eq!(rkat.args(prompt).run().stdout, "greet\n");

    let listed = rkat.args(["registry", "list"]).run().stdout;
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["KIND", "NAME", "FUNCTION", "DESCRIPTION"]);
    assert_eq!(lines[1], ["skill", "demo", "A", "demo."]);
    assert_eq!(lines[3], ["prompt", "greet", "demo::greet", "Greets."]);
    let listed = rkat.args(["registry", "list", "--json"]).run().json();
    assert_eq!((&listed["skills"][0]["title"], &listed["skills"][1]["bytes"]), (&json!("Demo"), &json!(6)));
    let arguments = json!([
        { "name": "name", "description": "Who to greet", "required": true },
        { "name": "how", "required": false },
    ]);
    assert_eq!(listed["prompts"][0]["arguments"], arguments);

    assert_eq!(rkat.args(["registry", "show", "demo"]).run().stdout, "# Demo\n\nA demo.\n");
    let index = rkat.args(["registry", "show", "iii://skills"]).run().stdout;
    assert!(index.ends_with("- [`other`](iii://other) — other — Other.\n"), "{index}");
    let output = rkat.args(["registry", "show", "greet"]).run().stdout;
    let expected =
        "/greet\nGreets.\n  name (required): Who to greet\n  how (optional)\nrendered by demo::greet, ";
    assert!(output.starts_with(expected), "{output}");
    let called = rkat.args(["registry", "call", "skills::unregister", r#"{"id": "other"}"#]).run().json();
    assert_eq!(called, json!({ "id": "other", "removed": true }));

    let skills = rkat.args(["skill", "list", "--json"]).run().json();
    let demo = skills["skills"].as_array().unwrap().iter().find(|skill| skill["name"] == "demo");
    assert_eq!(demo.unwrap()["source"]["display_name"], "registry");

    assert_eq!(rkat.args(["registry", "unregister", "skill", "demo"]).run().code, Some(0));
    let again = rkat.args(["registry", "unregister", "skill", "demo"]).run();
    assert_eq!(again.code, Some(1));
    assert_eq!(
        again.stderr,
        "error: no skill `demo` is registered; `rkat registry list` shows all entries\n"
    );
}

#[test]
fn invalid_registry_commands_explain_the_error() {
    let rkat = Rkat::new();
    for (args, expected) in [
        (vec!["registry", "show", "none"], "Skill not found: none"),
        (vec!["registry", "show", "none", "--prompt"], "Prompt not found: none"),
        (vec!["registry", "show", "iii://a/b/c"], "more than one path segment"),
        (
            vec!["registry", "call", "demo::guide"],
            "no hub is running in this realm; start one with `rkat hub`",
        ),
        (vec!["registry", "call", "demo::guide", "{"], "the input is not JSON"),
        (vec!["registry", "register", "skill", "demo", "none.md"], "cannot read the skill from `none.md`"),
        (vec!["registry", "unregister", "prompt", "A"], "name may only contain lowercase ASCII letters"),
    ] {
        let done = rkat.args(args.clone()).run();
        assert_ne!(done.code, Some(0), "{args:?}");
        assert!(done.stdout.is_empty() && done.stderr.contains(expected), "{args:?}: {}", done.stderr);
    }
    let failed = rkat.args(["registry", "call", "demo::guide", "--json"]).run();
    assert!(failed.stderr.contains("CAPABILITY_UNAVAILABLE"), "{}", failed.stderr);
}

#[test]
fn second_hub_does_not_replace_the_first() {
    let rkat = Rkat::new();
    let mut hub = rkat.args(["hub", "--listen", "127.0.0.1:0"]).start();
    let url = address(&hub.wait_for("hub listening on "));
    let second = rkat.args(["hub", "--listen", "127.0.0.1:0"]).run();
    let expected = format!("error: the realm already has a hub at `{url}` (pid ");
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.starts_with(&expected), "{}", second.stderr);
    let mut server = rkat.args(["serve", "--listen", "127.0.0.1:0", "--hub", "127.0.0.1:0"]).start();
    server.wait_for(&format!("warning: hub not started: the realm already has one at {url} (pid "));
    server.wait_for("listening on http://");
    assert_eq!(rkat.args(["hub", "status", "--json"]).run().json()["url"], json!(url));
    for running in [server, hub] {
        running.signal("TERM");
        running.finish();
    }
    let mut next = rkat.args(["hub", "--listen", "127.0.0.1:0"]).start();
    next.wait_for("hub listening on ");
    next.signal("TERM");
    assert_eq!(next.finish().code, Some(0));
}

#[test]
fn guarded_address_enforces_rules() {
    let rkat = Rkat::new();
    let guarded = ["hub", "--listen", "127.0.0.1:0", "--guarded", "127.0.0.1:0", "--rbac", "rules.json"];
    for wrong in ["[]", "{", r#"{"expose_function": []}"#] {
        std::fs::write(rkat.work().join("rules.json"), wrong).unwrap();
        let rejected = rkat.args(guarded).run();
        assert!(rejected.stderr.contains("invalid rules in `rules.json`"), "{}", rejected.stderr);
    }
    let rules = json!({ "expose_functions": ["engine::workers::*"] });
    std::fs::write(rkat.work().join("rules.json"), rules.to_string()).unwrap();
    let mut hub = rkat.args(guarded).start();
    let open = address(&hub.wait_for("hub listening on "));
    let closed = address(&hub.wait_for("guarded hub listening on "));
    assert_eq!(rkat.args(["hub", "status", "--url", &open]).run().code, Some(0));
    let rejected = rkat.args(["hub", "status", "--url", &closed]).run();
    let expected = format!(
        "error: cannot query the hub at `{closed}`: remote error (FORBIDDEN): \
         function 'engine::functions::list' not allowed (add to rbac.expose_functions) [INVALID_PARAMS]\n"
    );
    assert_eq!(rejected.stderr, expected);
    hub.signal("TERM");
    hub.finish();
}

#[test]
#[cfg(target_os = "linux")]
fn hub_keeps_its_token_in_a_private_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let rkat = Rkat::new();
    let state = rkat.work().join("state");
    let hub = ["hub", "--listen", "127.0.0.1:0", "--realm", "team", "--state-root", state.to_str().unwrap()];
    let read = || {
        let path = state.join("team/token");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        (mode, std::fs::read_to_string(path).unwrap())
    };
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut running = rkat.args(hub).start();
        let url = address(&running.wait_for("hub listening on "));
        running.wait_for("rkat: workers of other users must send the token in `");
        // The same user needs no token.
        assert_eq!(rkat.args(["hub", "status", "--url", &url]).run().code, Some(0));
        running.signal("TERM");
        assert!(!running.finish().stderr.contains(read().1.trim()));
        tokens.push(read());
    }
    assert_eq!((tokens[0].0, &tokens[0]), (0o600, &tokens[1]));
}

#[test]
fn chosen_token_is_required_of_every_worker() {
    let rkat = Rkat::new();
    std::fs::write(rkat.work().join("hub.token"), "chosen\n").unwrap();
    std::fs::write(rkat.work().join("empty"), "\n").unwrap();
    let mut hub = rkat.args(["hub", "--listen", "127.0.0.1:0", "--token-file", "hub.token"]).start();
    let url = address(&hub.wait_for("hub listening on "));
    let status = || rkat.args(["hub", "status", "--url", &url]);
    assert_eq!(status().run().code, Some(1));
    assert_eq!(status().env("RKAT_TOKEN", "chosen").run().code, Some(0));
    // Commands in the realm find the token on their own.
    assert_eq!(rkat.args(["hub", "status"]).run().code, Some(0));
    hub.signal("TERM");
    hub.finish();
    for (args, expected) in [
        (vec!["--no-token", "--listen", "0.0.0.0:0"], "can be reached by other machines"),
        (vec!["--no-token", "--token-file", "hub.token"], "cannot be used with"),
        (vec!["--token-file", "empty"], "the token is empty"),
    ] {
        let rejected = rkat.args([vec!["hub"], args].concat()).run();
        assert!(rejected.code == Some(2) && rejected.stderr.contains(expected), "{}", rejected.stderr);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn serve_hub_admits_the_same_user() {
    let rkat = Rkat::new();
    std::fs::write(rkat.work().join("hub.token"), "chosen\n").unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--hub", "127.0.0.1:0"];
    for (more, code) in [(vec![], 0), (vec!["--token-file", "hub.token"], 1)] {
        let mut server = rkat.args([serve.to_vec(), more].concat()).start();
        let url = address(&server.wait_for("hub for workers on "));
        let status = || rkat.args(["hub", "status", "--url", &url]);
        assert_eq!(status().run().code, Some(code));
        assert_eq!(status().env("RKAT_TOKEN", "chosen").run().code, Some(0));
        server.signal("TERM");
        server.finish();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn realm_token_in_environment_has_no_effect() {
    let rkat = Rkat::new();
    let state = rkat.work().join("state");
    let realm = ["--realm", "team", "--state-root", state.to_str().unwrap()];
    let hub = [&["hub", "--listen", "127.0.0.1:0"][..], &realm].concat();
    let serve = [&["serve", "--listen", "127.0.0.1:0", "--hub", "127.0.0.1:0"][..], &realm].concat();
    let mut first = rkat.args(hub.iter().copied()).start();
    first.wait_for("workers of other users must send the token in `");
    first.signal("TERM");
    first.finish();
    let own = std::fs::read_to_string(state.join("team/token")).unwrap();
    for (args, prefix, printed) in [
        (&hub, "hub listening on ", "workers of other users must send the token in `"),
        (&serve, "hub for workers on ", "connect a client: "),
    ] {
        let mut running = rkat.args(args.iter().copied()).env("RKAT_TOKEN", own.trim()).start();
        let url = address(&running.wait_for(prefix));
        running.wait_for(printed);
        assert_eq!(rkat.args(["hub", "status", "--url", &url]).run().code, Some(0), "{args:?}");
        running.signal("TERM");
        running.finish();
    }
}

#[test]
fn guarded_address_has_a_separate_token() {
    let rkat = Rkat::new();
    let rules = json!({ "expose_functions": ["engine::*"] });
    std::fs::write(rkat.work().join("rules.json"), rules.to_string()).unwrap();
    for name in ["open", "guarded"] {
        std::fs::write(rkat.work().join(name), name).unwrap();
    }
    let guarded = ["--guarded", "127.0.0.1:0", "--rbac", "rules.json", "--guarded-token-file", "guarded"];
    let open = ["hub", "--listen", "127.0.0.1:0", "--token-file", "open"];
    let mut hub = rkat.args([&open[..], &guarded[..]].concat()).start();
    let open = address(&hub.wait_for("hub listening on "));
    let guarded = address(&hub.wait_for("guarded hub listening on "));
    for (url, token, code) in
        [(&open, "open", 0), (&open, "guarded", 1), (&guarded, "guarded", 0), (&guarded, "open", 1)]
    {
        let status = rkat.args(["hub", "status", "--url", url]).env("RKAT_TOKEN", token).run();
        assert_eq!(status.code, Some(code), "{url} {token}");
    }
    hub.signal("TERM");
    hub.finish();
}

fn address(line: &str) -> String {
    line.rsplit_once(' ').unwrap().1.to_owned()
}

#[test]
fn running_hub_is_found_and_handles_calls() {
    let rkat = Rkat::new();
    let mut hub = rkat.args(["hub", "--listen", "127.0.0.1:0"]).start();
    hub.wait_for("hub listening on");
    let registered = rkat.args(["registry", "register", "skill", "demo", "-"]).stdin("# Demo").run();
    assert_eq!((registered.code, registered.stderr.as_str()), (Some(0), ""));
    let listed = rkat.args(["registry", "call", "skills::list"]).run().json();
    assert_eq!(listed["skills"][0]["id"], "demo");
    let missing = rkat.args(["registry", "call", "demo::guide"]).run();
    assert!(missing.stderr.contains("remote error (function_not_found)"), "{}", missing.stderr);
    let wrong = rkat.args(["registry", "register", "skill", "Bad", "-"]).stdin("# Demo").run();
    let expected =
        "error: id may only contain lowercase ASCII letters, digits, '-' and '_': \"Bad\" [INVALID_PARAMS]\n";
    assert_eq!(wrong.stderr, expected);
    hub.signal("TERM");
    hub.finish();
    let over = rkat.args(["registry", "call", "demo::guide"]).run();
    assert!(over.stderr.contains("no hub is running in this realm"), "{}", over.stderr);
    assert_eq!(rkat.args(["registry", "show", "demo"]).run().text(), "# Demo\n");
}
