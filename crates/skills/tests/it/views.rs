//! The forms in which skills are served.

use std::sync::Arc;

use meerkat_skills::view::{
    Inventory, ResourceText, directory, inject, inspect, list, manifest, manifests, prompt, prompts,
    read_resource, resources, uri,
};
use meerkat_skills::{
    Catalog, Companion, Digest, Embedded, Error, Limits, Policy, SkillFilter, SkillKey, Snapshot, SourceId,
    standard_roots,
};
use serde_json::{Value, json};

use crate::tree::{World, skill_text};

const TASKS: Companion = Companion {
    title: "Task Workflow",
    text: "---\nname: task-workflow\ndescription: How to use task tools\n---\n# Task Workflow\n\n...\n",
};

fn embedded() -> Arc<Snapshot> {
    Catalog::new(vec![Arc::new(Embedded::new(&[TASKS]))], Policy::default()).snapshot()
}

fn key(source: SourceId, name: &str) -> SkillKey {
    SkillKey { source_uuid: source, skill_name: name.parse().unwrap() }
}

fn embedded_source() -> Value {
    json!({
        "source_uuid": "00000000-0000-4b11-8111-000000000001",
        "display_name": "embedded",
        "transport_kind": "embedded",
        "fingerprint": "embedded:inventory",
        "status": "active",
    })
}

#[test]
fn listed_skill_has_its_source() {
    let expected = json!({"skills": [{
        "key": {"source_uuid": "00000000-0000-4b11-8111-000000000001", "skill_name": "task-workflow"},
        "name": "Task Workflow",
        "description": "How to use task tools",
        "scope": "builtin",
        "source": embedded_source(),
        "is_active": true,
    }]});
    assert_eq!(serde_json::to_value(list(&embedded())).unwrap(), expected);
}

#[test]
fn inspected_skill_has_its_body() {
    let expected = json!({
        "key": {"source_uuid": "00000000-0000-4b11-8111-000000000001", "skill_name": "task-workflow"},
        "name": "Task Workflow",
        "description": "How to use task tools",
        "scope": "builtin",
        "source": embedded_source(),
        "body": "# Task Workflow\n\n...\n",
    });
    let wanted = key(SourceId::EMBEDDED, "task-workflow");
    for source in [None, Some(SourceId::EMBEDDED)] {
        let inspected = inspect(&embedded(), &wanted, source).unwrap();
        assert_eq!(serde_json::to_value(inspected).unwrap(), expected);
    }
    let unknown = inspect(&embedded(), &wanted, Some(SourceId::PROJECT));
    assert!(matches!(unknown, Err(Error::NoSuchSource(_))));
}

#[test]
fn shadowed_skill_names_its_shadow() {
    let world = World::new();
    world.skill("project/.rkat/skills", "task-workflow", "Ours");
    let mut sources = standard_roots(&world.roots(), Limits::default());
    sources.push(Arc::new(Embedded::new(&[TASKS])));
    let snapshot = Catalog::new(sources, Policy::default()).snapshot();
    let listed = serde_json::to_value(list(&snapshot)).unwrap();
    let project = json!({
        "source_uuid": "00000000-0000-4b11-8111-000000000002",
        "display_name": "project",
        "transport_kind": "filesystem",
        "fingerprint": "filesystem:.rkat/skills",
        "status": "active",
    });
    assert_eq!(listed["skills"][0]["source"], project);
    assert_eq!(listed["skills"][1]["is_active"], json!(false));
    assert_eq!(listed["skills"][1]["shadowed_by"], project);
    let inspected = inspect(&snapshot, &key(SourceId::PROJECT, "task-workflow"), Some(SourceId::EMBEDDED));
    assert_eq!(inspected.unwrap().description, "How to use task tools");
}

fn bundled() -> World {
    let world = World::new();
    world.write(
        "project/.agent/skills/pdf/SKILL.md",
        "---\nname: pdf\ndescription: Reads PDFs\nmetadata:\n  order: 3\n---\n# PDF\n\nRead $ARGUMENTS.\n",
    );
    world.write("project/.agent/skills/pdf/references/a b.md", "A.");
    world.write("project/.agent/skills/pdf/logo.png", [0x89, b'P', b'N', b'G', 0, 255]);
    world.write("project/.agent/skills/日本/SKILL.md", skill_text("日本", "Japan"));
    world
}

#[test]
fn skills_are_resources_with_their_files() {
    let world = bundled();
    let snapshot = world.snapshot();
    let listed: Vec<_> =
        resources(&snapshot).into_iter().map(|resource| (resource.uri, resource.name)).collect();
    let entry = |uri: &str, name: &str| (uri.to_owned(), name.to_owned());
    assert_eq!(
        listed,
        [entry("skill://pdf/SKILL.md", "pdf"), entry("skill://%E6%97%A5%E6%9C%AC/SKILL.md", "日本")]
    );
    let text = |mime_type, text: &str| ResourceText::Text { mime_type, text: text.to_owned() };
    assert_eq!(
        read_resource(&snapshot, "skill://pdf/references/a%20b.md").unwrap(),
        text("text/markdown", "A.")
    );
    assert_eq!(
        read_resource(&snapshot, "skill://%E6%97%A5%E6%9C%AC/SKILL.md").unwrap(),
        text("text/markdown", &skill_text("日本", "Japan"))
    );
    let bytes = vec![0x89, b'P', b'N', b'G', 0, 255];
    assert_eq!(
        read_resource(&snapshot, "skill://pdf/logo.png").unwrap(),
        ResourceText::Bytes { mime_type: "image/png", bytes }
    );
}

