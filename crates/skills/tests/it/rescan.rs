//! Rescans: every change is detected, even among many skills, and nothing else counts as a change.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;

use meerkat_skills::{Refreshed, Snapshot};

use crate::tree::{World, skill_text};

const ROOT: &str = "home/.agent/skills";

/// A change in a directory of skills, and the skills with their descriptions afterward.
type Change = (&'static str, fn(&World), &'static [(&'static str, &'static str)]);

const CHANGES: [Change; 9] = [
    ("an edit of the same length", edit_in_place, &[("a", "Two"), ("b", "One"), ("link", "One")]),
    ("a file replaced by a rename", replace_file, &[("a", "Three"), ("b", "One"), ("link", "One")]),
    ("a new skill in a group", new_in_group, &[("a", "One"), ("b", "One"), ("c", "New"), ("link", "One")]),
    ("a new group", new_group, &[("a", "One"), ("b", "One"), ("d", "New"), ("link", "One")]),
    ("a removed skill", |world| drop_dir(world, "a"), &[("b", "One"), ("link", "One")]),
    ("a removed group", |world| drop_dir(world, "group"), &[("a", "One"), ("link", "One")]),
    ("a symlink with a new target", relink, &[("a", "One"), ("b", "One"), ("other", "One")]),
    ("an edit behind a symlink", edit_behind, &[("a", "One"), ("b", "One"), ("link", "Two")]),
    (
        "a file that became a skill",
        become_skill,
        &[("a", "One"), ("b", "One"), ("e", "New"), ("link", "One")],
    ),
];

/// Creates two skills, one of them in a group, a third behind a symlink, and a directory without a skill.
fn world(others: usize) -> World {
    let world = World::new();
    world.skill(ROOT, "a", "One");
    world.skill(&format!("{ROOT}/group"), "b", "One");
    world.skill("elsewhere", "link", "One");
    world.skill("elsewhere", "other", "One");
    world.write(&format!("{ROOT}/e/README.md"), "Nothing yet.\n");
    symlink(world.path("elsewhere/link"), world.path(ROOT).join("link")).unwrap();
    for index in 0..others {
        world.skill(ROOT, &format!("filler-{index}"), "Filler");
    }
    world
}

/// Waits for the next tick of the file system's clock, which may have a resolution of a few milliseconds.
fn next_tick(world: &World) {
    let now = || fs::metadata(world.write("clock", "tick")).unwrap().modified().unwrap();
    let start = now();
    while now() == start {}
}

fn edit_in_place(world: &World) {
    let file = world.path(ROOT).join("a/SKILL.md");
    let before = fs::metadata(&file).unwrap();
    fs::write(&file, skill_text("a", "Two")).unwrap();
    // Resetting the modification time must not hide the change.
    fs::File::options().write(true).open(&file).unwrap().set_modified(before.modified().unwrap()).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), before.len());
}

fn replace_file(world: &World) {
    let fresh = world.write("fresh.md", skill_text("a", "Three"));
    fs::rename(fresh, world.path(ROOT).join("a/SKILL.md")).unwrap();
}

fn new_in_group(world: &World) {
    world.skill(&format!("{ROOT}/group"), "c", "New");
}

fn new_group(world: &World) {
    world.skill(&format!("{ROOT}/group/deeper"), "d", "New");
}

fn drop_dir(world: &World, name: &str) {
    fs::remove_dir_all(world.path(ROOT).join(name)).unwrap();
}

fn relink(world: &World) {
    let link = world.path(ROOT).join("link");
    fs::remove_file(&link).unwrap();
    symlink(world.path("elsewhere/other"), link).unwrap();
}

fn edit_behind(world: &World) {
    world.skill("elsewhere", "link", "Two");
}

fn become_skill(world: &World) {
    world.skill(ROOT, "e", "New");
}

/// Returns the skills other than the fillers.
fn without_fillers(snapshot: &Snapshot) -> Vec<(&str, &str)> {
    let skills = snapshot.active().map(|skill| (skill.name.as_str(), skill.description.as_str()));
    let mut others: Vec<_> = skills.filter(|(_, description)| *description != "Filler").collect();
    others.sort_unstable();
    others
}

fn check_all_changes(others: usize) {
    for (what, change, expected) in CHANGES {
        let world = world(others);
        let catalog = world.catalog();
        let initial = [("a", "One"), ("b", "One"), ("link", "One")];
        assert_eq!(without_fillers(&catalog.snapshot()), initial, "{what}");
        assert_eq!(catalog.refresh(), Refreshed::Unchanged, "before {what}");
        next_tick(&world);
        change(&world);
        assert_eq!(catalog.refresh(), Refreshed::Changed, "{what}");
        assert_eq!(without_fillers(&catalog.snapshot()), expected, "{what}");
        assert_eq!(catalog.refresh(), Refreshed::Unchanged, "after {what}");
    }
}

#[test]
fn rescan_detects_every_change() {
    check_all_changes(0);
}

/// This many skills are checked on several threads.
#[test]
fn rescan_of_many_skills_detects_every_change() {
    check_all_changes(600);
}

#[test]
fn bundled_file_does_not_change_the_catalog() {
    let world = world(0);
    let catalog = world.catalog();
    let before = catalog.snapshot();
    world.write(&format!("{ROOT}/a/reference.md"), "More.\n");
    assert_eq!(catalog.refresh(), Refreshed::Unchanged);
    // It is listed on request.
    let bundle = before.by_name("a").unwrap().bundle().unwrap();
    let files: Vec<_> = bundle.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["SKILL.md", "reference.md"]);
}
