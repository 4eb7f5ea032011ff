//! Skills: registration, lists, and resources.

use meerkat_registry::{Changes, Kind};
use serde_json::{Value, json};

use crate::support::{Answer, NOW, refusal, registry};

#[tokio::test]
async fn invalid_skill_reports_the_first_violation() {
    let (registry, bus) = registry();
    let long = "a".repeat(65);
    let characters = "id may only contain lowercase ASCII letters, digits, '-' and '_': ";
    for (id, skill, expected) in [
        ("", "", "id must be non-empty".to_owned()),
        (&*long, "", "id too long (65 chars; max 64)".to_owned()),
        (&"ä".repeat(33), "x", "id too long (66 chars; max 64)".to_owned()),
        (&"A".repeat(65), "x", "id too long (65 chars; max 64)".to_owned()),
        ("Bad", "", format!("{characters}\"Bad\"")),
        ("a b", "x", format!("{characters}\"a b\"")),
        ("a/b", "x", format!("{characters}\"a/b\"")),
        ("a::b", "x", format!("{characters}\"a::b\"")),
        ("q\"\n", "x", format!("{characters}\"q\\\"\\n\"")),
        ("ok", "", "skill must be non-empty".to_owned()),
        ("ok", &"x".repeat(262_145), "skill body too large (262145 bytes; max 262144)".to_owned()),
    ] {
        let data = json!({ "id": id, "skill": skill });
        assert_eq!(refusal(&registry, "skills::register", data).await, expected);
    }
    for (id, expected) in [("", "id must be non-empty".to_owned()), ("Bad", format!("{characters}\"Bad\""))] {
        assert_eq!(refusal(&registry, "skills::unregister", json!({ "id": id })).await, expected);
    }
    assert!(bus.values.lock().unwrap().is_empty());
}

#[tokio::test]
async fn skill_is_stored_verbatim() {
    let (registry, bus) = registry();
    for (id, skill) in
        [("demo", "# Demo\n".to_owned()), ("-", "  \n ".to_owned()), ("a_1", "x".repeat(262_144))]
    {
        let answer = registry.call("skills::register", json!({ "id": id, "skill": skill, "more": 1 })).await;
        assert_eq!(answer.unwrap(), json!({ "id": id, "registered_at": NOW }));
        let stored = bus.values.lock().unwrap()[&("skills".to_owned(), id.to_owned())].clone();
        assert_eq!(stored, json!({ "id": id, "skill": skill, "registered_at": NOW }));
    }
}

#[tokio::test]
async fn unregister_reports_whether_the_skill_existed() {
    let (registry, _) = registry();
    registry.call("skills::register", json!({ "id": "demo", "skill": "x" })).await.unwrap();
    let remove = || registry.call("skills::unregister", json!({ "id": "demo" }));
    assert_eq!(remove().await.unwrap(), json!({ "id": "demo", "removed": true }));
    assert_eq!(remove().await.unwrap(), json!({ "id": "demo", "removed": false }));
}

#[tokio::test]
async fn lists_are_sorted_and_skip_invalid_entries() {
    let (registry, bus) = registry();
    for (id, skill) in [("b", "no heading"), ("a-z", "# Ä title\n\nText"), ("a_b", "# \n")] {
        registry.call("skills::register", json!({ "id": id, "skill": skill })).await.unwrap();
    }
    bus.put("skills", "junk", json!({ "id": 7 }));
    bus.put("skills", "null", Value::Null);
    let list = registry.call("skills::list", json!({})).await.unwrap();
    let entry = |id: &str, bytes: usize| json!({ "id": id, "bytes": bytes, "registered_at": NOW });
    assert_eq!(list, json!({ "skills": [entry("a-z", 16), entry("a_b", 3), entry("b", 10)] }));

    let resources = registry.call("skills::resources-list", json!({})).await.unwrap();
    let resource = |uri: &str, name: &str| json!({ "uri": uri, "name": name, "mimeType": "text/markdown" });
    let index = json!({
        "uri": "iii://skills", "name": "skills",
        "description": "Index of every registered skill", "mimeType": "text/markdown",
    });
    let expected =
        [index, resource("iii://a-z", "Ä title"), resource("iii://a_b", ""), resource("iii://b", "b")];
    assert_eq!(resources, json!({ "resources": expected }));
}

