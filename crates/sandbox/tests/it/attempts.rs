//! Attempts to leave the sandbox. Each succeeds outside, which shows that it tries something, and fails inside.
//!
//! A script exits with 0 if the attempt succeeds.

use meerkat_sandbox::Profile;

use crate::support::{Scene, profiles};

/// Attempts that need nothing but a shell and files. `BASE` has the scene.
const SCRIPTS: &[(&str, &str)] = &[
    // Writes outside the roots.
    ("write a file outside", "echo x > $BASE/outside/file"),
    ("create a file outside", "echo x > $BASE/outside/new"),
    ("create a directory outside", "mkdir $BASE/outside/dir"),
    ("remove a file outside", "rm $BASE/outside/file"),
    ("rename a file outside", "mv $BASE/outside/file $BASE/outside/other"),
    ("move a file out of the workspace", "mv readme $BASE/outside/readme"),
    ("write through a symlink", "ln -s $BASE/outside l && echo x > l/file"),
    ("truncate outside", "python3 -c 'import os; os.truncate(os.environ[\"BASE\"]+\"/outside/file\", 0)'"),
    ("write in the home directory", "echo x > $HOME/.profile"),
    ("link a file outside and write to it", "ln $BASE/outside/file l && echo x > l"),
    (
        "write to a pipe outside",
        "python3 -c 'import os; os.open(os.environ[\"BASE\"]+\"/outside/pipe\", os.O_RDWR|os.O_NONBLOCK)'",
    ),
    (
        "read from a pipe outside",
        "python3 -c 'import os; os.open(os.environ[\"BASE\"]+\"/outside/pipe\", os.O_NONBLOCK)'",
    ),
    // Metadata outside the roots.
    ("chmod outside", "chmod 777 $BASE/outside/file"),
    ("chmod of the home directory", "chmod 0 $HOME && chmod 755 $HOME"),
    ("touch outside", "touch -d 2001-01-01 $BASE/outside/file"),
    (
        "chmod by a descriptor",
        "python3 -c 'import os; os.fchmod(os.open(os.environ[\"BASE\"]+\"/outside/file\", 0), 0o777)'",
    ),
    (
        "times by a descriptor",
        "python3 -c 'import os; os.utime(os.open(os.environ[\"BASE\"]+\"/outside/file\", 0), (1,1))'",
    ),
    ("chmod through a symlink", "ln -s $BASE/outside/file l && chmod 777 l"),
    (
        "chmod through a directory descriptor",
        "python3 -c 'import os; d=os.open(os.environ[\"BASE\"]+\"/outside\", os.O_DIRECTORY); os.chmod(\"file\", 0o777, dir_fd=d)'",
    ),
    ("chown outside", "chown $(id -u):$(id -g) $BASE/outside/file"),
    (
        "attribute outside",
        "python3 -c 'import os; os.setxattr(os.environ[\"BASE\"]+\"/outside/file\", \"user.a\", b\"x\")'",
    ),
    // Secrets by place.
    ("read a secret place", "cat $HOME/.ssh/id"),
    ("read it through a symlink", "ln -s $HOME/.ssh l && cat l/id"),
    ("read it through a parent", "cat $BASE/work/../home/.ssh/id"),
    ("read it by a relative directory", "cd $HOME && cat .ssh/id"),
    ("read it through the own root", "cat /proc/self/root$HOME/.ssh/id"),
    ("read it through the own directory", "cd $HOME; cat /proc/self/cwd/.ssh/id"),
    ("write to a secret place", "echo x > $HOME/.ssh/authorized_keys"),
    // Secrets by name.
    ("read a secret by name", "cat .env"),
    ("read it after its parent was renamed", "mv sub other && cat other/.env"),
    ("rename a secret", "mv .env plain && cat plain"),
    ("link a secret", "ln .env plain && cat plain"),
    ("link a secret by a symlink", "ln -s .env l && ln -L l plain && cat plain"),
    ("read a secret by a symlink", "ln -s .env l && cat l"),
    (
        "read a secret by a descriptor's name",
        "python3 -c 'import os; f=os.open(\".env\", os.O_PATH); open(f\"/proc/self/fd/{f}\").read()'",
    ),
    (
        "read a secret by the descriptor of a thread",
        "python3 -c 'import os,threading; f=os.open(\".env\", os.O_PATH); open(f\"/proc/self/task/{threading.get_native_id()}/fd/{f}\").read()'",
    ),
    (
        "read a secret by its directory",
        "python3 -c 'import os; d=os.open(\".\", os.O_DIRECTORY); os.open(\".env\", 0, dir_fd=d)'",
    ),
    ("read a secret of another directory", "cat $BASE/outside/.env"),
    (
        "exchange a secret",
        "python3 -c 'import ctypes,os; c=ctypes.CDLL(None); r=c.renameat2(-100,b\".env\",-100,b\"readme\",2); assert r==0; open(\"readme\").read()'",
    ),
    (
        "rename a socket to a secret's name",
        "python3 -c 'import socket, os\nos.rename(\"app.sock\", \".env.sock\"); socket.socket(socket.AF_UNIX).connect(\".env.sock\")'",
    ),
    ("replace a secret", "mv readme .env"),
    ("write a secret", "echo x > .env"),
    ("rename the directory of a secret pattern", "mv keys other && cat other/tls.key"),
    ("copy a secret", "cp .env plain"),
    // Guarded files.
    ("write git config", "git config core.pager evil"),
    ("write a hook", "echo x > .git/hooks/pre-commit"),
    ("link a hook", "ln -s /bin/true .git/hooks/pre-commit"),
    ("rename to a hook", "mv readme .git/hooks/pre-commit"),
    ("hard link to a hook", "ln readme .git/hooks/pre-commit"),
    ("make a git directory elsewhere", "git init -q sub"),
    ("make a file that points to a git directory", "echo 'gitdir: x' > src/.git"),
    (
        "move a git directory from the temporary directory",
        "mkdir -p $TMPDIR/x/.git/hooks && echo x > $TMPDIR/x/.git/hooks/h && python3 -c 'import os; os.rename(os.environ[\"TMPDIR\"]+\"/x\", \"x\")'",
    ),
    (
        "exchange a directory with one of the temporary directory",
        "mkdir -p x $TMPDIR/x/.git/hooks && python3 -c 'import ctypes,os; c=ctypes.CDLL(None); assert c.renameat2(-100,b\"x\",-100,(os.environ[\"TMPDIR\"]+\"/x\").encode(),2)==0'",
    ),
    ("replace the git directory", "mv .git g && mkdir .git"),
    ("move hooks into place", "mkdir -p m/hooks && echo x > m/hooks/h && mv m .git/modules"),
    ("link a directory of git", "rm -rf .git/modules; mkdir m && ln -s ../m .git/modules"),
    (
        "move a link into the git directory",
        "rm -rf .git/modules; mkdir m && ln -s ../m l && mv l .git/modules",
    ),
    ("redirect the git directory", "echo ../src > .git/commondir"),
    ("remove git config", "rm .git/config"),
    ("make a hook executable", "chmod 755 .git/hooks/applypatch-msg.sample"),
    ("create .envrc", "echo x > .envrc"),
    ("link .envrc", "ln -s readme src/.envrc"),
    ("create editor tasks", "mkdir -p .vscode && echo x > .vscode/tasks.json"),
    ("rename to editor tasks", "mkdir v && echo x > v/tasks.json && mv v .vscode"),
    ("create config of an agent", "mkdir -p .claude && echo x > .claude/settings.json"),
    ("make a node named .mcp.json", "python3 -c 'import os; os.mknod(\".mcp.json\")'"),
    (
        "link a nameless file",
        "python3 -c 'import os; f=os.open(\".\", os.O_TMPFILE|os.O_RDWR); import ctypes; r=ctypes.CDLL(None).linkat(-100,f\"/proc/self/fd/{f}\".encode(),-100,b\".envrc\",0x400); assert r==0'",
    ),
    // Set-id.
    ("set-user-id", "cp /bin/true t && chmod 4755 t"),
    // Kernel interfaces.
    ("user namespace", "unshare -U true"),
    ("trace a process", "python3 -c 'import ctypes; c=ctypes.CDLL(None); assert c.ptrace(0,0,0,0)==0'"),
    (
        "io_uring",
        "python3 -c 'import ctypes; b=ctypes.create_string_buffer(120); assert ctypes.CDLL(None).syscall(425,1,b)>=0'",
    ),
    ("datagram socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)'"),
    ("raw Unix socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_RAW)'"),
    ("datagram pair", "python3 -c 'import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)'"),
    ("network of the host", "cat /proc/net/tcp"),
    ("netlink", "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)'"),
];

