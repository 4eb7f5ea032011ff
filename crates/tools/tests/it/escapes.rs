//! Attempts of commands to leave the sandbox. Each one must also succeed outside the sandbox, to prove that the sandbox
//! caused the failure.

use std::net::TcpListener;

use meerkat_tools::{Sandbox, ShellOptions};
use serde_json::Value;

use crate::support::{World, is_sandbox_available, unsandboxed};

/// Expectation for an attempt without a sandbox.
#[derive(Clone, Copy)]
enum Outside {
    Works,
    /// Works if this command succeeds: not every machine has or allows what the attempt needs.
    WorksIf(&'static str),
    /// Would change the machine that the tests run on, so it is not attempted.
    Harms,
}

use Outside::{Harms, Works, WorksIf};

fn world() -> Option<World> {
    is_sandbox_available().then(|| World::with_shell(ShellOptions::default()))
}

/// Tries a command outside the sandbox, in a separate world.
async fn succeeds_outside(command: &str, outside: Outside, done: impl Fn(&World, &Value) -> bool) {
    let world = World::with_shell(unsandboxed());
    let tried = match outside {
        Works => true,
        WorksIf(condition) => world.shell(condition).await["exit_code"] == 0,
        Harms => false,
    };
    if tried {
        let reply = world.shell(command).await;
        assert!(done(&world, &reply), "this must succeed outside the sandbox: {command}: {reply}");
    }
}

/// Attempts to change the file outside the workspace, or the machine.
#[tokio::test]
async fn sandbox_blocks_writes_outside_the_workspace() {
    let python = WorksIf("python3 -V");
    let attempts = [
        ("echo x > ../outside", Works),
        ("echo x >> ../outside", Works),
        ("rm ../outside", Works),
        ("mv ../outside moved", Works),
        ("truncate -s 0 ../outside", Works),
        ("chmod 777 ../outside && echo x > ../outside", Works),
        ("ln -s ../outside link; echo x > link", Works),
        ("ln ../outside hard && echo x > hard", Works),
        ("mkdir ../new && mv ../outside ../new", Works),
        ("echo x > /proc/self/cwd/../outside", Works),
        ("python3 -c 'open(\"../outside\", \"w\").write(\"x\")'", python),
        ("echo ZWNobyB4ID4gLi4vb3V0c2lkZQ== | base64 -d | sh", Works),
        ("eval \"$(printf 'ec\\150o x > ../outside')\"", Works),
        ("printf '\\145cho x > ../outside' > s; sh s", Works),
        (
            "unshare -rm sh -c 'mount --bind .. /mnt && echo x > /mnt/outside'",
            WorksIf("unshare -rm mount --bind .. /mnt"),
        ),
        ("echo x > /etc/rkat-escape", Harms),
        ("cp /bin/true /usr/local/bin/rkat-escape", Harms),
        ("dd if=/dev/zero of=/dev/sda count=1", Harms),
        ("mount -t tmpfs none /mnt", Harms),
    ];
    let Some(world) = world() else { return };
    for (command, outside) in attempts {
        let reply = world.shell(command).await;
        assert_ne!(reply["exit_code"], 0, "{command}: {reply}");
        assert_eq!(std::fs::read_to_string(world.path("outside")).unwrap(), "outside", "{command}");
        let changed = |world: &World, _: &Value| {
            std::fs::read_to_string(world.path("outside")).ok().as_deref() != Some("outside")
        };
        succeeds_outside(command, outside, changed).await;
    }
}

#[tokio::test]
async fn sandbox_blocks_reading_secrets() {
    let attempts = [
        "cat ~/.ssh/id_ed25519",
        "cd ~/.ssh && cat id_ed25519",
        "ln -s ~/.ssh/id_ed25519 key; cat key",
        "ln ~/.ssh/id_ed25519 key && cat key",
        "cp -r ~/.ssh copy; cat copy/*",
        "mv ~/.ssh there; cat there/*",
        "cat /proc/self/root$HOME/.ssh/id_ed25519",
        "tar cf - ~/.ssh | grep -a SECRET",
        "cat ../realms/state",
        "/bin/sh -c 'cat ~/.ssh/id_ed25519'",
        "find ~ -name 'id_*' -exec cat {} +",
        "echo Y2F0IH4vLnNzaC9pZF9lZDI1NTE5 | base64 -d | sh",
        "cat .env",
        "cat web/.env.local",
        "ln -s .env x; cat x",
        "ln .env x; cat x",
        "cp .env x; cat x",
        "mv .env x; cat x",
        "mv web other; cat other/.env.local",
        "grep -r SECRET .",
        "cat /proc/self/cwd/.env",
        "sh -c '. ./.env; echo $KEY'",
    ];
    let Some(_) = world() else { return };
    for command in attempts {
        for (sandbox, readable) in [(ShellOptions::default(), false), (unsandboxed(), true)] {
            let world = World::with_shell(sandbox);
            world.write(".env", "KEY=SECRET-ENV\n");
            world.write("web/.env.local", "KEY=SECRET-LOCAL\n");
            let reply = world.shell(command).await;
            assert_eq!(reply.to_string().contains("SECRET"), readable, "{command}: {reply}");
        }
    }
}

#[tokio::test]
async fn sandbox_blocks_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let python = |code: &str| format!("python3 -c 'import socket; {code}'");
    let connect = |kind: &str| {
        python(&format!("socket.socket(socket.AF_INET, socket.{kind}).connect((\"127.0.0.1\", {port}))"))
    };
    let commands = [
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        connect("SOCK_STREAM"),
        connect("SOCK_DGRAM"),
        python("socket.socket(socket.AF_UNIX)"),
        python("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"),
    ];
    let Some(world) = world() else { return };
    for command in &commands {
        let reply = world.shell(command).await;
        assert_ne!(reply["exit_code"], 0, "{command}: {reply}");
        let refused = reply["stderr"].as_str().unwrap().contains("Permission denied");
        assert!(refused, "{command}: {reply}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    for command in &commands {
        let with = if command.starts_with("python3") { WorksIf("python3 -V") } else { Works };
        succeeds_outside(command, with, |_, reply| reply["exit_code"] == 0).await;
    }
    assert!(listener.accept().is_ok());
}

#[tokio::test]
async fn network_works_where_it_is_allowed() {
    if !is_sandbox_available() {
        return;
    }
    let world = World::with_shell(ShellOptions { sandbox: Sandbox::Network, ..ShellOptions::default() });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reply = world.shell(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}")).await;
    assert_eq!(reply["exit_code"], 0, "{reply}");
    let reply = world.shell("python3 -c 'import socket; socket.socket(socket.AF_UNIX)'").await;
    assert_ne!(reply["exit_code"], 0, "{reply}");
    let reply = world.shell("cat ~/.ssh/id_ed25519").await;
    assert_ne!(reply["exit_code"], 0, "{reply}");
}

#[tokio::test]
async fn sandbox_blocks_access_to_other_processes() {
    let host = std::process::id();
    // A tracer may be forbidden to inspect other processes.
    let traced = WorksIf("python3 -V && ! grep -qs '[1-9]' /proc/sys/kernel/yama/ptrace_scope");
    let attempts = [
        (format!("kill -0 {host}"), Works),
        (format!("cat /proc/{host}/environ > /dev/null"), Works),
        (format!("exec 3< /proc/{host}/mem"), traced),
        (
            "python3 -c 'import ctypes; exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0)'".to_owned(),
            WorksIf("python3 -V"),
        ),
    ];
    let Some(world) = world() else { return };
    for (command, outside) in attempts {
        let reply = world.shell(&command).await;
        assert_ne!(reply["exit_code"], 0, "{command}: {reply}");
        succeeds_outside(&command, outside, |_, reply| reply["exit_code"] == 0).await;
    }
    // Without a sandbox, the supervisor of a command can be killed, and then there is no exit code.
    let kill = "kill -9 $PPID; exit 7";
    assert_eq!(world.shell(kill).await["exit_code"], 7);
    succeeds_outside(kill, Works, |_, reply| reply["exit_code"].is_null()).await;
}

#[tokio::test]
async fn calls_that_bypass_the_filter_are_rejected() {
    let Some(world) = world() else { return };
    // Rings that bypass the filter, and sockets by x32 call numbers. A kernel may lack either; the error code shows
    // what rejected the call.
    for (number, arguments) in [(425, "8, ctypes.create_string_buffer(256)"), (0x4000_0029_u32, "2, 1, 0")] {
        let script = format!(
            "python3 -c 'import ctypes, errno; l = ctypes.CDLL(None, use_errno=True); l.syscall({number}, {arguments}); \
             print(ctypes.get_errno() == errno.EACCES)'"
        );
        let reply = world.shell(&script).await;
        assert_eq!(reply["stdout"], "True\n", "{reply}");
        succeeds_outside(&script, WorksIf("python3 -V"), |_, reply| reply["stdout"] == "False\n").await;
    }
}

#[tokio::test]
async fn sandbox_blocks_privilege_escalation() {
    let Some(world) = world() else { return };
    let status = "grep -E 'NoNewPrivs|Seccomp:|Seccomp_filters' /proc/self/status";
    let reply = world.shell(&format!("{status} | head -2")).await;
    assert_eq!(reply["stdout"], "NoNewPrivs:\t1\nSeccomp:\t2\n", "{reply}");
    let confined = world.shell(status).await["stdout"].clone();
    succeeds_outside(status, Works, |_, reply| reply["stdout"] != confined).await;
    // Outside the sandbox, this could succeed and change the machine.
    let reply = world.shell("/usr/bin/sudo -n id; su -c id nobody; echo x > /etc/sudoers.d/x").await;
    assert_ne!(reply["exit_code"], 0, "{reply}");
}
