//! However a host exits, no process of a server is left behind.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use meerkat_mcp::{Launcher, ServerSetOptions, ServerState};
use meerkat_testkit::{assert_no_process_with_mark, mark, processes_with_mark};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{LONG, create_set_with, odd, odd_server, ready_set, view};

/// Number of repetitions of each test.
const REPETITIONS: usize = 20;

/// A host process that is killed if the test fails.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_host(ending: &str, marker: &str) -> Host {
    // Tests that run in the background may inherit ignored signals.
    let mut host = Command::new("env")
        .arg("--default-signal=INT,TERM")
        .arg(odd_server())
        .args(["host", ending, marker])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "{\"tools\":1}\n");
    Host(host)
}

fn await_grandchildren(marker: &str) {
    while processes_with_mark(marker).iter().filter(|line| line.starts_with("sleep")).count() < 3 {
        std::thread::yield_now();
    }
}

fn assert_clean_exit(ending: &str, signal: Option<Signal>) {
    for _ in 0..REPETITIONS {
        let marker = mark();
        let mut host = start_host(ending, &marker);
        if let Some(signal) = signal {
            await_grandchildren(&marker);
            kill_process(Pid::from_child(&host.0), signal).unwrap();
        }
        host.0.wait().unwrap();
        assert_no_process_with_mark(&marker);
    }
}

#[test]
fn normal_exit_leaves_no_processes() {
    assert_clean_exit("normal", None);
}

#[test]
fn failed_host_leaves_no_processes() {
    assert_clean_exit("error", None);
}

#[test]
fn interrupted_host_leaves_no_processes() {
    assert_clean_exit("waits", Some(Signal::INT));
}

#[test]
fn terminated_host_leaves_no_processes() {
    assert_clean_exit("waits", Some(Signal::TERM));
}

#[test]
fn killed_host_leaves_no_processes() {
    assert_clean_exit("waits", Some(Signal::KILL));
}

#[tokio::test]
async fn stubborn_server_is_killed() {
    let marker = mark();
    let mut entry = odd("odd", "stubborn");
    entry["args"] = json!(["stubborn", marker]);
    let set = ready_set(&[entry]).await;
    assert_eq!(view(&set, "odd").state, ServerState::Ready);
    set.close().await;
    assert_no_process_with_mark(&marker);
}

#[tokio::test]
async fn group_is_killed_without_a_supervisor() {
    let marker = mark();
    let mut entry = odd("odd", "stubborn");
    entry["args"] = json!(["stubborn", marker]);
    let options = ServerSetOptions { launcher: Launcher::default(), ..ServerSetOptions::default() };
    let set = create_set_with(options, &[entry]);
    assert!(set.wait_until_ready(LONG).await);
    assert!(!processes_with_mark(&marker).is_empty());
    set.close().await;
    assert_no_process_with_mark(&marker);
}

#[tokio::test]
async fn failed_server_leaves_no_processes() {
    let marker = mark();
    let mut entry = odd("odd", "silent");
    entry["args"] = json!(["silent", marker]);
    entry["connect_timeout_secs"] = json!(1);
    let set = ready_set(&[entry]).await;
    assert!(matches!(view(&set, "odd").state, ServerState::Failed { .. }));
    assert_no_process_with_mark(&marker);
    drop(set);
}
