//! The `skill` tool: its description and its responses.

use std::fs;

use meerkat_skills::view::{
    SkillAnswer, skill_tool_annotations, skill_tool_answer, skill_tool_description, skill_tool_schema,
};
use meerkat_skills::{Effect, Snapshot};
use serde_json::json;

use crate::tree::{World, names, skill_text};

fn loaded(snapshot: &Snapshot, name: &str) -> String {
    match skill_tool_answer(snapshot, name) {
        SkillAnswer::Loaded(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn known_name_returns_the_skill() {
    let world = World::new();
    let dir = world.skill("project/.claude/skills", "git", "Git deployment workflow skill");
    let text = format!(
        "Loading: git\nBase directory: {}\n\n{}",
        dir.display(),
        skill_text("git", "Git deployment workflow skill")
    );
    assert_eq!(loaded(&world.snapshot(), "git"), text);
}

#[test]
fn names_are_case_insensitive() {
    let world = World::new();
    world.skill("home/.agent/skills", "git", "Git workflow");
    world.skill("home/.agent/skills", "mcp-builder", "MCP development");
    let snapshot = world.snapshot();
    for (query, found) in [("Git", "git"), ("GIT", "git"), ("MCP-Builder", "mcp-builder"), (" git ", "git")] {
        assert!(loaded(&snapshot, query).starts_with(&format!("Loading: {found}\n")), "{query}");
    }
}

#[test]
fn unknown_name_returns_the_list() {
    let world = World::new();
    world.skill("project/.claude/skills", "postgres", "PostgreSQL database operations");
    world.skill("project/.claude/skills", "git", "Git deployment workflow skill");
    world.skill("home/.claude/skills", "mcp-builder", "MCP server development guide");
    let answer = skill_tool_answer(&world.snapshot(), "nonexistent");
    let text = "Skill 'nonexistent' not found.\n\nAvailable skills:\n\
        - git: Git deployment workflow skill\n\
        - mcp-builder: MCP server development guide\n\
        - postgres: PostgreSQL database operations\n\n\
        Use the exact skill name (case-insensitive) to load a skill.";
    assert!(!answer.is_error());
    assert_eq!(answer, SkillAnswer::NotFound(text.to_owned()));
}

#[test]
fn empty_name_is_rejected() {
    let snapshot = World::new().snapshot();
    for name in ["", "  "] {
        let answer = skill_tool_answer(&snapshot, name);
        assert_eq!(answer, SkillAnswer::Refused("Skill name cannot be empty".to_owned()));
        assert!(answer.is_error());
    }
}

#[test]
fn path_as_name_is_rejected() {
    let world = World::new();
    world.skill("project/.agent/skills", "git", "Git");
    let snapshot = world.snapshot();
    for name in
        ["../../../etc/passwd", ".ssh/id_rsa", "/etc/passwd", "..\\git", "git\0", "..%2fgit", "%2e%2e"]
    {
        assert!(matches!(skill_tool_answer(&snapshot, name), SkillAnswer::Refused(_)), "{name:?}");
    }
}

#[test]
fn names_may_have_any_characters() {
    let world = World::new();
    for (dir, name) in
        [("a", "Building CI/CD Pipelines"), ("b", "a\\b"), ("c", "Wait... what"), ("d", "50%25")]
    {
        world.write(&format!("project/.agent/skills/{dir}/SKILL.md"), skill_text(name, "d"));
    }
    let snapshot = world.snapshot();
    assert_eq!(snapshot.problems(), []);
    for (query, found) in [
        ("Building CI/CD Pipelines", "Building CI/CD Pipelines"),
        ("building ci/cd pipelines@project-agent", "Building CI/CD Pipelines"),
        ("building-ci-cd-pipelines", "Building CI/CD Pipelines"),
        ("A\\B", "a\\b"),
        ("Wait... what", "Wait... what"),
        ("50%25", "50%25"),
    ] {
        assert!(loaded(&snapshot, query).starts_with(&format!("Loading: {found}\n")), "{query}");
    }
    for name in ["CI/CD", "Building CI/CD Pipelines/..", "../Building CI/CD Pipelines", "50%2f"] {
        assert!(matches!(skill_tool_answer(&snapshot, name), SkillAnswer::Refused(_)), "{name:?}");
    }
}

#[test]
fn unusable_names_are_skipped() {
    let world = World::new();
    world.write("project/.agent/skills/a/SKILL.md", "---\nname: \"a\\nb\"\ndescription: d\n---\n");
    world.write("project/.agent/skills/b/SKILL.md", skill_text("../../etc/passwd", "d"));
    let snapshot = world.snapshot();
    assert_eq!(names(&snapshot), [""; 0]);
    let reasons: Vec<_> = snapshot.problems().iter().map(|problem| problem.reason.as_str()).collect();
    assert_eq!(reasons, ["the name has a control character", "the name has a `.` or `..` path segment"]);
}

#[test]
fn roots_take_precedence_in_order() {
    let roots = [
        "project/.agent/skills",
        "home/.agent/skills",
        "project/.claude/skills",
        "home/.claude/skills",
        "project/.agents/skills",
        "home/.agents/skills",
        "project/.rkat/skills",
        "home/.rkat/skills",
    ];
    let world = World::new();
    for root in roots.iter().rev() {
        world.skill(root, "same", root);
        let first = world.snapshot();
        assert_eq!(first.by_name("same").unwrap().description, *root);
    }
}

#[test]
fn current_directory_precedes_the_project() {
    let world = World::new();
    let kinds = [".agent/skills", ".claude/skills", ".agents/skills", ".rkat/skills"];
    let bases = ["project/pkg", "project", "home"];
    let roots: Vec<_> = kinds.iter().flat_map(|kind| bases.map(|base| format!("{base}/{kind}"))).collect();
    for root in roots.iter().rev() {
        world.skill(root, "same", root);
        let sources = world.roots().in_directory(Some(world.path("project/pkg")));
        let sources = meerkat_skills::standard_roots(&sources, meerkat_skills::Limits::default());
        let snapshot = meerkat_skills::Catalog::new(sources, meerkat_skills::Policy::default()).snapshot();
        let first = snapshot.by_name("same").unwrap();
        assert_eq!(
            (&first.description, first.scope == meerkat_skills::Scope::Project),
            (root, !root.starts_with("home"))
        );
    }
}

#[test]
fn only_a_directory_inside_the_project_is_added() {
    let world = World::new();
    let inside = world.write("project/pkg/file", "").parent().unwrap().to_owned();
    let directory =
        |roots: meerkat_skills::Roots, current: &str| roots.in_directory(Some(world.path(current))).directory;
    assert_eq!(directory(world.roots(), "project/pkg"), Some(inside));
    for outside in ["project", "", "home", "projects"] {
        assert_eq!(directory(world.roots(), outside), None, "{outside}");
    }
    let around_home = meerkat_skills::Roots { project: Some(world.path("")), ..world.roots() };
    assert_eq!(directory(around_home, "home"), None);
    let without_project = meerkat_skills::Roots { project: None, ..world.roots() };
    assert_eq!(directory(without_project, "project/pkg"), None);
}

#[test]
fn requested_directory_comes_first() {
    let world = World::new();
    world.skill("project/.agent/skills", "same", "project");
    world.skill("elsewhere/deep/down", "same", "requested");
    let mut roots = world.roots();
    roots.extra = vec![world.path("elsewhere")];
    let sources = meerkat_skills::standard_roots(&roots, meerkat_skills::Limits::default());
    let snapshot = meerkat_skills::Catalog::new(sources, meerkat_skills::Policy::default()).snapshot();
    assert_eq!(snapshot.by_name("same").unwrap().description, "requested");
    assert_eq!(snapshot.by_name("same@project-agent").unwrap().description, "project");
}

#[test]
fn new_skill_appears_after_a_refresh() {
    let world = World::new();
    let catalog = world.catalog();
    assert_eq!(names(&catalog.snapshot()), [""; 0]);
    world.skill("project/.agent/skills", "late", "Late");
    catalog.refresh();
    assert_eq!(names(&catalog.snapshot()), ["late"]);
    fs::remove_dir_all(world.path("project/.agent/skills/late")).unwrap();
    catalog.refresh();
    assert_eq!(names(&catalog.snapshot()), [""; 0]);
}

#[test]
fn missing_root_is_not_a_problem() {
    let world = World::new();
    world.skill("home/.claude/skills", "git", "Git");
    let snapshot = world.snapshot();
    assert_eq!(names(&snapshot), ["git"]);
    assert_eq!(snapshot.problems(), []);
}

#[test]
fn invalid_frontmatter_is_skipped_and_reported() {
    let world = World::new();
    world.skill("home/.claude/skills", "good", "Good");
    let path = world.write("home/.claude/skills/bad/SKILL.md", "---\nname: bad\n");
    let snapshot = world.snapshot();
    assert_eq!(names(&snapshot), ["good"]);
    let problems: Vec<_> = snapshot.problems().iter().map(ToString::to_string).collect();
    let fix = "the frontmatter is not closed; add a line `---` below `description:`";
    assert_eq!(problems, [format!("{}:1: {fix}", path.display())]);
}

#[test]
fn missing_field_is_skipped_and_reported() {
    let world = World::new();
    let nameless = world.write("home/.claude/skills/a/SKILL.md", "---\ndescription: d\n---\n");
    let vague = world.write("home/.claude/skills/b/SKILL.md", "---\nname: b\ndescription:\n---\n");
    let snapshot = world.snapshot();
    assert_eq!(names(&snapshot), [""; 0]);
    let problems: Vec<_> = snapshot.problems().iter().map(ToString::to_string).collect();
    let expected = [
        format!(
            "{}:1: `name` is missing; add a line `name:` with the name of the directory",
            nameless.display()
        ),
        format!(
            "{}:1: `description` is missing; add a line `description:` that says when to use it",
            vague.display()
        ),
    ];
    assert_eq!(problems, expected);
}

#[cfg(unix)]
#[test]
fn unreadable_file_is_skipped_and_reported() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let world = World::new();
    world.skill("home/.claude/skills", "good", "Good");
    // No user can read a symlink to itself, not even root.
    let dir = world.path("home/.claude/skills/circle");
    fs::create_dir_all(&dir).unwrap();
    symlink("SKILL.md", dir.join("SKILL.md")).unwrap();
    let closed = world.skill("home/.claude/skills", "closed", "Closed").join("SKILL.md");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let mut unreadable = vec![dir.join("SKILL.md")];
    let mut readable = vec!["good"];
    if fs::read(&closed).is_err() {
        unreadable.insert(1, closed);
    } else {
        readable.insert(0, "closed");
    }
    let snapshot = world.snapshot();
    assert_eq!(names(&snapshot), readable);
    let problems: Vec<_> =
        snapshot.problems().iter().map(|problem| (problem.effect, problem.path.clone())).collect();
    let expected: Vec<_> = unreadable.into_iter().map(|path| (Effect::Unreadable, path)).collect();
    assert_eq!(problems, expected);
}

#[test]
fn description_escapes_only_required_characters() {
    let world = World::new();
    world.skill("project/.agent/skills", "xml", "Turns <a> & <b> into \"c\"");
    world.skill("home/.agent/skills", "git", "Git workflow");
    world.write(
        "home/.agent/skills/hidden/SKILL.md",
        "---\nname: hidden\ndescription: h\ndisable-model-invocation: true\n---\n",
    );
    let description = skill_tool_description(&world.snapshot());
    insta::assert_snapshot!(description, @r#"
    Execute a skill within the main conversation

    <skills_instructions>
    When users ask you to perform tasks, check if any of the available skills below can help complete the task more effectively. Skills provide specialized capabilities and domain knowledge.

    How to use skills:
    - Invoke skills using this tool with the skill name only (no arguments)
    - When you invoke a skill, you will see <command-message>The "{name}" skill is loading</command-message>
    - The skill's prompt will expand and provide detailed instructions on how to complete the task
    - Examples:
      - `command: "pdf"` - invoke the pdf skill
      - `command: "xlsx"` - invoke the xlsx skill
      - `command: "ms-office-suite:pdf"` - invoke using fully qualified name

    Important:
    - Only use skills listed in <available_skills> below
    - Do not invoke a skill that is already running
    - Do not use this tool for built-in CLI commands (like /help, /clear, etc.)
    </skills_instructions>

    <available_skills>
    <skill>
    <name>git</name>
    <description>Git workflow</description>
    <location>global</location>
    </skill>
    <skill>
    <name>xml</name>
    <description>Turns &lt;a> &amp; &lt;b> into "c"</description>
    <location>project</location>
    </skill>
    </available_skills>
    "#);
}

/// Returns the descriptions in the tool's description.
fn described(description: &str) -> Vec<&str> {
    let part = |line| str::strip_prefix(line, "<description>")?.strip_suffix("</description>");
    description.lines().filter_map(part).collect()
}

#[test]
fn list_within_the_budget_is_not_truncated() {
    let world = World::new();
    for index in 0..100 {
        world.skill("home/.agent/skills", &format!("skill-{index}"), "word ".repeat(100).trim());
    }
    let description = skill_tool_description(&world.snapshot());
    assert_eq!(described(&description), ["word ".repeat(100).trim(); 100]);
    assert!(!description.contains("<note>"));
}

#[test]
fn long_descriptions_are_truncated_evenly() {
    let world = World::new();
    for index in 0..200 {
        let words = if index % 2 == 0 { 10 } else { 200 };
        world.skill("home/.agent/skills", &format!("skill-{index}"), "word ".repeat(words).trim());
    }
    let description = skill_tool_description(&world.snapshot());
    let list = description.split("<available_skills>\n").last().unwrap();
    assert!((60 * 1024..=64 * 1024 + 200).contains(&list.len()), "{}", list.len());
    let mut lengths: Vec<_> = described(list).iter().map(|text| text.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let [short, long] = lengths[..] else { panic!("{lengths:?}") };
    assert!(short == 49 && long > 400, "{short} {long}");
    let note =
        "<note>100 of 200 descriptions are cut. Load a skill to read all of it.</note>\n</available_skills>";
    assert!(list.ends_with(note), "{list}");
}

#[test]
fn omitted_skills_are_counted_and_searchable() {
    let world = World::new();
    world.skill("project/.agent/skills", "zebra", "The project's own");
    for index in 0..1000 {
        let name = format!("skill-{index:04}");
        world.skill("home/.agent/skills", &name, &format!("Number {index} {}", "word ".repeat(30)));
    }
    world.skill("home/.agent/skills", "trip-planner", "Plans journeys by train");
    let snapshot = world.snapshot();
    let description = skill_tool_description(&snapshot);
    assert!(description.len() < 70 * 1024, "{}", description.len());
    assert!(description.contains("<name>zebra</name>"), "the first source is listed first");
    let listed = described(&description).len();
    let note = format!(
        "<note>{} of 1002 skills are not listed, and {} descriptions are cut. To find one, pass words that \
         describe it as `name`.</note>",
        1002 - listed,
        listed - 1
    );
    assert!(description.contains(&note), "{}", &description[description.len() - 400..]);
    for query in ["plan journeys", "trip", "trip-planer", "TRIP_PLANNER 2"] {
        let answer = skill_tool_answer(&snapshot, query);
        let first = answer.text().lines().nth(3);
        assert_eq!(first, Some("- trip-planner: Plans journeys by train"), "{query}");
        assert!(answer.text().len() < 17 * 1024);
        let more = " more skills are not listed. To find one, pass words that describe it as `name`.\n";
        assert!(answer.text().contains(more), "{}", answer.text());
    }
}

#[test]
fn long_escaped_description_keeps_other_skills() {
    let world = World::new();
    world.skill("project/.agent/skills", "aaa", &format!("a{}", "<".repeat(22_000)));
    world.skill("project/.agent/skills", "bbb", &format!("b{}", "&".repeat(900_000)));
    world.skill("home/.agent/skills", "git", "Git workflow");
    let description = skill_tool_description(&world.snapshot());
    let list = description.split("<available_skills>\n").last().unwrap();
    assert!((60 * 1024..=64 * 1024 + 200).contains(&list.len()), "{}", list.len());
    let [first, second, git] = described(list)[..] else { panic!("{list}") };
    assert!(first.starts_with("a&lt;") && first.ends_with("&lt;…"), "{first}");
    assert!(second.starts_with("b&amp;") && second.ends_with("&amp;…"), "{second}");
    assert_eq!(git, "Git workflow");
    assert!(list.contains("<note>2 of 3 descriptions are cut."), "{list}");
}

#[test]
fn tool_has_annotations_and_a_schema() {
    let annotations = json!({
        "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
    });
    assert_eq!(serde_json::to_value(skill_tool_annotations()).unwrap(), annotations);
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "minLength": 1,
                "description": "Name of the skill to load (case-insensitive)",
            },
        },
        "required": ["name"],
        "additionalProperties": false,
    });
    assert_eq!(skill_tool_schema(), schema);
}
