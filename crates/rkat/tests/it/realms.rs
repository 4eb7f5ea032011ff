//! `rkat realm`, and the choice of the realm for a command.

use insta::assert_snapshot;

use crate::support::Rkat;

/// Replaces the sizes of realms in a text.
fn sizeless(text: &str) -> String {
    let line = |line: &str| match line.split_once("\"bytes\": ") {
        Some((start, _)) => format!("{start}\"bytes\": [size]\n"),
        None => match line.rsplit_once("  ").filter(|(_, end)| end.ends_with(" KB")) {
            Some((start, _)) => format!("{start}  [size]\n"),
            None => format!("{line}\n"),
        },
    };
    text.lines().map(line).collect()
}

fn realm(rkat: &Rkat, args: &[&str]) -> String {
    rkat.args(["realm", "current"].iter().chain(args).copied()).run().text().trim().to_owned()
}

#[test]
fn realm_belongs_to_directory_or_enclosing_project() {
    let rkat = Rkat::new();
    let (here, deep) = (rkat.work(), rkat.work().join("a/b"));
    std::fs::create_dir_all(&deep).unwrap();
    let at = |dir: &std::path::Path| {
        rkat.args(["realm", "current"]).current_dir(dir).run().text().trim().to_owned()
    };
    assert_ne!(at(&here), at(&deep));
    std::fs::create_dir(here.join(".rkat")).unwrap();
    assert_eq!(at(&here), at(&deep));
    assert_eq!(at(&here), realm(&rkat, &["--context-root", "."]));
    assert_ne!(realm(&rkat, &["--isolated"]), realm(&rkat, &["--isolated"]));
    assert_eq!(realm(&rkat, &["-r", "team"]), "team");
}

