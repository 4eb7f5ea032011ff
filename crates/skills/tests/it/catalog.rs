//! The catalog: scans, precedence, and reuse of unchanged skills.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use meerkat_skills::{
    Catalog, Effect, Embedded, Error, Limits, Policy, Refreshed, SkillKey, SkillName, SourceId, Trust,
    companions, lint, standard_roots,
};

use crate::tree::{World, generate, names, skill_text};

#[test]
fn large_tree_in_all_styles_is_loaded() {
    let world = World::new();
    let (loads, skipped) = generate(&world.path("project/.agent/skills"), 3000);
    let snapshot = world.snapshot();
    assert_eq!((snapshot.entries().len(), snapshot.problems().len()), (loads, skipped));
    assert!(loads * 100 >= 3000 * 97, "{loads}");
    assert!(snapshot.problems().iter().all(|problem| {
        problem.effect == Effect::Skipped && problem.line == Some(1) && !problem.fix.is_empty()
    }));
}

#[test]
fn unchanged_tree_keeps_the_snapshot() {
    let world = World::new();
    generate(&world.path("project/.agent/skills"), 100);
    let catalog = world.catalog();
    let first = catalog.snapshot();
    assert_eq!(catalog.refresh(), Refreshed::Unchanged);
    assert!(Arc::ptr_eq(&first, &catalog.snapshot()));
    assert_eq!(first.generation(), 1);
}

#[test]
fn change_keeps_other_skills() {
    let world = World::new();
    world.skill("project/.agent/skills", "a", "A");
    let b = world.skill("project/.agent/skills", "b", "B");
    let catalog = world.catalog();
    let before = catalog.snapshot();
    fs::write(b.join("SKILL.md"), skill_text("b", "Another")).unwrap();
    assert_eq!(catalog.refresh(), Refreshed::Changed);
    let after = catalog.snapshot();
    assert!(Arc::ptr_eq(before.by_name("a").unwrap(), after.by_name("a").unwrap()));
    assert_eq!(after.by_name("b").unwrap().description, "Another");
    assert_eq!(after.generation(), 2);
}

#[test]
fn shadowed_skill_is_listed_and_loadable() {
    let world = World::new();
    world.skill("project/.agent/skills", "tdd", "Project");
    world.skill("home/.agent/skills", "TDD", "User");
    world.skill("home/.claude/skills", "tdd", "Project");
    let snapshot = world.snapshot();
    let sources: Vec<_> = snapshot
        .entries()
        .iter()
        .map(|entry| {
            let by = entry.shadowed_by.as_ref().map(|source| source.display_name.as_str());
            (entry.skill.source.display_name.as_str(), by)
        })
        .collect();
    assert_eq!(
        sources,
        [
            ("project-agent", None),
            ("user-agent", Some("project-agent")),
            ("user-claude", Some("project-agent")),
        ]
    );
    for (name, description) in [("tdd", "Project"), ("tdd@user", "User"), ("Tdd@User-Agent", "User")] {
        assert_eq!(snapshot.by_name(name).unwrap().description, description, "{name}");
    }
    let by_id = format!("tdd@{}", snapshot.entries()[1].skill.key.source_uuid);
    assert_eq!(snapshot.by_name(&by_id).unwrap().description, "User");
    // The third has the same text as the first, so it is not a collision.
    let collisions: Vec<_> = snapshot.collisions().map(|(lost, _)| lost.skill.description.clone()).collect();
    assert_eq!(collisions, ["User"]);
}

#[test]
fn bundled_skill_files_are_not_separate_skills() {
    let world = World::new();
    let outer = world.skill("project/.agent/skills", "outer", "Outer");
    fs::create_dir_all(outer.join("examples/inner")).unwrap();
    fs::write(outer.join("examples/inner/SKILL.md"), skill_text("inner", "Inner")).unwrap();
    assert_eq!(names(&world.snapshot()), ["outer"]);
    let nested = Limits { nested: meerkat_skills::Nested::Separate, ..Limits::default() };
    let catalog = Catalog::new(standard_roots(&world.roots(), nested), Policy::default());
    assert_eq!(names(&catalog.snapshot()), ["inner", "outer"]);
}

