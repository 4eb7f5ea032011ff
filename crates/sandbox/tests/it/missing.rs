//! Systems that lack a mechanism: the sandbox holds, or the program is not started.

use std::path::Path;
use std::process::Command;

use meerkat_sandbox::{Profile, Report, Stage, probe, try_profile};

use crate::support::{PROFILES, Scene, helper, profiles};

/// Each mechanism, and what the profiles do without it: the stage that refuses, or `None` if they hold.
const MECHANISMS: [(&str, [Option<Stage>; 3]); 5] = [
    ("namespaces", [Some(Stage::Namespaces), Some(Stage::Namespaces), None]),
    ("landlock", [None, None, Some(Stage::Landlock)]),
    ("notifications", [Some(Stage::Gate); 3]),
    ("memory", [None; 3]),
    ("descriptors", [None; 3]),
];

/// Attempts, of which none may succeed. The last line shows that the program ran.
const ATTEMPTS: &str = "cat .env $HOME/.ssh/id ../outside/.env; echo x > ../outside/file && echo hidden; \
    chmod 600 ../outside/file && echo hidden; kill -0 PID && echo hidden; echo x > .envrc && echo hidden; \
    python3 -c 'import socket; socket.create_connection((\"127.0.0.1\",PORT),5); print(\"hidden\")'; \
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"../outside/s\"); print(\"hidden\")'; \
    cat readme && echo x > src/new && echo ran";

fn without(mechanism: &str) -> Command {
    let mut command = Command::new(helper());
    command.args(["without", mechanism]);
    command
}

#[test]
fn every_profile_holds_or_refuses_without_a_mechanism() {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port().to_string();
    let script = ATTEMPTS.replace("PORT", &port).replace("PID", &std::process::id().to_string());
    for (mechanism, expected) in MECHANISMS {
        let expected = PROFILES.into_iter().zip(expected);
        for (profile, expected) in expected.filter(|(profile, _)| profiles().contains(profile)) {
            let scene = Scene::new();
            let _socket = std::os::unix::net::UnixListener::bind(scene.path("outside/s")).unwrap();
            let what = format!("{profile:?} without {mechanism}");
            let mut running = scene.start_with(profile, &script, without(mechanism));
            if let Some(stage) = expected {
                let report = running.control.next_report().unwrap();
                assert!(
                    matches!(&report, Some(Report::Refused(refusal)) if refusal.stage == stage),
                    "{what}: {report:?}"
                );
                assert_eq!(running.child.wait().unwrap().code(), Some(125), "{what}");
            } else {
                let outcome = running.finish();
                assert!(outcome.output.ends_with("helloran\n"), "{what}: {outcome:?}");
                assert!(!outcome.output.contains("hidden"), "{what}: {outcome:?}");
            }
        }
    }
}

#[test]
fn covered_process_files_leave_the_shared_profile() {
    if !profiles().contains(&Profile::Namespaces) {
        return;
    }
    let scene = Scene::new();
    let covered = |profile| {
        let mut command = Command::new("unshare");
        command
            .args(["-Urm", "sh", "-c", "mount -t tmpfs none /proc/irq && exec \"$@\"", "sh"])
            .arg(helper());
        scene.start_with(profile, "cat readme .env", command)
    };
    let report = covered(Profile::Namespaces).control.next_report().unwrap();
    assert!(
        matches!(&report, Some(Report::Refused(refusal)) if refusal.stage == Stage::Processes),
        "{report:?}"
    );
    let outcome = covered(Profile::SharedProc).finish();
    assert_eq!(outcome.output, "hellocat: .env: Permission denied\n");
}

#[test]
fn secrets_in_closed_directories_stay_masked() {
    if !profiles().contains(&Profile::Namespaces) {
        return;
    }
    let mut scene = Scene::new();
    let closed = scene.path("outside/closed");
    std::fs::create_dir_all(closed.join("secret")).unwrap();
    let locked = scene.run_outside(&format!("chmod 000 {}", closed.display()));
    assert!(locked);
    scene.policy.names.places.push(closed.join("secret"));
    // The owner's namespace may still look, so the secret is masked and the program runs.
    let outcome = scene.run(Profile::Namespaces, &format!("chmod 755 {0}; ls {0}/secret", closed.display()));
    assert_ne!(outcome.code, 0, "{outcome:?}");
    assert!(scene.run_outside(&format!("chmod 755 {}", closed.display())));
}

#[test]
fn probe_finds_the_best_profile() {
    let scratch = tempfile::tempdir().unwrap();
    assert_eq!(probe(&helper(), scratch.path()).profile, profiles().first().copied());
    let probed = probe(Path::new("/bin/false"), scratch.path());
    assert_eq!(probed.profile, None);
    let scene = Scene::new();
    let plan = scene.plan(Profile::Landlock, "true");
    let missing = probed.plan(plan.policy, plan.program).unwrap_err();
    assert!(missing.to_string().starts_with("this system cannot sandbox programs; with namespaces: "));
}

#[test]
fn trial_shows_that_every_property_holds() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let dir = scene.path("outside/trial");
        std::fs::create_dir(&dir).unwrap();
        let properties = try_profile(profile, &helper(), &dir).unwrap();
        let failed: Vec<_> = properties.iter().filter(|property| !property.holds).collect();
        assert!(failed.is_empty() && properties.len() == 10, "{profile:?}: {failed:?}");
    }
}