#[test]
fn realms_are_created_listed_shown_and_deleted() {
    let rkat = Rkat::new();
    assert_snapshot!(rkat.args(["realm", "list"]).run(), @r"
    --- stderr
    no realms in `[dir]/data/meerkat/realms`
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["realm", "create", "team"]).run(), @r"
    team (sqlite)
    --- stderr
    --- exit 0
    ");
    rkat.session("say one");
    assert_snapshot!(sizeless(&rkat.args(["realm", "list"]).run().to_string()), @r"
    REALM                BACKEND  ORIGIN     CREATED   USED      SIZE
    team                 sqlite   named      just now  just now  [size]
    [workspace]  sqlite   workspace  just now  just now  [size]
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(sizeless(&rkat.args(["realm", "list", "--json"]).run().to_string()), @r#"
    {
      "realms": [
        {
          "realm_id": "team",
          "backend": "sqlite",
          "origin": "explicit",
          "created_at": [unix],
          "workspace": null,
          "root": "[dir]/data/meerkat/realms/team",
          "in_use": false,
          "last_used_at": [unix],
          "bytes": [size]
        },
        {
          "realm_id": "[workspace]",
          "backend": "sqlite",
          "origin": "workspace",
          "created_at": [unix],
          "workspace": "[dir]/work",
          "root": "[dir]/data/meerkat/realms/[workspace]",
          "in_use": false,
          "last_used_at": [unix],
          "bytes": [size]
        }
      ]
    }
    --- stderr
    --- exit 0
    "#);
    assert_snapshot!(rkat.args(["realm", "show", "team"]).run(), @r"
    realm_id  team
    backend   sqlite
    origin    explicit
    root      [dir]/data/meerkat/realms/team
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["realm", "show", "team", "--json"]).run(), @r#"
    {
      "realm_id": "team",
      "backend": "sqlite",
      "origin": "explicit",
      "created_at": [unix],
      "workspace": null,
      "root": "[dir]/data/meerkat/realms/team"
    }
    --- stderr
    --- exit 0
    "#);
    assert_snapshot!(rkat.args(["realm", "delete", "team"]).run(), @r"
    deleted team
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["realm", "show", "team"]).run(), @r"
    --- stderr
    error: realm `team` not found; list the realms of the state root to see which exist [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["realm", "delete", "../up"]).run(), @r"
    --- stderr
    error: `../up` is not a realm id: it must start with a letter or a digit [INVALID_PARAMS]
    --- exit 2
    ");
}

#[test]
fn existing_realm_keeps_its_backend() {
    let rkat = Rkat::new();
    rkat.args(["realm", "create", "team"]).run().text();
    assert_snapshot!(rkat.args(["-q", "-r", "team", "--realm-backend", "memory", "say hi"]).run(), @r"
    hi
    --- stderr
    warning: realm `team` keeps its `sqlite` backend; `memory` is ignored
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["realm", "create", "x", "--backend", "paper"]).run(), @r"
    --- stderr
    error: invalid value 'paper' for '--backend <BACKEND>': unknown backend `paper`; expected `sqlite` or `memory`

    For more information, try '--help'.
    --- exit 2
    ");
}

#[test]
fn in_memory_realm_leaves_nothing_behind() {
    let rkat = Rkat::new();
    let args = ["run", "-q", "-r", "brief", "--realm-backend", "memory", "say hi"];
    assert_eq!(rkat.args(args).run().text(), "hi\n");
    let listed = rkat.args(["realm", "list", "--json"]).run().json();
    assert_eq!(listed["realms"], serde_json::json!([]));
}

/// Ages all files of every realm by a number of days.
fn age(rkat: &Rkat, days: u64) {
    let root = rkat.data().join("meerkat/realms");
    for realm in std::fs::read_dir(root).unwrap() {
        let realm = realm.unwrap().path();
        let manifest = realm.join("realm_manifest.json");
        let text = std::fs::read_to_string(&manifest).unwrap();
        let fields = text.split("\"created_at\":\"").collect::<Vec<_>>();
        let created: u64 = fields[1].split('"').next().unwrap().parse().unwrap();
        let earlier = created - days * 86_400;
        std::fs::write(&manifest, text.replace(&created.to_string(), &earlier.to_string())).unwrap();
        for entry in std::fs::read_dir(&realm).unwrap() {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(earlier);
            std::fs::File::open(entry.unwrap().path()).unwrap().set_modified(time).unwrap();
        }
    }
}

#[test]
fn prune_shows_then_deletes_unused_realms() {
    let rkat = Rkat::new();
    rkat.args(["realm", "create", "team"]).run().text();
    rkat.session("say one");
    rkat.args(["-q", "--isolated", "say two"]).run().text();
    let prune = |args: &[&str]| rkat.args(["realm", "prune"].iter().chain(args).copied()).run();
    assert_snapshot!(prune(&["--directories"]), @r"
    --- stderr
    no realms to prune
    --- exit 0
    ");
    age(&rkat, 3);
    assert_snapshot!(prune(&[]), @r"
    REALM                                       SESSIONS  USED     DIRECTORY
    realm-[uuid]  1         3 d ago  -
    --- stderr
    nothing was deleted; add --force to delete these realms with their sessions
    --- exit 0
    ");
    assert_snapshot!(prune(&["--force"]), @r"
    REALM                                       SESSIONS  USED     DIRECTORY
    realm-[uuid]  1         3 d ago  -
    deleted realm-[uuid]
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(prune(&["--isolated-only", "--force"]), @r"
    --- stderr
    no realms to prune
    --- exit 0
    ");
    assert_snapshot!(prune(&["--directories", "--force"]), @r"
    REALM                SESSIONS  USED     DIRECTORY
    [workspace]  1         3 d ago  [dir]/work
    deleted [workspace]
    --- stderr
    --- exit 0
    ");
    let listed = rkat.args(["realm", "list", "--json"]).run().json();
    assert_eq!(listed["realms"].as_array().unwrap().len(), 1);
}

#[test]
fn recently_used_realm_is_not_pruned() {
    let rkat = Rkat::new();
    rkat.session("say one");
    age(&rkat, 90);
    rkat.session("say two");
    let done = rkat.args(["realm", "prune", "--directories", "--force"]).run();
    assert_eq!(done.stderr, "no realms to prune\n");
    let listed = rkat.args(["session", "list", "--json"]).run().json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn state_root_option_sets_realm_directory() {
    let rkat = Rkat::new();
    rkat.args(["-q", "--state-root", "here", "-r", "team", "say hi"]).run().text();
    assert!(rkat.work().join("here/team/realm_manifest.json").is_file());
    assert_snapshot!(
        rkat.args(["run", "say hi"]).env("HOME", "").env("XDG_DATA_HOME", "").run(), @r"
    --- stderr
    error: no directory for realms: set HOME or pass `--state-root DIR` [INVALID_PARAMS]
    --- exit 2
    ");
}

#[test]
fn reading_an_unknown_realm_fails() {
    let rkat = Rkat::new();
    let id = "01936f8a-7b2c-7000-8000-000000000001";
    let reads: [&[&str]; 7] = [
        &["session", "list"],
        &["session", "show", id],
        &["session", "delete", id],
        &["run", "--resume", "say x"],
        &["config", "get"],
        &["models"],
        &["capabilities"],
    ];
    for read in reads {
        let done = rkat.args(["--realm", "taem"].into_iter().chain(read.iter().copied())).run();
        assert!(done.to_string().contains("realm `taem` not found"), "{read:?}: {done}");
    }
    let list = rkat.args(["realm", "list"]).run().to_string();
    assert!(!list.contains("taem"), "{list}");
}

#[test]
fn in_memory_realm_cannot_be_created() {
    let rkat = Rkat::new();
    assert_snapshot!(rkat.args(["realm", "create", "brief", "--backend", "memory"]).run(), @r"
    --- stderr
    error: an in-memory realm ends with its process, so there is nothing to create [INVALID_PARAMS]
    --- exit 2
    ");
    assert_snapshot!(rkat.args(["realm", "prune"]).run(), @r"
    --- stderr
    no realms to prune
    --- exit 0
    ");
}