#[test]
fn skill_at_root_does_not_hide_skills_below() {
    let world = World::new();
    world.write("project/.agent/skills/SKILL.md", skill_text("top", "Top"));
    world.skill("project/.agent/skills/group", "below", "Below");
    assert_eq!(names(&world.snapshot()), ["below", "top"]);
}

#[test]
fn lowercase_skill_file_is_loaded() {
    let world = World::new();
    world.write("project/.agent/skills/a/skill.md", skill_text("a", "A"));
    let snapshot = world.snapshot();
    assert!(snapshot.by_name("a").unwrap().read().unwrap().text.contains("description: A"));
}

#[test]
fn foreign_directories_are_skipped() {
    let world = World::new();
    world.skill("project/.agent/skills/node_modules/x", "vendored", "V");
    world.skill("project/.agent/skills/.git/x", "hidden", "H");
    world.skill("project/.agent/skills/a/b/c/d/e", "deep", "D");
    world.skill("project/.agent/skills/a/b/c/d/e/f", "too-deep", "D");
    assert_eq!(names(&world.snapshot()), ["deep"]);
}

#[test]
fn reached_limit_is_reported() {
    let world = World::new();
    for index in 0..10 {
        world.skill("project/.agent/skills", &format!("skill-{index}"), "d");
    }
    let limits = Limits { dirs: 5, ..Limits::default() };
    let snapshot = Catalog::new(standard_roots(&world.roots(), limits), Policy::default()).snapshot();
    assert_eq!(names(&snapshot), ["skill-0", "skill-1", "skill-2", "skill-3"]);
    let effects: Vec<_> = snapshot.problems().iter().map(|problem| problem.effect).collect();
    assert_eq!(effects, [Effect::Cut]);
}

#[cfg(unix)]
#[test]
fn symlinks_are_followed_once() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    world.skill("elsewhere", "linked", "Linked");
    world.skill("home/.agent/skills", "real", "Real");
    let root = world.path("home/.agent/skills");
    symlink(world.path("elsewhere/linked"), root.join("linked")).unwrap();
    symlink(world.path("elsewhere/linked"), root.join("again")).unwrap();
    symlink(&root, root.join("circle")).unwrap();
    symlink(root.join("real"), root.join("alias")).unwrap();
    symlink("nowhere", root.join("broken")).unwrap();
    let snapshot = world.snapshot();
    assert_eq!(names(&snapshot), ["linked", "real"]);
    assert_eq!((snapshot.entries().len(), snapshot.problems().len()), (2, 0));
}

/// A project may come from a third party, so its symlinks must not lead out of it.
#[cfg(unix)]
#[test]
fn symlinks_out_of_a_project_are_not_followed() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    world.skill("elsewhere", "private", "Private");
    world.skill("project/.agent/skills", "real", "Real");
    world.skill("project/shared", "inside", "Inside");
    let root = world.path("project/.agent/skills");
    symlink(world.path("elsewhere"), root.join("away")).unwrap();
    symlink("../../shared/inside", root.join("near")).unwrap();
    symlink("../..", root.join("up")).unwrap();
    fs::create_dir_all(world.path("project/.claude")).unwrap();
    symlink(world.path("elsewhere"), world.path("project/.claude/skills")).unwrap();
    let catalog = world.catalog();
    let snapshot = catalog.snapshot();
    assert_eq!(names(&snapshot), ["inside", "real"]);
    let reasons: Vec<_> =
        snapshot.problems().iter().map(|problem| (problem.path.clone(), problem.reason.as_str())).collect();
    let outside = "is a symlink that leads out of its project or repository";
    let expected = [
        (root.join("away"), outside),
        (root.join("up"), "is a symlink to a directory above it"),
        (world.path("project/.claude/skills"), outside),
    ];
    assert_eq!(reasons, expected);
    assert_eq!(catalog.refresh(), Refreshed::Unchanged);
    // In an explicitly requested directory, all symlinks are followed.
    let roots = meerkat_skills::Roots { extra: vec![root], ..meerkat_skills::Roots::default() };
    let explicit = Catalog::new(standard_roots(&roots, Limits::default()), Policy::default());
    assert!(explicit.snapshot().by_name("private").is_ok());
}