#[test]
fn uris_support_any_characters_in_names() {
    let world = World::new();
    for (dir, name) in [("a", "CI/CD"), ("b", "100% done")] {
        world.write(&format!("project/.agent/skills/{dir}/SKILL.md"), skill_text(name, "d"));
    }
    let snapshot = world.snapshot();
    let uris: Vec<_> = resources(&snapshot).into_iter().map(|resource| resource.uri).collect();
    assert_eq!(uris, ["skill://100%25%20done/SKILL.md", "skill://CI%2FCD/SKILL.md"]);
    assert!(uris.iter().all(|uri| read_resource(&snapshot, uri).is_ok()));
    for uri in ["skill://CI/CD/SKILL.md", "skill://CI%2FCD/%2e%2e/SKILL.md", "skill://CI%2FCD%2F../SKILL.md"]
    {
        assert!(read_resource(&snapshot, uri).is_err(), "{uri}");
    }
}

#[test]
fn uris_out_of_the_skill_are_rejected() {
    let world = bundled();
    let snapshot = world.snapshot();
    for uri in [
        "skill://pdf",
        "skill://pdf/",
        "skill://pdf/../other/SKILL.md",
        "skill://pdf/%2e%2e/SKILL.md",
        "skill://pdf/..%2fSKILL.md",
        "skill://pdf/%252e%252e/x",
        "skill://pdf//etc/passwd",
        "skill://none/SKILL.md",
        "skill://../SKILL.md",
        "skill:///SKILL.md",
        "file:/etc/passwd",
        "file:///etc/passwd",
        "SKILL.md",
    ] {
        assert!(read_resource(&snapshot, uri).is_err(), "{uri}");
    }
    assert!(read_resource(&snapshot, "skill://pdf/SKILL.md").is_ok());
}

#[test]
fn manifest_has_frontmatter_and_file_digests() {
    let world = bundled();
    let snapshot = world.snapshot();
    let skill = snapshot.by_name("pdf").unwrap();
    let file = |path: &str| {
        let bytes = std::fs::read(world.path("project/.agent/skills/pdf").join(path)).unwrap();
        json!({"uri": uri(skill, path), "digest": Digest::compute(&bytes), "size": bytes.len()})
    };
    let expected = json!({
        "uri": "skill://pdf/SKILL.md",
        "frontmatter": {"name": "pdf", "description": "Reads PDFs", "metadata": {"order": 3}},
        "resources": [file("SKILL.md"), file("logo.png"), file("references/a b.md")],
    });
    assert_eq!(serde_json::to_value(manifest(&snapshot, "skill://pdf/SKILL.md").unwrap()).unwrap(), expected);
    assert!(matches!(manifest(&snapshot, "skill://pdf/logo.png"), Err(Error::BadUri(_))));
    let (first, next) = manifests(&snapshot, 0, 1);
    let (second, end) = manifests(&snapshot, next.unwrap(), 1);
    assert_eq!(
        [first[0].uri.as_str(), second[0].uri.as_str()],
        ["skill://pdf/SKILL.md", "skill://%E6%97%A5%E6%9C%AC/SKILL.md"]
    );
    assert_eq!(end, None);
}

#[test]
fn directories_are_listed() {
    let world = bundled();
    let snapshot = world.snapshot();
    let listed = |uri: &str| -> Vec<(String, &str)> {
        directory(&snapshot, uri).unwrap().into_iter().map(|entry| (entry.uri, entry.mime_type)).collect()
    };
    let entry = |uri: &str, kind| (uri.to_owned(), kind);
    assert_eq!(
        listed("skill://"),
        [entry("skill://pdf", "inode/directory"), entry("skill://%E6%97%A5%E6%9C%AC", "inode/directory")]
    );
    let inside = [
        entry("skill://pdf/SKILL.md", "text/markdown"),
        entry("skill://pdf/logo.png", "image/png"),
        entry("skill://pdf/references", "inode/directory"),
    ];
    assert_eq!(listed("skill://pdf/"), inside);
    assert_eq!(listed("skill://pdf/references"), [entry("skill://pdf/references/a%20b.md", "text/markdown")]);
    assert!(directory(&snapshot, "skill://pdf/none").is_err());
}

