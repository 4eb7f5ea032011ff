//! The project of a directory, and the files used from it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Output, Rkat};

fn at(rkat: &Rkat, dir: &Path, args: &[&str]) -> Output {
    rkat.args(args.iter().copied()).current_dir(dir).run()
}

fn realm(rkat: &Rkat, dir: &Path) -> String {
    at(rkat, dir, &["realm", "current"]).text().trim().to_owned()
}

/// Creates a directory below the home directory.
fn in_home(rkat: &Rkat, name: &str) -> PathBuf {
    let dir = rkat.home().join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn trust_leaves_sessions_in_their_realm() {
    let rkat = Rkat::new();
    let (one, two) = (in_home(&rkat, "one"), in_home(&rkat, "two"));
    at(&rkat, &one, &["run", "-q", "say hello"]).text();
    let before = (realm(&rkat, &one), realm(&rkat, &two));
    assert_ne!(before.0, before.1);
    at(&rkat, &one, &["trust"]).text();
    assert!(rkat.home().join(".rkat/trust.json").is_file());
    assert_eq!((realm(&rkat, &one), realm(&rkat, &two)), before);
    let listed = at(&rkat, &one, &["session", "list"]);
    assert!(listed.stdout.lines().count() == 2 && listed.stderr.is_empty(), "{listed}");
}

#[test]
fn subdirectory_uses_its_projects_files_and_realm() {
    let rkat = Rkat::new();
    let (project, inner) = (in_home(&rkat, "project"), in_home(&rkat, "project/src/deep"));
    fs::create_dir(project.join(".git")).unwrap();
    // Dotfiles in a repository do not make the home directory a project.
    fs::create_dir(rkat.home().join(".git")).unwrap();
    assert_eq!(realm(&rkat, &project), realm(&rkat, &inner));
    at(&rkat, &inner, &["mcp", "add", "here", "--", "true"]).text();
    let file = project.join(".rkat/mcp.toml");
    assert!(file.is_file() && !inner.join(".rkat").exists());
    let hook = "[[hooks.entries]]\nid = \"h\"\npoint = \"run_started\"\nruntime = { type = \"command\", command = \"true\" }\n";
    fs::write(project.join(".rkat/config.toml"), hook).unwrap();
    for dir in [&project, &inner] {
        let listed = at(&rkat, dir, &["mcp", "list"]);
        assert!(listed.text().contains("here"), "{listed}");
    }
    let trusted = at(&rkat, &inner, &["trust"]);
    for path in [file, project.join(".rkat/config.toml"), project.clone()] {
        assert!(trusted.text().contains(&format!("trusted {}", path.display())), "{trusted}");
    }
    assert_eq!(realm(&rkat, &project), realm(&rkat, &inner));
}

/// Writes a skill whose description names its directory.
fn write_skill(project: &Path, root: &str, name: &str) {
    let dir = project.join(root).join(name);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("SKILL.md"), format!("---\nname: {name}\ndescription: In {root}\n---\n")).unwrap();
}

#[test]
fn skills_of_the_current_directory_come_first() {
    let rkat = Rkat::new();
    let (project, package) = (in_home(&rkat, "repo"), in_home(&rkat, "repo/pkg"));
    fs::create_dir(project.join(".git")).unwrap();
    write_skill(&project, "pkg/.claude/skills", "mine");
    write_skill(&project, "pkg/.claude/skills", "shared");
    write_skill(&project, ".claude/skills", "shared");
    write_skill(&project, ".agent/skills", "other");
    let listed = |dir: &Path| {
        let document = at(&rkat, dir, &["skill", "list", "--json"]).json();
        let cell = |skill: &serde_json::Value, key: &str| skill[key].as_str().unwrap().to_owned();
        let skills = document["skills"].as_array().unwrap().iter();
        let project_skills = skills.filter(|skill| skill["scope"] == "project");
        project_skills.map(|skill| (cell(skill, "name"), cell(skill, "description"))).collect::<Vec<_>>()
    };
    let pair = |name: &str, root: &str| (name.to_owned(), format!("In {root}"));
    let from_project = [pair("other", ".agent/skills"), pair("shared", ".claude/skills")];
    assert_eq!(listed(&project), from_project);
    let from_package = [
        pair("mine", "pkg/.claude/skills"),
        pair("other", ".agent/skills"),
        pair("shared", "pkg/.claude/skills"),
    ];
    assert_eq!(listed(&package), from_package);
    let run = ["run", "-q", "--model", "offline", "--skill", "mine", "say done"];
    assert_eq!(at(&rkat, &package, &run).text(), "done\n");
    assert_ne!(at(&rkat, &project, &run).code, Some(0));
}