#[test]
fn attempts_succeed_outside() {
    let failed = SCRIPTS.iter().filter(|(_, script)| !scene().run_outside(script));
    let failed: Vec<_> = failed.map(|(name, _)| name).collect();
    assert_eq!(failed, [&""; 0]);
}

#[test]
fn attempts_fail_in_namespaces() {
    assert_eq!(successes(Profile::Namespaces), [""; 0]);
}

#[test]
fn attempts_fail_without_a_process_namespace() {
    assert_eq!(successes(Profile::SharedProc), [""; 0]);
}

#[test]
fn attempts_fail_under_landlock() {
    assert_eq!(successes(Profile::Landlock), [""; 0]);
}

fn successes(profile: Profile) -> Vec<String> {
    let mut successes = Vec::new();
    for (name, script) in SCRIPTS.iter().filter(|_| profiles().contains(&profile)) {
        let outcome = scene().run(profile, script);
        if outcome.code == 0 || outcome.output.contains("hidden") {
            successes.push(format!("{name}: {outcome:?}"));
        }
    }
    successes
}

fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.init_git();
    for dir in ["work/keys", "work/sub"] {
        std::fs::create_dir(scene.path(dir)).unwrap();
    }
    for secret in ["work/keys/tls.key", "work/sub/.env"] {
        std::fs::write(scene.path(secret), "hidden").unwrap();
    }
    scene.policy.names.patterns.push("keys/*.key".to_owned());
    assert!(scene.run_outside("mkfifo $BASE/outside/pipe"));
    scene.listen("work/app.sock");
    scene
}

