//! Starting programs.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use meerkat_sandbox::{Profile, Refusal, SandboxPolicy, Stage};

use crate::support::{Running, Scene, helper, profiles};

#[test]
fn programs_run_and_return_their_code() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let outcome = scene.run(profile, "echo ready; exit 7");
        assert_eq!((outcome.code, &*outcome.output), (7, "ready\n"), "{profile:?}: {outcome:?}");
    }
}

#[test]
fn granted_files_can_be_read_and_written() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let outcome =
            scene.run(profile, "cat readme && echo new > src/file && cat src/file && cat ../outside/file");
        assert_eq!((outcome.code, &*outcome.output), (0, "hellonew\noutside"), "{profile:?}: {outcome:?}");
    }
}

#[test]
fn home_and_its_parents_are_never_writable() {
    for profile in profiles().iter().copied() {
        for root in ["home", ""] {
            let mut scene = Scene::new();
            scene.policy.names.roots = vec![scene.path(root)];
            let outcome = scene.run(profile, "echo x > $HOME/.profile; echo x > readme; cat readme");
            assert_eq!(outcome.output.lines().last(), Some("hello"), "{profile:?}: {outcome:?}");
            assert!(!scene.path("home/.profile").exists(), "{profile:?}");
        }
    }
}

#[test]
fn symlinked_roots_and_secrets_are_resolved() {
    for profile in profiles().iter().copied() {
        let mut scene = Scene::new();
        std::fs::create_dir(scene.path("vault")).unwrap();
        std::fs::write(scene.path("vault/key"), "hidden").unwrap();
        std::os::unix::fs::symlink(scene.path("vault"), scene.path("home/.keys")).unwrap();
        std::os::unix::fs::symlink(scene.path("work"), scene.path("linked")).unwrap();
        scene.policy.names.places.push(scene.path("home/.keys"));
        scene.policy.names.roots = vec![scene.path("linked")];
        let outcome = scene.run(profile, "echo x > new && cat new; cat ~/.keys/key ../vault/key .env");
        assert!(outcome.output.starts_with("x\n") && !outcome.output.contains("hidden"), "{outcome:?}");
    }
}

#[test]
fn missing_roots_refuse_the_program() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let mut plan = scene.plan(profile, "true");
        plan.policy.names.roots = vec![scene.path("missing")];
        let expected = Refusal { stage: Stage::Grants, path: Some(scene.path("missing")), error: 2 };
        assert_eq!(scene.refusal(&plan), expected, "{profile:?}");
    }
}

#[test]
fn secrets_that_appear_later_stay_closed() {
    for profile in profiles().iter().copied() {
        let mut scene = Scene::new();
        scene.policy.names.places.push(scene.path("outside/later"));
        let script = "mkfifo p q; echo up > p & read go < q; cat ../outside/later/key ../outside/.env.later; echo done";
        let running = scene.start(profile, &format!("echo; {script}"));
        while !scene.path("work/q").exists() {
            std::thread::yield_now();
        }
        std::fs::create_dir(scene.path("outside/later")).unwrap();
        for secret in ["outside/later/key", "outside/.env.later"] {
            std::fs::write(scene.path(secret), "hidden").unwrap();
        }
        std::fs::write(scene.path("work/q"), "go\n").unwrap();
        let outcome = running.finish();
        assert!(outcome.output.ends_with("done\n") && !outcome.output.contains("hidden"), "{outcome:?}");
    }
}

#[test]
fn unexaminable_secrets_refuse_the_program() {
    // Only root may look into this directory, and not from a namespace.
    let scene = Scene::new();
    let place = if scene.run_outside("chown 54321:54321 $BASE/outside && chmod 0 $BASE/outside") {
        scene.path("outside/secret")
    } else {
        "/root/secret".into()
    };
    for profile in profiles().iter().copied().filter(|profile| *profile != Profile::Landlock) {
        let mut plan = scene.plan(profile, "true");
        plan.policy.names.places.push(place.clone());
        let expected = Refusal { stage: Stage::Secrets, path: Some(place.clone()), error: 13 };
        assert_eq!(scene.refusal(&plan), expected, "{profile:?}");
    }
}

