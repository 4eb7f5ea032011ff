//! Full and read-only disks, and damaged stores.

use std::fs;
use std::path::{Path, PathBuf};

use meerkat_testkit::{SmallDisk, checkpoint};
use serde_json::Value;

use crate::support::{Output, Rkat};

/// Commands that only read.
const READS: [&[&str]; 8] = [
    &["session", "list"],
    &["session", "show", "last"],
    &["config", "get"],
    &["usage"],
    &["models"],
    &["capabilities"],
    &["skill", "list"],
    &["realm", "list"],
];

/// Mounts a small disk where realms are stored.
fn small_disk(rkat: &Rkat) -> Option<SmallDisk> {
    let disk = SmallDisk::mount(&rkat.data());
    if disk.is_none() {
        println!("skipped: the kernel does not allow to mount a disk here (it takes root)");
    }
    disk
}

fn assert_reads(rkat: &Rkat) {
    for read in READS {
        let done = rkat.args(read.iter().copied()).run();
        assert_eq!(done.code, Some(0), "{read:?}: {done}");
    }
    assert!(rkat.args(["session", "show", "last"]).run().stdout.contains("hello"));
    let config = rkat.args(["config", "get", "--json"]).run().json();
    assert_eq!(config["memory"]["scope"], "realm");
}

