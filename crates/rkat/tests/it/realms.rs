//! `rkat realm`, and the choice of the realm for a command.

use insta::assert_snapshot;

use crate::support::Rkat;

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
    assert_snapshot!(rkat.args(["realm", "list"]).run(), @r"
    REALM                BACKEND  ORIGIN     CREATED
    team                 sqlite   named      just now
    [workspace]  sqlite   workspace  just now
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(rkat.args(["realm", "list", "--json"]).run(), @r#"
    {
      "realms": [
        {
          "realm_id": "team",
          "backend": "sqlite",
          "origin": "explicit",
          "created_at": [unix],
          "root": "[dir]/data/meerkat/realms/team",
          "in_use": false
        },
        {
          "realm_id": "[workspace]",
          "backend": "sqlite",
          "origin": "workspace",
          "created_at": [unix],
          "root": "[dir]/data/meerkat/realms/[workspace]",
          "in_use": false
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

#[test]
fn prune_deletes_only_unnamed_realms_with_force() {
    let rkat = Rkat::new();
    rkat.args(["realm", "create", "team"]).run().text();
    rkat.session("say one");
    rkat.args(["-q", "--isolated", "say two"]).run().text();
    let prune = |args: &[&str]| {
        rkat.args(["realm", "prune", "--older-than-hours", "0"].iter().chain(args).copied()).run()
    };
    assert_snapshot!(prune(&["--isolated-only"]), @r"
    would delete realm-[uuid]
    --- stderr
    nothing was deleted; add --force to delete
    --- exit 0
    ");
    assert_snapshot!(prune(&["--isolated-only", "--force"]), @r"
    deleted realm-[uuid]
    --- stderr
    --- exit 0
    ");
    assert_snapshot!(prune(&["--force"]), @r"
    deleted [workspace]
    --- stderr
    --- exit 0
    ");
    let listed = rkat.args(["realm", "list", "--json"]).run().json();
    assert_eq!(listed["realms"].as_array().unwrap().len(), 1);
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
