//! Tests with several processes. The workers are further processes of this test binary.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use meerkat_store::{Realm, check};

use crate::support::{Scratch, append, change, commit, create, free, options, session, take};

const COMMITS: u64 = 20;

/// A worker process. Its first line of input is its task: `<task> <owner> <state root>`.
#[test]
#[ignore = "the other tests of this module run it in separate processes"]
fn worker() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let mut words = line.trim_end().splitn(3, ' ');
    let (Some(task), Some(owner), Some(root)) = (words.next(), words.next(), words.next()) else {
        return;
    };
    let owner: u128 = owner.parse().unwrap();
    let store = Realm::open(options(Path::new(root), "test", owner)).unwrap().store();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        change(&*store, vec![create(owner)]).await.unwrap();
        for _ in 0..COMMITS {
            change(&*store, vec![append(owner, &["x"], 1)]).await.unwrap();
        }
        if task == "hold" {
            change(&*store, vec![take(owner, 1000)]).await.unwrap();
            println!("\nheld");
            // Block until killed.
            let _ = std::io::stdin().read(&mut [0]);
        }
    });
}

fn start() -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::worker", "--ignored", "--nocapture"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn send_task(child: &mut Child, task: &str, owner: u128, root: &Path) {
    writeln!(child.stdin.as_mut().unwrap(), "{task} {owner} {}", root.display()).unwrap();
}

#[tokio::test]
async fn sixteen_processes_share_a_fresh_realm() {
    let scratch = Scratch::new();
    let mut children: Vec<_> = (0..16).map(|_| start()).collect();
    for (owner, child) in (0..).zip(&mut children) {
        send_task(child, "work", owner, scratch.root());
    }
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    check(&scratch.paths().database).unwrap();
    let store = scratch.open(99).unwrap().store();
    for owner in 0..16 {
        assert_eq!(store.session(session(owner)).await.unwrap().unwrap().message_count, COMMITS);
    }
}

#[tokio::test]
async fn killed_process_loses_only_its_lease() {
    let scratch = Scratch::new();
    let mut child = start();
    send_task(&mut child, "hold", 1, scratch.root());
    let output = BufReader::new(child.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap() == "held"));

    let store = scratch.open(2).unwrap().store();
    let take_over = || commit(&*store, vec![free(1, 0)], vec![take(1, 1000)]);
    take_over().await.unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(take_over().await.unwrap().fence, Some(2));
    assert_eq!(store.session(session(1)).await.unwrap().unwrap().message_count, COMMITS);
    assert!(!scratch.owner_file(1).exists());
}
