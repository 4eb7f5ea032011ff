//! `rkat session`.

use insta::assert_snapshot;

use crate::support::Rkat;

#[test]
fn list_shows_sessions() {
    let rkat = Rkat::new();
    assert_snapshot!(rkat.args(["session", "list"]).run(), @r"
    --- stderr
    no sessions in realm `[workspace]`
    --- exit 0
    ");
    rkat.session("say one");
    rkat.args(["run", "-q", "--label", "team=a", "--label", "kind=demo", "say two"]).run().text();
    assert_snapshot!(rkat.args(["session", "list"]).run(), @r"
    SESSION                               CHANGED   STATE  MESSAGES  TOKENS  MODEL    LABELS
    [uuid]  just now  idle   2         64      offline  kind=demo team=a
    [uuid]  just now  idle   2         64      offline
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["session", "list", "--json", "--limit", "1"]).run(), @r#"
    {
      "sessions": [
        {
          "session_id": "[uuid]",
          "session_ref": "[workspace]:[uuid]",
          "created_at": [unix],
          "updated_at": [unix],
          "message_count": 2,
          "total_tokens": 64,
          "is_active": false,
          "labels": {
            "kind": "demo",
            "team": "a"
          }
        }
      ],
      "next_offset": 1
    }
    --- stderr
    --- exit 0
    "#);
}

#[test]
fn list_is_filtered_and_paged() {
    let rkat = Rkat::new();
    let plain = rkat.session("say one");
    let labeled = rkat.args(["run", "--json", "--label", "team=a", "say two"]).run().json();
    let ids = |args: &[&str]| {
        let listed = rkat.args(["session", "list", "--json"].iter().chain(args).copied()).run().json();
        let sessions = listed["sessions"].as_array().unwrap().clone();
        sessions.iter().map(|session| session["session_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let labeled = labeled["session_id"].as_str().unwrap().to_owned();
    assert_eq!(ids(&[]), [labeled.clone(), plain.clone()]);
    assert_eq!(ids(&["--label", "team=a"]), [labeled]);
    assert_eq!(ids(&["--offset", "1"]), [plain]);
    assert!(ids(&["--label", "team=b"]).is_empty());
}

#[test]
fn table_fits_terminal_width() {
    let rkat = Rkat::new();
    let long = format!("note={}", "x".repeat(200));
    rkat.args(["run", "-q", "--label", &long, "say one"]).run().text();
    let widest = |columns: &str| {
        let listed = rkat.args(["session", "list"]).env("COLUMNS", columns).run();
        listed.text().lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert_eq!(widest("120"), 120);
    assert_eq!(widest("100"), 100);
    assert!(widest("1000") > 250);
}

#[test]
fn show_prints_session_messages() {
    let rkat = Rkat::new();
    rkat.session("call look {\"at\": \"it\"}\nthen\nsay done\nsay with it");
    assert_snapshot!(rkat.args(["session", "show", "last"]).run(), @r#"
    SESSION                               CHANGED   STATE  MESSAGES  TOKENS  MODEL    LABELS
    [uuid]  just now  idle   4         181     offline

    user    call look {"at": "it"}
            then
            say done
            say with it

    agent   → look {"at":"it"}

    tools   ✗ {"error":"tool_not_found","message":"no tool is named `look`; available: there are none"}

    agent   done
            with it
    --- stderr
    --- exit 0
    "#);
    assert_snapshot!(rkat.args(["session", "show", "last", "--json"]).run(), @r#"
    {
      "session_id": "[uuid]",
      "session_ref": "[workspace]:[uuid]",
      "state": {
        "session_id": "[uuid]",
        "created_at": [unix],
        "updated_at": [unix],
        "message_count": 4,
        "is_active": false,
        "model": "offline",
        "provider": "other",
        "last_assistant_text": "done\nwith it",
        "archived": false
      },
      "billing": {
        "total_tokens": 181,
        "usage": {
          "input_tokens": 173,
          "output_tokens": 8
        }
      },
      "messages": [
        {
          "role": "user",
          "content": "call look {\"at\": \"it\"}\nthen\nsay done\nsay with it",
          "created_at": "[time]"
        },
        {
          "role": "block_assistant",
          "blocks": [
            {
              "block_type": "tool_use",
              "data": {
                "id": "call_1",
                "name": "look",
                "args": {
                  "at": "it"
                }
              }
            }
          ],
          "stop_reason": "tool_use",
          "created_at": "[time]"
        },
        {
          "role": "tool_results",
          "results": [
            {
              "tool_use_id": "call_1",
              "content": "{\"error\":\"tool_not_found\",\"message\":\"no tool is named `look`; available: there are none\"}",
              "is_error": true
            }
          ],
          "created_at": "[time]"
        },
        {
          "role": "block_assistant",
          "blocks": [
            {
              "block_type": "text",
              "data": {
                "text": "done\nwith it"
              }
            }
          ],
          "stop_reason": "end_turn",
          "created_at": "[time]"
        }
      ]
    }
    --- stderr
    --- exit 0
    "#);
}

#[test]
fn deleted_session_is_readable_but_not_resumable() {
    let rkat = Rkat::new();
    let id = rkat.session("say one");
    assert_snapshot!(rkat.args(["session", "delete", "last"]).run(), @r"
    archived [uuid]
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["session", "list"]).run(), @r"
    --- stderr
    no sessions in realm `[workspace]`
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["session", "list", "--archived"]).run(), @r"
    SESSION                               CHANGED   STATE     MESSAGES  TOKENS  MODEL    LABELS
    [uuid]  just now  archived  2         64      offline
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["session", "show", &id]).run(), @r"
    SESSION                               CHANGED   STATE     MESSAGES  TOKENS  MODEL    LABELS
    [uuid]  just now  archived  2         64      offline

    user    say one

    agent   one
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["run", &format!("--resume={id}"), "say two"]).run(), @r"
    --- stderr
    error: session `[uuid]` is archived [SESSION_NOT_FOUND]
    --- exit 1
    ");
    assert_snapshot!(rkat.args(["session", "delete", &id, "--json"]).run(), @r#"
    {"error":{"code":"SESSION_NOT_FOUND","message":"session `[uuid]` is archived","data":{"session_id":"[uuid]","session_ref":"[workspace]:[uuid]"}}}
    --- stderr
    error: session `[uuid]` is archived [SESSION_NOT_FOUND]
    --- exit 1
    "#);
}

#[test]
fn idle_session_cannot_be_interrupted() {
    let rkat = Rkat::new();
    rkat.session("say one");
    assert_snapshot!(rkat.args(["session", "interrupt", "last"]).run(), @r"
    --- stderr
    error: session `[uuid]` has no active run [SESSION_NOT_RUNNING]
    --- exit 1
    ");
}

#[test]
fn list_fits_narrow_terminal() {
    let rkat = Rkat::new();
    rkat.args(["run", "-q", "--label", "team=core", "--label", "topic=storage", "say one"]).run();
    let list = rkat.args(["session", "list"]).env("COLUMNS", "80").run();
    assert_snapshot!(list, @r"
    SESSION                               CHANGED   MSGS  MODEL    LABELS
    [uuid]  just now  2     offline  team=core topic=…
    --- stderr
    --- exit 0
    ");
    let widest = list.text().lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}");
}
