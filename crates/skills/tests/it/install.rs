//! Installing, removing, and creating skills.

use std::fs;
use std::process::Command;

use meerkat_skills::{Error, GitOptions, Origin, Overwrite, create, ensure_within, install, lint, remove};
use serde_json::{Value, json};

use crate::tree::{World, skill_text};

fn lock(world: &World) -> Value {
    serde_json::from_slice(&fs::read(world.path("home/.rkat/skills/skills.lock.json")).unwrap()).unwrap()
}

fn dir(world: &World, path: &str) -> Origin {
    Origin::Directory(world.path(path))
}

#[tokio::test]
async fn installed_skill_is_copied_and_locked() {
    let world = World::new();
    world.skill("from/group", "pdf", "PDFs");
    world.write("from/group/pdf/scripts/run.sh", "echo");
    let root = world.path("home/.rkat/skills");
    let installed = install(&dir(&world, "from"), None, &root, Overwrite::Refuse).await.unwrap();
    assert_eq!(installed.name, "pdf");
    assert_eq!(fs::read_to_string(root.join("pdf/scripts/run.sh")).unwrap(), "echo");
    let expected = json!({"version": 1, "skills": {"pdf": {
        "name": "pdf",
        "origin": world.path("from"),
        "digest": installed.digest,
    }}});
    assert_eq!(lock(&world), expected);
    let leftovers: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".install"))
        .collect();
    assert_eq!(leftovers, [""; 0]);
}

#[tokio::test]
async fn existing_skill_is_replaced_only_with_force() {
    let world = World::new();
    world.skill("from", "pdf", "First");
    let root = world.path("home/.rkat/skills");
    install(&dir(&world, "from"), None, &root, Overwrite::Refuse).await.unwrap();
    world.skill("from", "pdf", "Second");
    let again = install(&dir(&world, "from"), None, &root, Overwrite::Refuse).await;
    assert!(matches!(again, Err(Error::Exists(_))));
    assert!(fs::read_to_string(root.join("pdf/SKILL.md")).unwrap().contains("First"));
    install(&dir(&world, "from"), None, &root, Overwrite::Replace).await.unwrap();
    assert!(fs::read_to_string(root.join("pdf/SKILL.md")).unwrap().contains("Second"));
}

#[tokio::test]
async fn one_of_several_skills_must_be_named() {
    let world = World::new();
    world.skill("from", "a", "A");
    world.skill("from", "b", "B");
    let root = world.path("home/.rkat/skills");
    let error = install(&dir(&world, "from"), None, &root, Overwrite::Refuse).await.unwrap_err();
    let origin = world.path("from").display().to_string();
    assert_eq!(error.to_string(), format!("there are several skills in `{origin}`: a, b; name one of them"));
    let installed = install(&dir(&world, "from"), Some("B"), &root, Overwrite::Refuse).await.unwrap();
    assert_eq!(installed.name, "b");
    fs::create_dir_all(world.path("empty")).unwrap();
    let nothing = install(&dir(&world, "empty"), None, &root, Overwrite::Refuse).await;
    assert!(matches!(nothing, Err(Error::NothingToInstall(_))));
}

#[cfg(unix)]
#[tokio::test]
async fn symlinks_are_not_installed() {
    let world = World::new();
    let skill = world.skill("from", "pdf", "PDFs");
    world.write("secret", "secret");
    std::os::unix::fs::symlink(world.path("secret"), skill.join("leak")).unwrap();
    let root = world.path("home/.rkat/skills");
    install(&dir(&world, "from"), None, &root, Overwrite::Refuse).await.unwrap();
    assert!(root.join("pdf/leak").symlink_metadata().is_err());
}

/// In a crafted directory, symlinks to other files are rejected, and their targets are neither read nor changed.
#[cfg(unix)]
#[tokio::test]
async fn symlinks_are_never_written_through() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    world.skill("from", "pdf", "PDFs");
    let victim = world.write("victim", "precious");
    let root = world.path("project/.rkat/skills");
    fs::create_dir_all(&root).unwrap();
    for name in [".skills.lock", "skills.lock.json"] {
        let link = root.join(name);
        symlink(&victim, &link).unwrap();
        let installed = install(&dir(&world, "from"), None, &root, Overwrite::Replace).await;
        assert!(matches!(installed, Err(Error::Symlink(path)) if path == link), "{name}");
        let removed = remove(&root, "pdf", Overwrite::Replace);
        assert!(matches!(removed, Err(Error::Symlink(path)) if path == link), "{name}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(link).unwrap();
    }
    install(&dir(&world, "from"), None, &root, Overwrite::Replace).await.unwrap();
}