/// Returns the health, message, and fix that `rkat doctor` reports for the store.
fn diagnosis(rkat: &Rkat) -> (String, String) {
    let done = rkat.args(["doctor", "--json"]).run();
    let report: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"));
    let store = report["checks"].as_array().unwrap().iter().find(|check| check["check"] == "store").unwrap();
    let text = |key: &str| store[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(done.code, Some(i32::from(text("health") != "ok")), "{done}");
    let report_text = format!("{}\n{}", text("message"), text("fix"));
    assert!(!report_text.contains("delete"), "{report_text}");
    (text("health"), report_text)
}

fn with_session() -> (Rkat, Option<SmallDisk>) {
    let rkat = Rkat::new();
    let disk = small_disk(&rkat);
    rkat.session("say hello");
    rkat.args(["config", "patch", "--toml", "memory.scope = \"realm\""]).run().text();
    checkpoint(&database(&rkat));
    (rkat, disk)
}

/// Returns the database of the only realm.
fn database(rkat: &Rkat) -> PathBuf {
    let realms = rkat.data().join("meerkat/realms");
    let realm = fs::read_dir(realms).unwrap().next().unwrap().unwrap().path();
    realm.join("sessions.sqlite3")
}

fn assert_fails_at(done: &Output, path: &Path) {
    assert_eq!(done.code, Some(1), "{done}");
    assert!(done.stderr.contains(&path.display().to_string()), "{done}");
    assert!(done.stderr.contains("`rkat doctor`") && !done.stderr.contains("delete"), "{done}");
}

#[test]
fn read_only_disk_is_read() {
    let (rkat, Some(disk)) = with_session() else { return };
    disk.make_read_only();
    assert_reads(&rkat);
    let (health, report_text) = diagnosis(&rkat);
    assert!(health == "fault" && report_text.contains("read-only"), "{report_text}");
    let run = rkat.args(["run", "say no"]).run();
    assert!(run.code == Some(1) && run.stderr.contains("read-only"), "{run}");
    // A directory without a realm has no sessions.
    let other = rkat.work().join("other");
    fs::create_dir(&other).unwrap();
    let listed = rkat.args(["session", "list"]).current_dir(&other).run();
    assert!(listed.code == Some(0) && listed.stderr.contains("no sessions in realm"), "{listed}");
    let config = rkat.args(["config", "get", "--json"]).current_dir(&other).run().json();
    assert_eq!(config["memory"]["scope"], "session");
}

#[cfg(unix)]
#[test]
fn log_of_a_killed_process_is_read() {
    for index in ["kept", "lost"] {
        let (rkat, Some(disk)) = with_session() else { return };
        let mut server = rkat.args(["hub", "--listen", "127.0.0.1:0"]).start();
        server.wait_for("listening");
        // The commits of this run stay in the log, because the hub also has the database open.
        let session = rkat.session("say hello again");
        server.signal("KILL");
        server.finish();
        let companion = |name: &str| format!("{}-{name}", database(&rkat).display());
        assert!(fs::metadata(companion("wal")).unwrap().len() > 0);
        if index == "lost" {
            fs::remove_file(companion("shm")).unwrap();
        }
        disk.make_read_only();
        assert_reads(&rkat);
        let listed = rkat.args(["session", "list"]).run();
        assert!(listed.text().contains(&session), "{listed}");
    }
}

#[test]
fn full_disk_is_read_and_later_written() {
    let (rkat, Some(disk)) = with_session() else { return };
    let filler = disk.fill();
    assert_reads(&rkat);
    let (health, report_text) = diagnosis(&rkat);
    assert!(health == "fault" && report_text.contains("no space left"), "{report_text}");
    let run = rkat.args(["run", "say no"]).run();
    assert!(run.code == Some(1) && run.stderr.contains("no space left"), "{run}");
    fs::remove_file(filler).unwrap();
    assert_eq!(rkat.args(["run", "-q", "say yes"]).run().text(), "yes\n");
    assert_eq!(diagnosis(&rkat).0, "ok");
    let leases: Vec<_> = fs::read_dir(database(&rkat).parent().unwrap().join("leases")).unwrap().collect();
    assert!(leases.is_empty(), "{leases:?}");
}

#[test]
fn doctor_tries_a_write_on_a_shared_store() {
    let (rkat, Some(disk)) = with_session() else { return };
    let mut server = rkat.args(["hub", "--listen", "127.0.0.1:0"]).start();
    server.wait_for("listening");
    let _filler = disk.fill();
    let (health, report_text) = diagnosis(&rkat);
    assert!(health == "fault" && report_text.contains("no space left"), "{report_text}");
}

#[test]
fn truncated_store_is_reported_with_its_file() {
    let (rkat, _disk) = with_session();
    let database = database(&rkat);
    fs::write(&database, "").unwrap();
    for read in [&["session", "list"][..], &["config", "get"], &["usage"], &["run", "say no"]] {
        assert_fails_at(&rkat.args(read.iter().copied()).run(), &database);
    }
    let (health, report_text) = diagnosis(&rkat);
    assert!(health == "fault" && report_text.contains("is missing or empty"), "{report_text}");
    assert_eq!(fs::read(&database).unwrap(), b"");
}

#[test]
fn damaged_record_is_reported_with_its_file() {
    let (rkat, _disk) = with_session();
    let database = database(&rkat);
    let intact = fs::read(&database).unwrap();
    // Neither change affects the structure of the file.
    for (from, to, cause) in [
        (r#"{"model":"#, "{\"mod\0l\":", "it is damaged"),
        (r#""provider":"#, r#""providor":"#, "a newer version may have written it"),
    ] {
        fs::write(&database, replaced(&intact, from.as_bytes(), to.as_bytes())).unwrap();
        let output = rkat.args(["session", "show", "last"]).run();
        assert_fails_at(&output, &database);
        assert!(output.stderr.contains(cause), "{output}");
        for read in [&["session", "list"][..], &["session", "list", "--json"], &["usage"]] {
            assert_warns(&rkat.args(read.iter().copied()).run(), &database, cause);
        }
        let (health, report_text) = diagnosis(&rkat);
        assert!(health == "fault" && report_text.contains("session settings"), "{report_text}");
    }
}

/// Asserts that a command succeeds despite an unreadable session, with one warning that names the file and the cause.
fn assert_warns(done: &Output, database: &Path, cause: &str) {
    assert_eq!(done.code, Some(0), "{done}");
    let warnings: Vec<_> =
        done.stderr.lines().filter(|line| line.starts_with("warning: cannot read session `")).collect();
    let [warning] = warnings[..] else { panic!("{done}") };
    for part in [&database.display().to_string(), cause, "`rkat doctor`"] {
        assert!(warning.contains(part), "no {part} in {warning}");
    }
}

#[test]
fn unreadable_session_does_not_hide_the_others() {
    let rkat = Rkat::new();
    let bad = rkat.args(["run", "--json", "--system", "spoil-me", "say a"]).run().json();
    let bad = bad["session_id"].as_str().unwrap().to_owned();
    let good = rkat.session("say b");
    let database = database(&rkat);
    checkpoint(&database);
    let intact = fs::read(&database).unwrap();
    fs::write(&database, replaced(&intact, b"\"spoil-me", b"\"spoil\0me")).unwrap();
    let listed = rkat.args(["session", "list"]).run();
    assert_warns(&listed, &database, &format!("session `{bad}`"));
    assert!(listed.stdout.contains(&good[..8]) && !listed.stdout.contains(&bad), "{listed}");
    let listed = rkat.args(["session", "list", "--json"]).run();
    assert_warns(&listed, &database, &format!("session `{bad}`"));
    let ids: Vec<_> =
        listed.json()["sessions"].as_array().unwrap().iter().map(|s| s["session_id"].clone()).collect();
    assert_eq!(ids, [good.as_str()]);
    let used = rkat.args(["usage", "--by", "session", "--json"]).run();
    assert_warns(&used, &database, &format!("session `{bad}`"));
    assert_eq!(used.json()["rows"].as_array().map(Vec::len), Some(1), "{used}");
    assert_fails_at(&rkat.args(["session", "show", &bad]).run(), &database);
    assert_fails_at(&rkat.args(["session", "show", "@1"]).run(), &database);
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let offsets: Vec<_> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!offsets.is_empty(), "the record is in the file");
    for at in offsets {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}