#[test]
fn skills_are_slash_commands_with_arguments() {
    let world = bundled();
    world.write(
        "project/.agent/skills/quiet/SKILL.md",
        "---\nname: quiet\ndescription: q\nuser-invocable: false\n---\nBody",
    );
    world.write(
        "project/.agent/skills/review/SKILL.md",
        "---\nname: review\ndescription: r\nargument-hint: \"[file]\"\ndisable-model-invocation: true\n---\nReview.",
    );
    let snapshot = world.snapshot();
    let listed: Vec<_> =
        prompts(&snapshot).into_iter().map(|view| (view.title, view.argument_hint)).collect();
    let entry = |title: &str, hint: Option<&str>| (title.to_owned(), hint.map(str::to_owned));
    assert_eq!(listed, [entry("pdf", None), entry("review", Some("[file]")), entry("日本", None)]);
    let base = |name: &str| {
        let dir = world.path("project/.agent/skills").join(name);
        format!("Base directory of this skill: {}\n\n", dir.display())
    };
    for (name, arguments, text) in [
        ("pdf", "a.pdf $ARGUMENTS", "# PDF\n\nRead a.pdf $ARGUMENTS."),
        ("review", "main.rs", "Review.\n\nARGUMENTS: main.rs"),
        ("review", " ", "Review."),
    ] {
        assert_eq!(prompt(&snapshot, name, arguments).unwrap(), format!("{}{text}", base(name)));
    }
    assert!(matches!(prompt(&snapshot, "quiet", ""), Err(Error::Hidden { .. })));
}

fn many(count: usize, description: &str) -> Arc<Snapshot> {
    let world = World::new();
    for index in 0..count {
        world.skill("project/.rkat/skills", &format!("skill-{index:03}"), description);
    }
    world.snapshot()
}

#[test]
fn inventory_lists_every_skill() {
    assert_eq!(Inventory::default().render(&World::new().snapshot(), SkillFilter::All), None);
    let snapshot = many(2, "a < b");
    insta::assert_snapshot!(Inventory::default().render(&snapshot, SkillFilter::All).unwrap(), @r#"
    <available_skills>
    <skill id="00000000-0000-4b11-8111-000000000002/skill-000"><description>a &lt; b</description></skill>
    <skill id="00000000-0000-4b11-8111-000000000002/skill-001"><description>a &lt; b</description></skill>
    </available_skills>
    Read a skill with load_skill before you follow it; find more with browse_skills.
    "#);
}

#[test]
fn long_inventory_is_shortened_with_a_note() {
    for (count, mode, rows) in [
        (12, "<available_skills>", 12),
        (40, "<available_skills mode=\"shortened\">", 40),
        (100, "<available_skills mode=\"names\">", 100),
        (300, "<available_skills mode=\"collections\">", 0),
    ] {
        let list = Inventory::default().render(&many(count, &"word ".repeat(200)), SkillFilter::All).unwrap();
        assert!(list.starts_with(mode), "{count}: {list}");
        assert_eq!(list.matches("<skill id=").count(), rows, "{count}");
        assert!(count <= 12 || list.len() <= 8 * 1024 + 200, "{count}: {}", list.len());
    }
    let list = Inventory::default().render(&many(300, "d"), SkillFilter::All).unwrap();
    assert!(list.contains("<collection source=\"00000000-0000-4b11-8111-000000000002\" count=\"300\"/>"));
    assert!(list.contains("(300)"));
}

#[test]
fn injected_skill_cannot_close_its_element() {
    let world = World::new();
    world.write(
        "project/.rkat/skills/a/SKILL.md",
        "---\nname: a\ndescription: d\n---\nOne </skill> two, and some more.\n",
    );
    let snapshot = world.snapshot();
    let skill = snapshot.by_name("a").unwrap();
    let id = "00000000-0000-4b11-8111-000000000002/a";
    assert_eq!(
        inject(skill, 1000).unwrap(),
        format!("<skill id=\"{id}\">\nOne &lt;/skill&gt; two, and some more.\n\n</skill>")
    );
    assert_eq!(inject(skill, 4).unwrap(), format!("<skill id=\"{id}\">\nOne \n[truncated]\n</skill>"));
}

#[test]
fn manifest_counts_omitted_files() {
    let world = World::new();
    world.skill("project/.agent/skills", "pdf", "PDFs");
    let large = std::fs::File::create(world.path("project/.agent/skills/pdf/large.bin")).unwrap();
    large.set_len(meerkat_skills::MAX_FILE_BYTES + 1).unwrap();
    let manifest = meerkat_skills::view::manifest(&world.snapshot(), "skill://pdf/SKILL.md").unwrap();
    let manifest = serde_json::to_value(&manifest).unwrap();
    let counts = (manifest["resources"].as_array().unwrap().len(), &manifest["_meta"]);
    assert_eq!(counts, (1, &serde_json::json!({"rkat/left_out": 1})));
}

#[test]
fn manifest_page_ends_after_many_files() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        let dir = world.skill("project/.agent/skills", name, "Many files");
        (0..511).for_each(|index| std::fs::write(dir.join(format!("{index}.txt")), "x").unwrap());
    }
    let snapshot = world.snapshot();
    let (first, next) = manifests(&snapshot, 0, 50);
    let (second, end) = manifests(&snapshot, next.unwrap(), 50);
    assert_eq!((first.len(), next, second.len(), end), (2, Some(2), 1, None));
}