#[tokio::test]
async fn skill_is_installed_from_a_repository() {
    let world = World::new();
    world.skill("repository/skills", "pdf", "PDFs");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(world.path("repository"));
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
        assert!(command.output().unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "--quiet", "-b", "main"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "skills"]);
    let url = world.path("repository").display().to_string();
    let root = world.path("home/.rkat/skills");
    let origin = Origin::Git(GitOptions::new(url.clone(), world.path("cache")));
    let installed = install(&origin, Some("pdf"), &root, Overwrite::Refuse).await.unwrap();
    assert_eq!(installed.origin, url);
    assert_eq!(installed.commit.unwrap().len(), 40);
    assert_eq!(fs::read_to_string(root.join("pdf/SKILL.md")).unwrap(), skill_text("pdf", "PDFs"));
}

#[tokio::test]
async fn changed_skill_is_removed_only_with_force() {
    let world = World::new();
    world.skill("from", "pdf", "PDFs");
    let root = world.path("home/.rkat/skills");
    install(&dir(&world, "from"), None, &root, Overwrite::Refuse).await.unwrap();
    world.skill("home/.rkat/skills", "mine", "Mine");
    assert!(matches!(remove(&root, "mine", Overwrite::Refuse), Err(Error::NotInstalled(_))));
    assert!(matches!(remove(&root, "none", Overwrite::Replace), Err(Error::NoSuchName(_))));
    assert!(matches!(remove(&root, "../skills", Overwrite::Replace), Err(Error::BadName { .. })));
    world.write("home/.rkat/skills/pdf/notes.md", "My notes.");
    assert!(matches!(remove(&root, "pdf", Overwrite::Refuse), Err(Error::Changed(_))));
    assert_eq!(remove(&root, "pdf", Overwrite::Replace).unwrap().name, "pdf");
    assert!(!root.join("pdf").exists() && root.join("mine").exists());
    assert_eq!(remove(&root, "mine", Overwrite::Replace).unwrap().name, "mine");
    assert!(!root.join("mine").exists());
    assert_eq!(lock(&world), json!({"version": 1, "skills": {}}));
}

#[test]
fn created_skill_is_valid() {
    let world = World::new();
    let root = world.path("project/.rkat/skills");
    let description = "Use when: \"quotes\", #hashes\nand lines are in it";
    let file = create(&root, "my-skill", description).unwrap();
    assert_eq!(file, root.join("my-skill/SKILL.md"));
    let report = lint("my-skill", &fs::read(file).unwrap());
    assert_eq!(report.findings, []);
    assert_eq!(world.snapshot().by_name("my-skill").unwrap().description, description);
    assert!(matches!(create(&root, "my-skill", "d"), Err(Error::Taken(_))));
    assert!(matches!(create(&root, "My Skill", "d"), Err(Error::BadName { .. })));
}

#[cfg(unix)]
#[tokio::test]
async fn skill_directory_may_be_a_symlink() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    world.skill("from", "pdf", "PDFs");
    for (link, target) in [("project/.rkat", "project/shared"), ("home/.rkat", "elsewhere")] {
        fs::create_dir_all(world.path(target).join("skills")).unwrap();
        symlink(world.path(target), world.path(link)).unwrap();
        let root = world.path(link).join("skills");
        install(&dir(&world, "from"), None, &root, Overwrite::Refuse).await.unwrap();
        assert!(world.path(target).join("skills/pdf/SKILL.md").is_file());
        assert_eq!(world.snapshot().by_name("pdf").unwrap().description, "PDFs");
        remove(&root, "pdf", Overwrite::Refuse).unwrap();
    }
    let project = world.path("project");
    assert!(ensure_within(&project, &project.join(".rkat/skills")).is_ok());
    symlink(world.path("elsewhere"), project.join("out")).unwrap();
    let out = project.join("out/skills/not/there");
    assert!(matches!(ensure_within(&project, &out), Err(Error::Outside(path)) if path == out));
}