#[test]
fn renamed_roots_stay_guarded() {
    for profile in profiles().iter().copied() {
        let mut scene = Scene::new();
        std::fs::create_dir(scene.path("work/keys")).unwrap();
        std::fs::write(scene.path("work/keys/tls.key"), "hidden").unwrap();
        scene.policy.names.patterns.push("keys/*.key".to_owned());
        let script = "mkfifo p q; echo up > p & read go < q; echo x > .envrc && echo hidden; cat keys/tls.key; echo done";
        let running = scene.start(profile, script);
        while !scene.path("work/q").exists() {
            std::thread::yield_now();
        }
        std::fs::rename(scene.path("work"), scene.path("moved")).unwrap();
        std::fs::write(scene.path("moved/q"), "go\n").unwrap();
        let outcome = running.finish();
        assert!(outcome.output.ends_with("done\n") && !outcome.output.contains("hidden"), "{outcome:?}");
    }
}

#[test]
fn symlinks_in_the_temporary_directory_do_not_move_roots() {
    let below = tempfile::tempdir_in("/tmp").unwrap();
    let root = below.path().canonicalize().unwrap().join("work");
    std::fs::create_dir(&root).unwrap();
    for profile in profiles().iter().copied().filter(|profile| *profile != Profile::Landlock) {
        let mut scene = Scene::new();
        scene.policy.names.roots = vec![root.clone()];
        let script = format!("cd {} && echo x > new && cat new", root.display());
        assert_eq!(scene.run(profile, &script).output, "x\n", "{profile:?}");
        let first = scene.path("temporary").join(root.strip_prefix("/tmp").unwrap().iter().next().unwrap());
        std::fs::remove_dir_all(&first).unwrap();
        std::fs::create_dir(scene.path("outside/work")).unwrap();
        std::os::unix::fs::symlink(scene.path("outside"), &first).unwrap();
        let expected = Refusal { stage: Stage::Mounts, path: Some(root.clone()), error: 40 };
        assert_eq!(scene.refusal(&scene.plan(profile, "true")), expected, "{profile:?}");
    }
}

#[test]
fn programs_read_the_input_of_the_host() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let (input, mut writer) = std::io::pipe().unwrap();
        let (output, printed) = std::io::pipe().unwrap();
        let mut command = std::process::Command::new(helper());
        command.stdout(printed);
        let plan = scene.plan(profile, "head -c 3; cat /dev/stdin");
        let (child, control) = plan.start_with_input(command, input.as_fd()).unwrap();
        drop(input);
        writer.write_all(b"one two").unwrap();
        drop(writer);
        let outcome = Running { child, control, output }.finish();
        assert_eq!((outcome.code, &*outcome.output), (0, "one two"), "{profile:?}: {outcome:?}");
        assert_eq!(scene.run(profile, "cat").output, "", "{profile:?}");
    }
}

#[test]
fn helpers_get_no_environment() {
    let profile = profiles()[0];
    let mut host = std::process::Command::new("/bin/sh");
    host.args(["-c", "test -z \"$LEAK\" && exec \"$@\"", "sh"]).arg(helper()).env("LEAK", "hidden");
    let outcome = Scene::new().start_with(profile, "echo started", host).finish();
    assert_eq!(outcome.output, "started\n");
}

#[test]
fn paths_that_cannot_be_granted_are_named() {
    type Change = fn(&mut SandboxPolicy, PathBuf);
    let bad: [(&str, &str, Change, i32); 5] = [
        ("names.roots", "missing", |policy, path| policy.names.roots = vec![path], 2),
        ("names.roots", "work/readme", |policy, path| policy.names.roots = vec![path], 20),
        ("temporary", "missing", |policy, path| policy.temporary = path, 2),
        ("sockets", "missing", |policy, path| policy.sockets = vec![path], 2),
        ("devices", "work/readme", |policy, path| policy.devices = vec![path], 22),
    ];
    for (field, path, change, error) in bad {
        let mut scene = Scene::new();
        let path = scene.path(path);
        change(&mut scene.policy, path.clone());
        let invalid = scene.policy.validate().unwrap_err();
        assert_eq!((invalid.field, &invalid.path), (field, &path), "{invalid}");
        for profile in profiles().iter().copied() {
            let expected = Refusal { stage: Stage::Grants, path: Some(path.clone()), error };
            assert_eq!(scene.refusal(&scene.plan(profile, "true")), expected, "{profile:?}");
        }
    }
    let mut scene = Scene::new();
    assert_eq!(scene.policy.validate(), Ok(()));
    scene.policy.names.places = vec!["relative".into()];
    assert_eq!(
        scene.policy.validate().unwrap_err().to_string(),
        "invalid `names.places` of a sandboxed program: `relative` is not absolute; use the full path"
    );
    scene.policy.names.places = vec![OsStr::from_bytes(b"/a\xff").into()];
    let plan = scene.plan(Profile::Landlock, "true");
    let error = plan.start(std::process::Command::new(helper())).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("names.places") && error.to_string().contains("UTF-8"), "{error}");
}