#[tokio::test]
async fn templates_cover_both_uri_forms() {
    let (registry, _) = registry();
    let templates = registry.call("skills::resources-templates", json!({})).await.unwrap();
    assert_eq!(
        templates,
        json!({ "resourceTemplates": [
            {
                "uriTemplate": "iii://{skill_id}", "name": "Skill",
                "description": "Markdown body of a registered skill", "mimeType": "text/markdown",
            },
            {
                "uriTemplate": "iii://{skill_id}/{function_id}", "name": "Skill section",
                "description": "Markdown returned by triggering function_id with empty input",
                "mimeType": "text/markdown",
            },
        ] })
    );
}

async fn read(registry: &meerkat_registry::Registry, uri: &str) -> (Value, Value) {
    let mut answer = registry.call("skills::resources-read", json!({ "uri": uri })).await.unwrap();
    let contents = answer["contents"].as_array_mut().unwrap();
    assert_eq!((contents.len(), &contents[0]["uri"]), (1, &json!(uri)));
    (contents[0]["mimeType"].take(), contents[0]["text"].take())
}

const HEAD: &str =
    "# Skills\n\nRead each skill's resource for orientation on when and why to call its functions.\n\n";

#[tokio::test]
async fn index_lists_one_skill_per_line() {
    let (registry, _) = registry();
    let empty = format!("{HEAD}_No skills are currently registered._\n");
    assert_eq!(read(&registry, "iii://skills").await, (json!("text/markdown"), json!(empty)));
    for (id, skill) in [
        ("zeta", "Just text.\n"),
        ("alpha", "# Alpha\n\nWhat it\nis for.\n\nMore."),
        ("bare", "# Bare\n"),
        ("skills", "never seen"),
    ] {
        registry.call("skills::register", json!({ "id": id, "skill": skill })).await.unwrap();
    }
    let expected = format!(
        "{HEAD}- [`alpha`](iii://alpha) — Alpha — What it is for.\n- [`bare`](iii://bare) — Bare\n\
         - [`skills`](iii://skills) — skills — never seen\n- [`zeta`](iii://zeta) — zeta — Just text.\n"
    );
    assert_eq!(read(&registry, "iii://skills").await, (json!("text/markdown"), json!(expected)));
}

#[tokio::test]
async fn index_reports_why_it_cannot_be_read() {
    let (registry, bus) = registry();
    *bus.broken.lock().unwrap() = Some("no");
    let expected = "# Skills\n\n_Error reading skills index: remote error (LIST_ERROR): no_\n";
    assert_eq!(read(&registry, "iii://skills").await, (json!("text/markdown"), json!(expected)));
    let resources = registry.call("skills::resources-list", json!({})).await.unwrap();
    assert_eq!(resources["resources"].as_array().unwrap().len(), 1);
    assert_eq!(refusal(&registry, "skills::list", json!({})).await, "remote error (LIST_ERROR): no");
    let data = json!({ "id": "a", "skill": "x" });
    assert_eq!(refusal(&registry, "skills::register", data).await, "remote error (LIST_ERROR): no");
}

