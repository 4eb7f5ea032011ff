//! Skill files that are not loaded, and the reasons.

use std::path::PathBuf;

use meerkat_skills::{Catalog, IgnoreReason, Limits, Policy, Roots, standard_roots};

use crate::tree::{World, names, skill_text};

const ROOT: &str = "home/.agent/skills";

/// Returns the ignored files by reason, with their paths below the root.
fn ignored(world: &World, catalog: &Catalog) -> Vec<(IgnoreReason, Vec<PathBuf>)> {
    let root = world.path(ROOT);
    let below = |file: &PathBuf| file.strip_prefix(&root).unwrap().to_owned();
    let groups = catalog.ignored();
    assert!(groups.iter().all(|group| group.root == root && group.complete));
    groups.iter().map(|group| (group.reason, group.files.iter().map(below).collect())).collect()
}

fn files(reason: IgnoreReason, files: &[&str]) -> (IgnoreReason, Vec<PathBuf>) {
    (reason, files.iter().map(PathBuf::from).collect())
}

#[test]
fn each_ignored_file_has_its_reason() {
    let world = World::new();
    world.skill(ROOT, "outer", "Loaded");
    world.skill(ROOT, "group/a/b/c/d/deepest", "Loaded");
    for path in [
        "outer/examples/inner/SKILL.md",
        "outer/.hidden/SKILL.md",
        "group/a/b/c/d/e/deep/SKILL.md",
        "group/a/b/c/d/e/f/.hidden/skill.md",
        ".cache/old/SKILL.md",
        ".cache/old/node_modules/x/SKILL.md",
        "node_modules/package/SKILL.md",
        "title/Skill.md",
        "loud/SKILL.MD",
        ".git/x/SKILL.md",
    ] {
        world.write(&format!("{ROOT}/{path}"), skill_text("x", "Ignored"));
    }
    // A directory with both file names is one skill.
    world.write(&format!("{ROOT}/outer/skill.md"), skill_text("x", "Ignored"));
    let catalog = world.catalog();
    assert_eq!(names(&catalog.snapshot()), ["group/a/b/c/d/deepest", "outer"]);
    let expected = [
        files(IgnoreReason::TooDeep, &["group/a/b/c/d/e/deep/SKILL.md"]),
        files(
            IgnoreReason::Hidden,
            &[
                ".cache/old/SKILL.md",
                ".cache/old/node_modules/x/SKILL.md",
                "group/a/b/c/d/e/f/.hidden/skill.md",
            ],
        ),
        files(IgnoreReason::Vendored, &["node_modules/package/SKILL.md"]),
        files(IgnoreReason::Nested, &["outer/.hidden/SKILL.md", "outer/examples/inner/SKILL.md"]),
        files(IgnoreReason::Misnamed, &["loud/SKILL.MD", "title/Skill.md"]),
    ];
    assert_eq!(ignored(&world, &catalog), expected);
}

#[test]
fn ignored_files_are_summarized_with_a_fix() {
    let world = World::new();
    for name in ["a", "b"] {
        world.write(&format!("{ROOT}/.old/{name}/SKILL.md"), skill_text(name, "d"));
    }
    world.write(&format!("{ROOT}/c/Skill.md"), skill_text("c", "d"));
    let root = world.path(ROOT);
    let lines: Vec<_> = world.catalog().ignored().iter().map(ToString::to_string).collect();
    let root = root.display();
    let expected = [
        format!(
            "{root}: 2 skills are not loaded because they are in a hidden directory, such as {root}/.old/a/SKILL.md; \
             move a skill out of it, or pass that directory with --skill-dir"
        ),
        format!(
            "{root}: 1 skill is not loaded because it is not named `SKILL.md`: {root}/c/Skill.md; rename the file \
             to `SKILL.md`"
        ),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn files_that_another_source_loads_are_not_ignored() {
    let world = World::new();
    world.skill(ROOT, "outer", "Loaded");
    world.skill(&format!("{ROOT}/outer"), "inner", "Loaded by another source");
    world.skill(&format!("{ROOT}/outer"), "other", "Ignored");
    let extra = vec![world.path(&format!("{ROOT}/outer/inner")), world.path(ROOT)];
    let roots = Roots { extra, ..world.roots() };
    let catalog = Catalog::new(standard_roots(&roots, Limits::default()), Policy::default());
    assert_eq!(names(&catalog.snapshot()), ["inner", "outer"]);
    let expected = [files(IgnoreReason::Nested, &["outer/other/SKILL.md"])];
    assert_eq!(ignored(&world, &catalog), expected);
}

#[test]
fn search_stops_at_the_limit() {
    let world = World::new();
    for index in 0..10 {
        world.skill(ROOT, &format!("skill-{index}"), "d");
    }
    let limits = Limits { dirs: 5, ..Limits::default() };
    let catalog = Catalog::new(standard_roots(&world.roots(), limits), Policy::default());
    let groups = catalog.ignored();
    assert!(groups.iter().all(|group| !group.complete && group.reason == IgnoreReason::OverLimit));
    let summary = groups.first().map(|group| group.summary()).unwrap_or_default();
    assert!(summary.contains("at least ") && summary.contains("beyond the first 5 directories"), "{summary}");
}

#[cfg(unix)]
#[test]
fn symlink_targets_are_not_ignored_files() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    world.skill(&format!("{ROOT}/.store"), "linked", "Loaded through a symlink");
    world.skill("elsewhere", "outside", "Not in the project");
    symlink(world.path(ROOT).join(".store/linked"), world.path(ROOT).join("linked")).unwrap();
    let project = world.path("project/.agent/skills");
    std::fs::create_dir_all(&project).unwrap();
    symlink(world.path("elsewhere"), project.join("outside")).unwrap();
    let catalog = world.catalog();
    assert_eq!(names(&catalog.snapshot()), ["linked"]);
    assert_eq!(ignored(&world, &catalog), []);
}
