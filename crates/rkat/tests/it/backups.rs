//! `rkat realm backup`, `rkat realm restore`, and what is left when a realm is deleted under its processes.

use insta::assert_snapshot;
use meerkat_testkit::checkpoint;

use crate::support::Rkat;

fn sessions(rkat: &Rkat, realm: &str) -> Vec<String> {
    let listed = rkat.args(["-r", realm, "session", "list", "--limit", "1000", "--json"]).run().json();
    let id = |session: &serde_json::Value| session["session_id"].as_str().unwrap().to_owned();
    listed["sessions"].as_array().unwrap().iter().map(id).collect()
}

#[test]
fn realm_is_backed_up_and_restored() {
    let rkat = Rkat::new();
    rkat.args(["-q", "-r", "team", "say one"]).run().text();
    rkat.args(["-r", "team", "config", "set", "--toml", "agent.max_turns = 7"]).run().text();
    let backup = rkat.args(["realm", "backup", "team", "team.backup", "--json"]).run().json();
    assert_eq!((&backup["realm_id"], &backup["sessions"]), (&"team".into(), &1.into()));
    assert_snapshot!(rkat.args(["realm", "backup", "team", "team.backup"]).run(), @r"
    --- stderr
    error: `team.backup` already exists; choose another file, or overwrite it with `--force` [INVALID_PARAMS]
    --- exit 2
    ");
    let done = rkat.args(["realm", "backup", "team", "team.backup", "--force"]).run();
    assert!(done.text().starts_with("backed up team to team.backup (1 session, "), "{done}");

    assert_snapshot!(rkat.args(["realm", "restore", "team.backup"]).run(), @r"
    --- stderr
    error: realm `team` already exists; choose another name with `--as NAME`, or delete the realm or move its directory aside first [INVALID_PARAMS]
    --- exit 2
    ");
    rkat.args(["realm", "restore", "team.backup", "--as", "copy"]).run().text();
    assert_eq!(sessions(&rkat, "copy"), sessions(&rkat, "team"));
    assert_eq!(rkat.args(["run", "-q", "-r", "copy", "--resume", "say two"]).run().text(), "two\n");
    let config = rkat.args(["-r", "copy", "config", "get"]).run();
    assert!(config.text().contains("max_turns = 7"), "{config}");

    rkat.args(["realm", "delete", "team"]).run().text();
    rkat.args(["realm", "restore", "team.backup"]).run().text();
    assert_eq!(sessions(&rkat, "team").len(), 1);
    assert_snapshot!(rkat.args(["realm", "restore", "Cargo.toml"]).run(), @r"
    --- stderr
    error: cannot access `Cargo.toml`: No such file or directory (os error 2); check that the path exists and is readable and writable [SESSION_STORE_ERROR]
    --- exit 1
    ");
    let notes = rkat.work().join("notes");
    std::fs::write(&notes, "not a backup").unwrap();
    assert_snapshot!(rkat.args(["realm", "restore", "notes", "--as", "other"]).run(), @r"
    --- stderr
    error: `notes` is not a complete backup of a realm: file is not a database: Error code 26: file is not a database; use a file that `rkat realm backup` wrote [INVALID_PARAMS]
    --- exit 2
    ");
}

#[test]
fn backup_during_runs_has_every_finished_run() {
    let rkat = Rkat::new();
    rkat.args(["-q", "-r", "team", "say start"]).run().text();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| (0..4).for_each(|_| drop(rkat.args(["-q", "-r", "team", "say x"]).run())))
            })
            .collect();
        for round in 0..3 {
            let before = sessions(&rkat, "team");
            let (file, copy) = (format!("{round}.backup"), format!("copy-{round}"));
            rkat.args(["realm", "backup", "team", &file]).run().text();
            rkat.args(["realm", "restore", &file, "--as", &copy]).run().text();
            let restored = sessions(&rkat, &copy);
            assert!(before.iter().all(|id| restored.contains(id)), "{before:?} {restored:?}");
            let last = before.last().unwrap();
            let resumed = rkat.args(["run", "-q", "-r", &copy, &format!("--resume={last}"), "say on"]).run();
            assert_eq!(resumed.text(), "on\n");
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

#[test]
#[cfg(unix)]
fn forced_deletion_names_and_stops_processes() {
    let rkat = Rkat::new();
    let mut run = rkat.args(["-r", "team", "--instance", "nightly", "-v", "wait 60000"]).start();
    run.wait_for_step();
    let done = rkat.args(["realm", "delete", "team", "--force"]).run();
    assert_eq!(done.text(), "deleted team\n");
    assert!(done.stderr.starts_with("stopping rkat `nightly` (pid "), "{done}");
    assert_ne!(run.finish().code, Some(0));
    assert!(!rkat.data().join("meerkat/realms/team").exists());
}

#[test]
fn damaged_store_is_to_be_restored() {
    let rkat = Rkat::new();
    rkat.args(["-q", "-r", "team", "say one"]).run().text();
    let database = rkat.data().join("meerkat/realms/team/sessions.sqlite3");
    checkpoint(&database);
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[4096..].fill(0xff);
    std::fs::write(&database, bytes).unwrap();
    let done = rkat.args(["-r", "team", "doctor"]).run();
    assert_eq!(done.code, Some(1));
    let fix = done.stdout.lines().find(|line| line.contains("fix: nothing was changed")).unwrap();
    assert!(fix.contains("rkat realm restore FILE") && !fix.contains("delete"), "{done}");
}