#[tokio::test]
async fn invalid_uris_are_rejected_in_order() {
    let (registry, bus) = registry();
    bus.put("skills", "odd", json!({ "id": "odd" }));
    for (uri, expected, kind) in [
        ("skills", "Resource URI must start with iii://: skills", Kind::NotFound),
        ("iii://", "Empty resource id: iii://", Kind::NotFound),
        (
            "iii://Bad",
            "id may only contain lowercase ASCII letters, digits, '-' and '_': \"Bad\"",
            Kind::Refused,
        ),
        ("iii://none", "Skill not found: none", Kind::NotFound),
        ("iii://odd", "decode stored skill odd: missing field `skill`", Kind::Failed),
        ("iii:///x", "Empty skill id in URI: iii:///x", Kind::NotFound),
        ("iii://a/", "Empty function id in URI: iii://a/", Kind::NotFound),
        (
            "iii://a/b/c",
            "Resource URI may not have more than one path segment after the skill id: iii://a/b/c",
            Kind::NotFound,
        ),
        (
            "iii://a/state::get",
            "Function 'state::get' is in an internal namespace and cannot back a skill resource",
            Kind::Refused,
        ),
        (
            "iii://a/configuration::list",
            "Function 'configuration::list' is in an internal namespace and cannot back a skill resource",
            Kind::Refused,
        ),
        ("iii://a/ state::get", "Function id \" state::get\" contains whitespace", Kind::Refused),
        (
            "iii://a/x::y",
            "trigger x::y: remote error (function_not_found): Function not found",
            Kind::NotFound,
        ),
    ] {
        let error = registry.call("skills::resources-read", json!({ "uri": uri })).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.kind()), (expected, kind), "{uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn section_is_the_result_of_its_function() {
    let (registry, bus) = registry();
    registry.call("skills::register", json!({ "id": "demo", "skill": "# Demo" })).await.unwrap();
    assert_eq!(read(&registry, "iii://demo").await, (json!("text/markdown"), json!("# Demo")));
    for (answer, kind, text) in [
        (json!("# Hi"), "text/markdown", "# Hi"),
        (json!({ "content": "# Hi" }), "text/markdown", "# Hi"),
        (json!({ "content": 1 }), "application/json", "{\n  \"content\": 1\n}"),
        (json!(null), "application/json", "null"),
    ] {
        bus.answer("demo::guide", Answer::Value(answer));
        // The skill need not exist, and its part of the URI is not validated.
        for uri in ["iii://demo/demo::guide", "iii://No Such/demo::guide", "iii://skills/demo::guide"] {
            assert_eq!(read(&registry, uri).await, (json!(kind), json!(text)));
        }
    }
    assert_eq!(bus.calls.lock().unwrap()[0], ("demo::guide".to_owned(), json!({})));

    bus.answer("demo::guide", Answer::Fails("invocation_failed", "broken"));
    let uri = json!({ "uri": "iii://demo/demo::guide" });
    let error = refusal(&registry, "skills::resources-read", uri.clone()).await;
    assert_eq!(error, "trigger demo::guide: remote error (invocation_failed): broken");
    bus.answer("demo::guide", Answer::Never);
    let error = refusal(&registry, "skills::resources-read", uri).await;
    assert_eq!(error, "trigger demo::guide: invocation timed out");
}

#[tokio::test]
async fn only_changed_entries_are_read_again() {
    let (registry, bus) = registry();
    let skill = |id: &str| json!({ "id": id, "skill": "x", "registered_at": NOW });
    let listed = async |revision: u64, put: Vec<(&str, Value)>, keys: Option<&[&str]>| {
        let put = put.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let keys = keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
        *bus.changes.lock().unwrap() = Some(Changes { revision, put, keys });
        let skills = registry.skills().await.unwrap();
        skills.0.iter().map(|skill| skill.id.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(listed(2, vec![("b", skill("b")), ("no", json!(3))], None).await, "b");
    // The list is sorted by id, which may differ from the key.
    assert_eq!(listed(3, vec![("c", skill("a"))], None).await, "a b");
    assert_eq!(listed(3, vec![], None).await, "a b");
    // A reply that arrives after a newer one changes nothing.
    assert_eq!(listed(2, vec![("late", skill("late"))], None).await, "a b");
    assert_eq!(listed(6, vec![("d", skill("d"))], Some(&["c", "d"])).await, "a d");
    assert_eq!(listed(7, vec![("d", json!(null))], None).await, "a");
    assert_eq!(*bus.requested.lock().unwrap(), [0, 2, 3, 3, 3, 6]);
}