#[cfg(unix)]
#[test]
fn symlinked_skill_file_is_skipped() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    let secret = world.write("secret.md", skill_text("leak", "Leak"));
    let dir = world.path("project/.agent/skills/leak");
    fs::create_dir_all(&dir).unwrap();
    symlink(secret, dir.join("SKILL.md")).unwrap();
    let snapshot = world.snapshot();
    assert_eq!(names(&snapshot), [""; 0]);
    assert_eq!(snapshot.problems()[0].reason, "is a symlink that leads out of its directory");
}

#[cfg(unix)]
#[test]
fn symlink_to_another_skill_file_loads_that_skill() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    let real = world.skill("project/library", "tdd", "Tests first");
    let dir = world.path("project/.agent/skills/tdd");
    fs::create_dir_all(dir.join("notes")).unwrap();
    symlink("../../../library/tdd/SKILL.md", dir.join("SKILL.md")).unwrap();
    let outside = world.skill("elsewhere", "private", "Private");
    fs::create_dir_all(world.path("project/.agent/skills/private")).unwrap();
    let link = world.path("project/.agent/skills/private/SKILL.md");
    symlink(outside.join("SKILL.md"), &link).unwrap();
    let catalog = world.catalog();
    let snapshot = catalog.snapshot();
    assert_eq!(names(&snapshot), ["tdd"]);
    assert_eq!(snapshot.by_name("tdd").unwrap().base(), real.display().to_string());
    let reasons: Vec<_> =
        snapshot.problems().iter().map(|problem| (&problem.path, problem.reason.as_str())).collect();
    assert_eq!(reasons, [(&link, "is a symlink that leads out of its project or repository")]);
    assert_eq!(catalog.refresh(), Refreshed::Unchanged);
    fs::write(real.join("SKILL.md"), skill_text("tdd", "Other")).unwrap();
    assert_eq!(catalog.refresh(), Refreshed::Changed, "the target of the symlink is scanned");
    fs::remove_file(dir.join("SKILL.md")).unwrap();
    assert_eq!(catalog.refresh(), Refreshed::Changed, "the symlink itself is checked");
    assert_eq!(names(&catalog.snapshot()), [""; 0]);
}

#[test]
fn oversized_skill_is_skipped() {
    let world = World::new();
    let text = format!("{}{}", skill_text("big", "Big"), "x".repeat(1024 * 1024));
    world.write("project/.agent/skills/big/SKILL.md", text);
    let snapshot = world.snapshot();
    assert_eq!(names(&snapshot), [""; 0]);
    assert_eq!(snapshot.problems()[0].reason, "is larger than 1 MiB");
}

fn with_companions(capabilities: &[&str]) -> Catalog {
    let capabilities: BTreeSet<_> = capabilities.iter().map(|id| (*id).to_owned()).collect();
    let policy = Policy { capabilities, ..Policy::default() };
    Catalog::new(vec![Arc::new(Embedded::new(companions()))], policy)
}

#[test]
fn companions_depend_on_capabilities() {
    assert_eq!(names(&with_companions(&[]).snapshot()), ["mcp-server-setup"]);
    let catalog = with_companions(&["builtins"]);
    assert!(names(&catalog.snapshot()).contains(&"task-workflow".to_owned()));
    let everything = ["builtins", "shell", "hooks", "memory_store", "session_store", "comms", "work_graph"];
    let policy =
        Policy { capabilities: everything.iter().map(|id| (*id).to_owned()).collect(), ..Policy::default() };
    catalog.set_policy(policy);
    assert_eq!(catalog.refresh(), Refreshed::Changed);
    let expected = [
        "hook-authoring",
        "mcp-server-setup",
        "memory-retrieval",
        "mob-communication",
        "multi-agent-comms",
        "session-management",
        "shell-patterns",
        "task-workflow",
        "workgraph-workflow",
    ];
    assert_eq!(names(&catalog.snapshot()), expected);
}

