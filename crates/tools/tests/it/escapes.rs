//! Attempts of commands to leave the sandbox.

use std::net::TcpListener;

use meerkat_tools::{Sandbox, ShellOptions};

use crate::support::{World, can_confine};

fn world() -> Option<World> {
    can_confine().then(|| World::with_shell(ShellOptions::default()))
}

/// Runs commands of which none may succeed.
async fn all_refused(commands: &[&str]) {
    let Some(world) = world() else { return };
    for command in commands {
        let reply = world.shell(command).await;
        assert_ne!(reply["exit_code"], 0, "{command}: {reply}");
        let said = reply.to_string();
        assert!(!said.contains("SECRET"), "{command}: {reply}");
    }
    assert_eq!(std::fs::read_to_string(world.path("outside")).unwrap(), "outside");
}

#[tokio::test]
async fn the_workspace_and_temporary_files_can_be_changed() {
    let Some(world) = world() else { return };
    let reply = world.shell("echo one > file && mkdir sub && echo two > sub/x && mv file sub/file && echo t > $TMPDIR/t && cat sub/file $TMPDIR/t").await;
    assert_eq!((&reply["exit_code"], &reply["stdout"]), (&0.into(), &"one\nt\n".into()), "{reply}");
    assert_eq!(world.read("sub/file").as_deref(), Some("one\n"));
}

#[tokio::test]
async fn nothing_outside_can_be_written() {
    all_refused(&[
        "echo x > ../outside",
        "echo x >> ../outside",
        "rm ../outside",
        "mv ../outside moved",
        "truncate -s 0 ../outside",
        "chmod 777 ../outside && echo x > ../outside",
        "ln -s ../outside link; echo x > link",
        "ln ../outside hard && echo x > hard",
        "mkdir ../new",
        "echo x > /etc/rkat-escape",
        "echo x > ~/.bashrc",
        "cp /bin/true /usr/local/bin/rkat-escape",
        "python3 -c 'open(\"../outside\", \"w\").write(\"x\")'",
        "dd if=/dev/zero of=/dev/sda count=1",
        "mount -t tmpfs none /mnt",
        "unshare -rm sh -c 'mount --bind /tmp /etc && echo x > /etc/x'",
        "echo ZWNobyB4ID4gLi4vb3V0c2lkZQ== | base64 -d | sh",
        "eval \"$(printf 'ec\\150o x > ../outside')\"",
    ])
    .await;
}

#[tokio::test]
async fn no_secret_can_be_read() {
    all_refused(&[
        "cat ~/.ssh/id_ed25519",
        "ls ~/.ssh",
        "ls -la $HOME",
        "cd ~/.ssh && cat id_ed25519",
        "ln -s ~/.ssh/id_ed25519 key; cat key",
        "ln ~/.ssh/id_ed25519 key && cat key",
        "cp -r ~/.ssh copy",
        "find ~ -name 'id_*' | grep .",
        "cat /proc/self/root$HOME/.ssh/id_ed25519",
        "tar cf - ~/.ssh | grep SECRET",
        "cat ../realms/state",
        "/bin/sh -c 'cat ~/.ssh/id_ed25519'",
        "echo Y2F0IH4vLnNzaC9pZF9lZDI1NTE5 | base64 -d | sh",
        "env | grep API",
        "cat /proc/1/environ | tr '\\0' '\\n' | grep .",
    ])
    .await;
}

#[tokio::test]
async fn what_is_no_secret_can_be_read() {
    let Some(world) = world() else { return };
    let reply = world
        .shell("cat ~/other/notes && test -r /etc/hostname -o -r /etc/passwd && ls /usr/bin | grep -c .")
        .await;
    assert_eq!(reply["exit_code"], 0, "{reply}");
}

#[tokio::test]
async fn nobody_can_be_reached() {
    let Some(world) = world() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = |family: &str, kind: &str| {
        format!(
            "python3 -c 'import socket; s = socket.socket(socket.{family}, socket.{kind}); s.connect((\"127.0.0.1\", {port}))'"
        )
    };
    let commands = [
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        script("AF_INET", "SOCK_STREAM"),
        script("AF_INET", "SOCK_DGRAM"),
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'".to_owned(),
        "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)'".to_owned(),
    ];
    for command in commands {
        let reply = world.shell(&command).await;
        assert_ne!(reply["exit_code"], 0, "{command}: {reply}");
        let refused = reply["stderr"].as_str().unwrap().contains("Permission denied");
        assert!(refused, "{command}: {reply}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn the_network_is_there_where_it_is_allowed() {
    if !can_confine() {
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
async fn other_processes_cannot_be_touched() {
    let Some(world) = world() else { return };
    let host = std::process::id();
    for command in [
        format!("kill -0 {host}"),
        "kill -9 $PPID".to_owned(),
        format!("cat /proc/{host}/environ"),
        format!("cat /proc/{host}/mem"),
        "python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); exit(l.ptrace(16, 1, 0, 0) == 0)' && false".to_owned(),
    ] {
        let reply = world.shell(&command).await;
        assert_ne!(reply["exit_code"], 0, "{command}: {reply}");
    }
}

#[tokio::test]
async fn calls_that_go_around_the_filter_are_refused() {
    let Some(world) = world() else { return };
    // Rings that make calls unseen, and sockets by the numbers of the other kind of 64-bit programs.
    for (number, arguments) in [(425, "8, ctypes.create_string_buffer(256)"), (0x4000_0029_u32, "2, 1, 0")] {
        let script = format!(
            "python3 -c 'import ctypes, errno; l = ctypes.CDLL(None, use_errno=True); r = l.syscall({number}, {arguments}); \
             print(r, ctypes.get_errno() in (errno.EACCES, errno.ENOSYS))'"
        );
        let reply = world.shell(&script).await;
        assert_eq!(reply["stdout"], "-1 True\n", "{reply}");
    }
}

#[tokio::test]
async fn privileges_cannot_be_gained() {
    let Some(world) = world() else { return };
    let reply = world.shell("grep -E 'NoNewPrivs|Seccomp:' /proc/self/status").await;
    assert_eq!(reply["stdout"], "NoNewPrivs:\t1\nSeccomp:\t2\n", "{reply}");
    let reply = world.shell("/usr/bin/sudo -n id; su -c id nobody; echo x > /etc/sudoers.d/x").await;
    assert_ne!(reply["exit_code"], 0, "{reply}");
}