#[test]
fn sessions_of_a_former_realm_print_a_notice() {
    let rkat = Rkat::new();
    let (home, project) = (rkat.home(), in_home(&rkat, "project"));
    at(&rkat, &home, &["run", "-q", "say hello from home"]).text();
    at(&rkat, &project, &["run", "-q", "say hello from here"]).text();
    fs::create_dir(home.join(".rkat")).unwrap();
    let listed = at(&rkat, &project, &["session", "list"]);
    assert_eq!(listed.stderr, "", "a realm of this version belongs to its directory");
    let home_realm = realm(&rkat, &home);
    let manifest = rkat.data().join(format!("meerkat/realms/{home_realm}/realm_manifest.json"));
    let mut fields: serde_json::Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    assert_eq!(fields.as_object_mut().unwrap().remove("workspace").unwrap(), home.to_str().unwrap());
    fs::write(&manifest, fields.to_string()).unwrap();

    let command = format!("--realm {home_realm} session list");
    let notice = format!(
        "notice: 1 session in another realm may belong to this directory; to list them, run `rkat {command}`\n"
    );
    for args in [&["session", "list"][..], &["session", "list", "--json"], &["session", "show", "last"]] {
        let done = at(&rkat, &project, args);
        assert!(done.code == Some(0) && done.stderr == notice, "{args:?}: {done}");
    }
    let resumed = at(&rkat, &project, &["run", "--resume", "say more"]);
    assert!(resumed.text() == "more\n" && resumed.stderr.starts_with(&notice), "{resumed}");
    let quiet = at(&rkat, &project, &["run", "-q", "--resume", "say more"]);
    assert!(quiet.text() == "more\n" && quiet.stderr.is_empty(), "{quiet}");
    let output = at(&rkat, &project, &command.split(' ').collect::<Vec<_>>());
    assert!(output.text().lines().count() == 2 && output.stderr.is_empty(), "{output}");
    let report = at(&rkat, &project, &["doctor"]);
    assert!(report.text().contains(&format!("fix: to list them, run `rkat {command}`")), "{report}");
    assert_eq!(at(&rkat, &home, &["session", "list"]).stderr, "");
}

#[test]
fn renamed_directory_adopts_its_realm() {
    let rkat = Rkat::new();
    let (old, new, other) = (in_home(&rkat, "old"), rkat.home().join("new"), in_home(&rkat, "other"));
    at(&rkat, &old, &["run", "-q", "say hello"]).text();
    let before = realm(&rkat, &old);
    fs::rename(&old, &new).unwrap();
    let notice = format!(
        "notice: realm `{before}` has the sessions of `{old}`, which no longer exists; if this directory was `{old}`, run \
         `rkat realm adopt {before}`\n",
        old = old.display()
    );
    let listed = at(&rkat, &new, &["session", "list"]);
    assert!(listed.stderr.starts_with(&notice), "{listed}");
    assert!(!at(&rkat, &other, &["session", "list"]).stderr.contains("notice"));
    let after = realm(&rkat, &new);
    let adopted = at(&rkat, &new, &["realm", "adopt", &before]);
    assert_eq!(adopted.text(), format!("realm {before} is now {after}, the realm of {}\n", new.display()));
    let listed = at(&rkat, &new, &["session", "list"]);
    assert!(listed.text().lines().count() == 2 && listed.stderr.is_empty(), "{listed}");
    assert_eq!(at(&rkat, &new, &["run", "-q", "--resume", "say more"]).text(), "more\n");
    // A realm with sessions is never replaced.
    at(&rkat, &other, &["run", "-q", "say hello"]).text();
    let refused = at(&rkat, &other, &["realm", "adopt", &after]);
    assert!(refused.code == Some(2) && refused.stderr.contains("already exists"), "{refused}");
}

#[test]
fn directory_of_the_same_name_is_recognized() {
    let rkat = Rkat::new();
    let (old, new) = (in_home(&rkat, "a/project"), in_home(&rkat, "b/project"));
    at(&rkat, &old, &["run", "-q", "say hello"]).text();
    let before = realm(&rkat, &old);
    assert!(!at(&rkat, &new, &["session", "list"]).stderr.contains("notice"));
    fs::remove_dir_all(&old).unwrap();
    let listed = at(&rkat, &new, &["session", "list"]);
    assert!(listed.stderr.contains(&format!("`rkat realm adopt {before}`")), "{listed}");
}

#[test]
fn directory_joining_a_project_finds_its_sessions() {
    let rkat = Rkat::new();
    let (project, inner) = (in_home(&rkat, "project"), in_home(&rkat, "project/inner"));
    at(&rkat, &inner, &["run", "-q", "say hello"]).text();
    let before = realm(&rkat, &inner);
    fs::create_dir(project.join(".git")).unwrap();
    let listed = at(&rkat, &inner, &["session", "list"]);
    let notice = format!(
        "notice: 1 session in another realm may belong to this directory; to list them, run \
         `rkat --realm {before} session list`"
    );
    assert!(listed.code == Some(0) && listed.stderr.starts_with(&notice), "{listed}");
    assert!(!at(&rkat, &project, &["session", "list"]).stderr.contains("notice"));
}

#[cfg(unix)]
#[test]
fn new_directories_are_private_with_any_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    for umask in ["000", "022", "777"] {
        let rkat = Rkat::new();
        let script = match umask {
            // A run cannot use files that their owner cannot read.
            "777" => "$RKAT trust",
            _ => "$RKAT trust && $RKAT run hi && $RKAT skill new mine --user --description d",
        };
        let mut shell = rkat.command(Path::new("/bin/sh"));
        shell.env("RKAT", env!("CARGO_BIN_EXE_rkat")).args(["-c", &format!("umask {umask}; {script}")]);
        let done = shell.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mut dirs = vec![rkat.home().join(".rkat")];
        if umask != "777" {
            let realms = rkat.data().join("meerkat/realms");
            let realm = fs::read_dir(&realms).unwrap().next().unwrap().unwrap().path();
            dirs.extend([
                rkat.home().join(".rkat/skills"),
                rkat.data().join("meerkat"),
                realm.join("leases"),
            ]);
            dirs.extend([realms, realm]);
        }
        for dir in dirs {
            let mode = fs::metadata(&dir).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o700, "umask {umask}: {}", dir.display());
        }
    }
}