#[test]
fn withheld_companion_is_reported() {
    let snapshot = with_companions(&["builtins"]).snapshot();
    let withheld =
        snapshot.problems().iter().find(|problem| problem.path.ends_with("shell-patterns")).unwrap();
    assert_eq!(withheld.reason, "needs the capability `shell`, which is not available");
    assert_eq!(withheld.effect, Effect::Withheld);
}

#[test]
fn hidden_skill_error_names_the_setting() {
    let gates = [("shell".to_owned(), "set `tools.shell_enabled` to `true`".to_owned())].into();
    let policy = Policy { capabilities: ["builtins".to_owned()].into(), gates, ..Policy::default() };
    let catalog = Catalog::new(vec![Arc::new(Embedded::new(companions()))], policy.clone());
    let snapshot = catalog.snapshot();
    let reason =
        "is not available because it needs the capability `shell`; set `tools.shell_enabled` to `true`";
    for name in ["shell-patterns", "Shell Patterns", "SHELL-PATTERNS@embedded"] {
        let error = snapshot.by_name(name).unwrap_err();
        assert_eq!(
            (error.kind().code(), error.to_string()),
            ("SKILL_NOT_FOUND", format!("the skill `{name}` {reason}"))
        );
    }
    let key = SkillKey { source_uuid: SourceId::EMBEDDED, skill_name: "shell-patterns".parse().unwrap() };
    assert_eq!(snapshot.by_key(&key).unwrap_err().to_string(), format!("the skill `{key}` {reason}"));
    let answer = meerkat_skills::view::skill_tool_answer(&snapshot, "shell-patterns");
    let last =
        "It is not available because it needs the capability `shell`; set `tools.shell_enabled` to `true`.";
    assert!(
        !answer.is_error()
            && answer.text().starts_with("Skill 'shell-patterns' not found.\n\nAvailable skills:\n")
    );
    assert_eq!(answer.text().lines().last(), Some(last));
    catalog.set_sources(Vec::new());
    catalog.set_policy(Policy { turned_off_by: Some("skills.enabled".to_owned()), ..policy });
    catalog.refresh();
    let error = catalog.snapshot().by_name("pdf").unwrap_err().to_string();
    assert_eq!(
        error,
        "the skill `pdf` is not available because skills are turned off; set `skills.enabled` to `true`"
    );
}

#[test]
fn companions_are_well_formed() {
    for companion in companions() {
        let dir = SkillName::nearest(companion.title);
        let report = lint(dir.as_str(), companion.text.as_bytes());
        let unexpected: Vec<_> = report
            .findings
            .iter()
            .filter(|finding| {
                !(finding.rule == "unknown-key" && finding.message.contains("requires_capabilities"))
            })
            .filter(|finding| !(finding.rule == "yaml" && finding.message.contains("brackets")))
            .collect();
        assert!(report.loads && unexpected.is_empty(), "{}: {unexpected:?}", companion.title);
    }
}

#[test]
fn remapped_keys_are_found() {
    let key = |name: &str| SkillKey { source_uuid: SourceId::EMBEDDED, skill_name: name.parse().unwrap() };
    let remaps: BTreeMap<_, _> = [
        (key("old-name"), key("mcp-server-setup")),
        (key("round"), key("and-round")),
        (key("and-round"), key("round")),
    ]
    .into();
    let policy = Policy { remaps, ..Policy::default() };
    let snapshot = Catalog::new(vec![Arc::new(Embedded::new(companions()))], policy).snapshot();
    assert_eq!(snapshot.by_key(&key("old-name")).unwrap().name, "mcp-server-setup");
    assert!(matches!(snapshot.by_key(&key("round")), Err(Error::CyclicRemap(_))));
    assert!(matches!(snapshot.by_key(&key("none")), Err(Error::NoSuchKey(_))));
}

