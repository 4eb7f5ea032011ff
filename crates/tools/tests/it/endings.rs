//! Processes that a command leaves running.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{World, supervisor, unsandboxed};

fn world() -> World {
    World::with_shell(unsandboxed())
}

/// Returns a number of seconds that identifies a process.
fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:04}", 100_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn running(marker: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|argument| argument == marker.as_bytes()))
}

/// Waits until no process has the marker.
fn wait_until_gone(marker: &str) {
    let started = Instant::now();
    while running(marker) {
        assert!(started.elapsed() < Duration::from_secs(20), "a process with {marker} is still running");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn daemon_ends_with_its_command() {
    let marker = marker();
    let command = format!("setsid sleep {marker} > /dev/null 2>&1 & (nohup sleep {marker} &) ; echo done");
    let reply = world().shell(&command).await;
    assert_eq!(reply["exit_code"], 0, "{reply}");
    wait_until_gone(&marker);
}

/// The same attempt without a supervisor, to show that it leaves a process behind.
#[test]
fn daemon_outlives_an_unsupervised_command() {
    let marker = marker();
    let command = format!("setsid sleep {marker} > /dev/null 2>&1 & echo $!; kill -0 $!");
    let done = Command::new("sh").args(["-c", &command]).output().unwrap();
    let pid = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success() && Path::new("/proc").join(pid.trim()).exists());
    Command::new("kill").args(["-9", pid.trim()]).status().unwrap();
    wait_until_gone(&marker);
}

#[tokio::test]
async fn timed_out_command_is_signalled_then_killed() {
    let (world, marker) = (world(), marker());
    let command = format!("trap '' TERM; echo begun; sleep {marker} & wait; sleep {marker}");
    let reply = world.json("shell", json!({ "command": command, "timeout_secs": 1 })).await;
    assert_eq!(
        (&reply["timed_out"], &reply["exit_code"], &reply["stdout"]),
        (&json!(true), &json!(null), &json!("begun\n"))
    );
    wait_until_gone(&marker);
}

#[tokio::test]
async fn abandoned_command_is_ended() {
    let (world, marker) = (world(), marker());
    let call = world.output("shell", json!({ "command": format!("sleep {marker}") }));
    let appears = async {
        while !running(&marker) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        output = call => panic!("{output:?}"),
        () = appears => {}
    }
    wait_until_gone(&marker);
}

#[tokio::test]
async fn job_ends_when_its_host_is_killed() {
    let (world, marker) = (world(), marker());
    let mut host = Command::new(supervisor())
        .args(["run", &world.path("work").display().to_string(), &format!("setsid sleep {marker}")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    host.kill().unwrap();
    host.wait().unwrap();
    wait_until_gone(&marker);
}

#[tokio::test]
async fn jobs_end_with_the_toolbox() {
    let (world, marker) = (world(), marker());
    world.json("shell", json!({ "command": format!("sleep {marker}"), "background": true })).await;
    world.toolbox().close();
    wait_until_gone(&marker);
}
