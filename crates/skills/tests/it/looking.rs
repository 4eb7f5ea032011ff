//! Another look: whatever has changed is seen, wherever it is among many, and nothing else is taken for a change.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;

use meerkat_skills::{Refreshed, Snapshot};

use crate::tree::{World, skill_text};

const ROOT: &str = "home/.agent/skills";

/// Something that happens in a directory of skills, and the skills with their descriptions that are there afterwards.
type Change = (&'static str, fn(&World), &'static [(&'static str, &'static str)]);

const CHANGES: [Change; 9] = [
    ("an edit of the same length", edit_in_place, &[("a", "Two"), ("b", "One"), ("link", "One")]),
    ("a file put over the old one", put_over, &[("a", "Three"), ("b", "One"), ("link", "One")]),
    ("a new skill in a group", new_in_group, &[("a", "One"), ("b", "One"), ("c", "New"), ("link", "One")]),
    ("a new group", new_group, &[("a", "One"), ("b", "One"), ("d", "New"), ("link", "One")]),
    ("a skill that went away", |world| drop_folder(world, "a"), &[("b", "One"), ("link", "One")]),
    ("a group that went away", |world| drop_folder(world, "group"), &[("a", "One"), ("link", "One")]),
    ("a link that leads elsewhere", relink, &[("a", "One"), ("b", "One"), ("other", "One")]),
    ("an edit behind a link", edit_behind, &[("a", "One"), ("b", "One"), ("link", "Two")]),
    (
        "a file that became a skill",
        become_skill,
        &[("a", "One"), ("b", "One"), ("e", "New"), ("link", "One")],
    ),
];

/// Two skills of their own, one of them in a group, one behind a link, and a directory that is no skill.
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

/// Goes on until the clock of the file system does: it may count in steps of some milliseconds.
fn next_tick(world: &World) {
    let now = || fs::metadata(world.write("clock", "tick")).unwrap().modified().unwrap();
    let start = now();
    while now() == start {}
}

fn edit_in_place(world: &World) {
    let file = world.path(ROOT).join("a/SKILL.md");
    let before = fs::metadata(&file).unwrap();
    fs::write(&file, skill_text("a", "Two")).unwrap();
    // Whoever sets the time back hides nothing.
    fs::File::options().write(true).open(&file).unwrap().set_modified(before.modified().unwrap()).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), before.len());
}

fn put_over(world: &World) {
    let fresh = world.write("fresh.md", skill_text("a", "Three"));
    fs::rename(fresh, world.path(ROOT).join("a/SKILL.md")).unwrap();
}

fn new_in_group(world: &World) {
    world.skill(&format!("{ROOT}/group"), "c", "New");
}

fn new_group(world: &World) {
    world.skill(&format!("{ROOT}/group/deeper"), "d", "New");
}

fn drop_folder(world: &World, name: &str) {
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

/// The skills that are not there to be many.
fn ours(snapshot: &Snapshot) -> Vec<(&str, &str)> {
    let skills = snapshot.active().map(|skill| (skill.name.as_str(), skill.description.as_str()));
    let mut ours: Vec<_> = skills.filter(|(_, description)| *description != "Filler").collect();
    ours.sort_unstable();
    ours
}

fn every_change_is_seen(others: usize) {
    for (what, change, expected) in CHANGES {
        let world = world(others);
        let catalogue = world.catalogue();
        assert_eq!(ours(&catalogue.snapshot()), [("a", "One"), ("b", "One"), ("link", "One")], "{what}");
        assert_eq!(catalogue.refresh(), Refreshed::Unchanged, "before {what}");
        next_tick(&world);
        change(&world);
        assert_eq!(catalogue.refresh(), Refreshed::Changed, "{what}");
        assert_eq!(ours(&catalogue.snapshot()), expected, "{what}");
        assert_eq!(catalogue.refresh(), Refreshed::Unchanged, "after {what}");
    }
}

#[test]
fn another_look_sees_every_change() {
    every_change_is_seen(0);
}

/// So many are looked at on several threads.
#[test]
fn another_look_at_many_sees_every_change() {
    every_change_is_seen(600);
}

#[test]
fn what_lies_beside_a_skill_file_is_no_change_of_the_catalogue() {
    let world = world(0);
    let catalogue = world.catalogue();
    let before = catalogue.snapshot();
    world.write(&format!("{ROOT}/a/reference.md"), "More.\n");
    assert_eq!(catalogue.refresh(), Refreshed::Unchanged);
    // It is listed when somebody asks.
    let bundle = before.by_name("a").unwrap().bundle().unwrap();
    let files: Vec<_> = bundle.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["SKILL.md", "reference.md"]);
}