/// Reading a pipe without a writer would block forever.
#[cfg(unix)]
#[test]
fn pipe_is_skipped_without_blocking() {
    let world = World::new();
    world.skill("project/.agent/skills", "pdf", "PDFs");
    let dir = world.path("project/.agent/skills/pipe");
    std::fs::create_dir_all(&dir).unwrap();
    let status = std::process::Command::new("mkfifo").arg(dir.join("SKILL.md")).status().unwrap();
    assert!(status.success());
    let (done, finished) = std::sync::mpsc::channel();
    let catalog = world.catalog();
    std::thread::spawn(move || done.send(catalog.snapshot()));
    let snapshot = finished.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    assert_eq!(names(&snapshot), ["pdf"]);
    let reasons: Vec<_> = snapshot.problems().iter().map(|problem| problem.reason.as_str()).collect();
    assert_eq!(reasons, ["is not a file"]);
}

#[test]
fn names_of_one_slash_command_shadow_each_other() {
    let world = World::new();
    world.write("project/.agent/skills/a/SKILL.md", skill_text("Foo Bar", "First"));
    world.write("project/.agent/skills/b/SKILL.md", skill_text("foo-bar", "Second"));
    world.write("project/.agent/skills/c/SKILL.md", skill_text("foo-bar", "Third"));
    let snapshot = world.snapshot();
    assert_eq!(names(&snapshot), ["Foo Bar"]);
    let prompts: Vec<_> =
        meerkat_skills::view::prompts(&snapshot).into_iter().map(|prompt| prompt.description).collect();
    assert_eq!(prompts, ["First"]);
    let lookups: Vec<_> = snapshot
        .entries()
        .iter()
        .map(|entry| (entry.skill.description.as_str(), snapshot.lookup_name(entry)))
        .collect();
    let name = |name: &str| Some(name.to_owned());
    let expected = [("First", name("Foo Bar")), ("Second", name("foo-bar@project-agent")), ("Third", None)];
    assert_eq!(lookups, expected);
    assert_eq!(snapshot.by_name("foo-bar").unwrap().description, "First");
    assert_eq!(snapshot.by_name("foo-bar@project-agent").unwrap().description, "Second");
    assert_eq!(snapshot.by_key(&snapshot.entries()[1].skill.key).unwrap().description, "First");
    assert_eq!(snapshot.collisions().count(), 2);
}

#[test]
fn trust_does_not_change_precedence() {
    let world = World::new();
    world.skill("project/.agent/skills", "pdf", "The project's");
    world.skill("home/.agent/skills", "pdf", "The user's");
    let winner = |trust| {
        let roots = meerkat_skills::Roots { trust, ..world.roots() };
        let catalog = Catalog::new(standard_roots(&roots, Limits::default()), Policy::default());
        let winner = Arc::clone(catalog.snapshot().by_name("pdf").unwrap());
        (winner.description.clone(), winner.trust)
    };
    for trust in [Trust::Trusted, Trust::Untrusted] {
        assert_eq!(winner(trust), ("The project's".to_owned(), trust));
    }
}

#[test]
fn every_view_marks_untrusted_skills() {
    let world = World::new();
    world.skill("project/.agent/skills", "pdf", "PDFs");
    let roots = meerkat_skills::Roots { trust: Trust::Untrusted, ..world.roots() };
    let catalog = Catalog::new(standard_roots(&roots, Limits::default()), Policy::default());
    let snapshot = catalog.snapshot();
    let list = meerkat_skills::view::list(&snapshot);
    let inspected = meerkat_skills::view::inspect(&snapshot, &list.skills[0].key, None).unwrap();
    assert_eq!((list.skills[0].trusted, inspected.trusted), (Some(false), Some(false)));
    let prompt = &meerkat_skills::view::prompts(&snapshot)[0].description;
    assert_eq!(prompt, "[from an untrusted directory] PDFs");
    let narrow = meerkat_skills::view::Inventory { threshold: 0, budget: 0 };
    let section = narrow.render(&snapshot, meerkat_skills::SkillFilter::All).unwrap();
    let source = list.skills[0].key.source_uuid;
    let collection = format!("<collection source=\"{source}\" count=\"1\" trusted=\"no\"/>");
    assert!(section.contains(&collection) && section.contains("has not trusted"), "{section}");
}