/// Attempts to change guarded files by their real names, where others lead to them.
const LED_TO: &[(&str, &str, &str)] = &[
    (
        "hooks behind a symlink",
        "mkdir hooks && rm -rf .git/hooks && ln -s ../hooks .git/hooks",
        "echo x > hooks/pre-commit",
    ),
    (
        "hooks that the config names",
        "mkdir hooks && git config core.hooksPath hooks",
        "echo x > hooks/pre-commit",
    ),
    (
        "hooks of a git directory elsewhere",
        "mkdir store && mv .git store/g && echo gitdir: store/g > .git",
        "echo x > store/g/hooks/pre-commit",
    ),
    (
        "its directory",
        "mkdir store && mv .git store/g && echo gitdir: store/g > .git",
        "mv store other && echo x > other/g/hooks/pre-commit",
    ),
    ("editor tasks behind a symlink", "mkdir editor && ln -s editor .vscode", "echo x > editor/tasks.json"),
    ("another case", "true", "mkdir -p .VSCode && echo x > .VSCode/tasks.json"),
];

#[test]
fn guards_follow_what_leads_to_files() {
    for (name, prepare, attempt) in LED_TO {
        let prepared = || {
            let scene = Scene::new();
            scene.init_git();
            assert!(scene.run_outside(prepare), "{name}");
            scene
        };
        assert!(prepared().run_outside(attempt), "{name}");
        for profile in profiles().iter().copied() {
            let outcome = prepared().run(profile, attempt);
            assert_ne!(outcome.code, 0, "{name}, {profile:?}: {outcome:?}");
        }
    }
}
