//! Reading the files of a skill, and no others.

use std::fs;
use std::sync::Arc;

use meerkat_skills::{BundledFile, Error, MAX_FILE_BYTES, Skill};

use crate::tree::{World, skill_text};

fn one(world: &World) -> Arc<Skill> {
    Arc::clone(world.snapshot().by_name("pdf").unwrap())
}

fn bundled() -> (World, Arc<Skill>) {
    let world = World::new();
    world.skill("project/.agent/skills", "pdf", "PDFs");
    world.write("project/.agent/skills/pdf/references/a b.md", "A.");
    world.write("project/.agent/skills/pdf/scripts/run.sh", "echo");
    world.write("project/.agent/skills/pdf/.env", "KEY=secret");
    world.write("project/.agent/skills/other/SKILL.md", skill_text("other", "Other"));
    world.write("secret.txt", "secret");
    let skill = one(&world);
    (world, skill)
}

#[test]
fn bundle_lists_the_skill_file_first() {
    let (_world, skill) = bundled();
    let bundle = skill.bundle().unwrap();
    let file = |path: &str, size| BundledFile { path: path.to_owned(), size };
    let size = skill_text("pdf", "PDFs").len() as u64;
    assert_eq!(
        bundle.files,
        [file("SKILL.md", size), file("references/a b.md", 2), file("scripts/run.sh", 4)]
    );
    assert_eq!(bundle.left_out, 0);
}

#[test]
fn bundled_file_can_be_read() {
    let (_world, skill) = bundled();
    assert_eq!(skill.read_file("references/a b.md").unwrap(), b"A.");
    assert_eq!(skill.read().unwrap().body(), "# pdf\n\nDo it.\n");
}

#[test]
fn paths_out_of_the_skill_are_rejected() {
    let (world, skill) = bundled();
    let absolute = world.path("secret.txt").display().to_string();
    for path in [
        "../other/SKILL.md",
        "references/../../other/SKILL.md",
        absolute.as_str(),
        "..%2fother%2fSKILL.md",
        "%2e%2e/other/SKILL.md",
        "..\\other\\SKILL.md",
        "file:/etc/passwd",
        "SKILL.md\0.txt",
        "",
        ".",
        "..",
    ] {
        assert!(matches!(skill.read_file(path), Err(Error::BadPath { .. })), "{path:?}");
    }
    for path in ["none.md", "references", "references/none.md"] {
        assert!(matches!(skill.read_file(path), Err(Error::NoSuchFile(_))), "{path:?}");
    }
}

#[cfg(unix)]
#[test]
fn symlinks_out_of_the_skill_are_rejected() {
    use std::os::unix::fs::symlink;
    let (world, skill) = bundled();
    let dir = world.path("project/.agent/skills/pdf");
    symlink(world.path("secret.txt"), dir.join("link.txt")).unwrap();
    symlink(world.path("project"), dir.join("up")).unwrap();
    symlink("references/a b.md", dir.join("inside.md")).unwrap();
    for path in ["link.txt", "up/.agent/skills/other/SKILL.md"] {
        assert!(matches!(skill.read_file(path), Err(Error::BadPath { .. })), "{path}");
    }
    assert_eq!(skill.read_file("inside.md").unwrap(), b"A.");
    assert!(skill.bundle().unwrap().files.iter().all(|file| !file.path.contains("link")));
}

#[cfg(unix)]
#[test]
fn directory_replaced_by_a_symlink_is_rejected() {
    use std::os::unix::fs::symlink;
    let (world, skill) = bundled();
    let dir = world.path("project/.agent/skills/pdf");
    fs::remove_dir_all(&dir).unwrap();
    world.write("private/SKILL.md", skill_text("pdf", "Other"));
    symlink(world.path("private"), &dir).unwrap();
    assert!(matches!(skill.read(), Err(Error::BadPath { .. })));
}

#[test]
fn unlisted_files_cannot_be_read() {
    let (world, skill) = bundled();
    world.write("project/.agent/skills/pdf/node_modules/x.js", "x");
    world.write("project/.agent/skills/pdf/.git/config", "x");
    #[cfg(unix)]
    std::os::unix::fs::symlink(".env", world.path("project/.agent/skills/pdf/plain.txt")).unwrap();
    for path in [".env", "node_modules/x.js", ".git/config", "plain.txt"] {
        assert!(matches!(skill.read_file(path), Err(Error::NoSuchFile(_))), "{path}");
    }
}

#[test]
fn oversized_files_are_rejected() {
    let (world, skill) = bundled();
    let file = fs::File::create(world.path("project/.agent/skills/pdf/big.bin")).unwrap();
    file.set_len(MAX_FILE_BYTES + 1).unwrap();
    assert!(matches!(skill.read_file("big.bin"), Err(Error::TooLarge { .. })));
    let text = fs::OpenOptions::new().append(true).open(world.path("project/.agent/skills/pdf/SKILL.md"));
    text.unwrap().set_len(1024 * 1024 + 1).unwrap();
    assert!(matches!(skill.read(), Err(Error::TooLarge { .. })));
}

#[test]
fn removed_skill_returns_not_found() {
    let (world, skill) = bundled();
    fs::remove_dir_all(world.path("project/.agent/skills/pdf")).unwrap();
    assert!(matches!(skill.read(), Err(Error::NoSuchFile(_))));
}

#[test]
fn bundle_counts_omitted_files() {
    let (world, skill) = bundled();
    for index in 0..600 {
        world.write(&format!("project/.agent/skills/pdf/many/{index:03}.txt"), "x");
    }
    let bundle = skill.bundle().unwrap();
    assert_eq!((bundle.files.len(), bundle.left_out), (512, 91));
}

#[test]
fn bundle_limits_the_visited_directories() {
    let (world, skill) = bundled();
    for index in 0..100 {
        let group = world.path(&format!("project/.agent/skills/pdf/many/{index}"));
        (0..110).for_each(|index| std::fs::create_dir_all(group.join(index.to_string())).unwrap());
        std::fs::write(group.join("last.txt"), "x").unwrap();
    }
    let bundle = skill.bundle().unwrap();
    assert_eq!(bundle.files[0].path, "SKILL.md");
    assert!(bundle.files.len() < 100, "{}", bundle.files.len());
}
