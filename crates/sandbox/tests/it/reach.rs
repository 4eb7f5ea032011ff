//! Other programs: their sockets, processes, and descriptors are out of reach unless they are granted.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::process::{Child, Command};

use meerkat_sandbox::{Network, Profile};

use crate::support::{Scene, helper, profiles};

/// Sockets and a process outside the sandbox.
struct Others {
    _path: UnixListener,
    _abstract: UnixListener,
    _datagram: UnixDatagram,
    tcp: TcpListener,
    process: Child,
    name: String,
}

impl Others {
    fn start(scene: &Scene) -> Self {
        let name = format!("meerkat-{}-{}", std::process::id(), scene.root().display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self {
            _path: UnixListener::bind(scene.path("outside/s")).unwrap(),
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            _datagram: UnixDatagram::bind(scene.path("outside/d")).unwrap(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            process: Command::new("sleep").arg("1000").spawn().unwrap(),
            name,
        }
    }

    fn attempts(&self) -> Vec<(&'static str, String)> {
        let (port, pid) = (self.tcp.local_addr().unwrap().port(), self.process.id());
        let name = &self.name;
        let python = |code: &str| format!("cd $BASE/outside && python3 -c 'import socket as s, os\n{code}'");
        vec![
            ("Unix socket", python("s.socket(s.AF_UNIX).connect(\"s\")")),
            (
                "Unix socket by a symlink",
                python(
                    "p=os.environ[\"BASE\"]+\"/work/l\"; os.symlink(os.path.abspath(\"s\"),p); s.socket(s.AF_UNIX).connect(p)",
                ),
            ),
            ("abstract socket", python(&format!("s.socket(s.AF_UNIX).connect(\"\\0{name}\")"))),
            ("datagram", python("s.socket(s.AF_UNIX, s.SOCK_DGRAM).sendto(b\"x\", \"d\")")),
            ("loopback", python(&format!("s.create_connection((\"127.0.0.1\",{port}),5)"))),
            ("loopback over IPv6", python(&format!("s.create_connection((\"::ffff:127.0.0.1\",{port}),5)"))),
            ("fast open", python(&format!("s.socket().sendto(b\"x\", 0x20000000, (\"127.0.0.1\",{port}))"))),
            ("signal", format!("kill -0 {pid}")),
            (
                "signal to a thread",
                python(&format!("import ctypes; assert ctypes.CDLL(None).syscall(200,{pid},0)==0")),
            ),
            ("priority", format!("renice -n 5 -p {pid}")),
            ("limits", format!("prlimit --pid {pid} --nofile=100:100")),
            ("affinity", python(&format!("os.sched_setaffinity({pid},[0])"))),
            ("environment", format!("cat /proc/{pid}/environ")),
            ("command line", format!("grep sleep /proc/{pid}/cmdline")),
            ("directory", format!("ls /proc/{pid}/cwd/")),
            ("memory", format!("head -c 0 /proc/{pid}/mem")),
            ("pidfd", python(&format!("os.pidfd_open({pid})"))),
        ]
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn other_programs_are_out_of_reach() {
    let scene = Scene::new();
    let others = Others::start(&scene);
    let mut wrong = Vec::new();
    for (name, script) in others.attempts() {
        if !scene.run_outside(&script) {
            wrong.push(format!("{name} fails outside"));
        }
        let _ = std::fs::remove_file(scene.path("work/l"));
        for profile in profiles().iter().copied() {
            let outcome = scene.run(profile, &script);
            let _ = std::fs::remove_file(scene.path("work/l"));
            if outcome.code == 0 {
                wrong.push(format!("{name} succeeds in {profile:?}: {outcome:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn granted_sockets_and_ports_can_be_reached() {
    for profile in profiles().iter().copied() {
        let mut scene = Scene::new();
        let path = scene.path("outside/s");
        let unix = UnixListener::bind(&path).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        scene.policy.sockets = vec![path];
        scene.policy.network = Network::Own { loopback: vec![port] };
        let unix = std::thread::spawn(move || unix.accept().unwrap().0.write_all(b"unix "));
        let tcp = std::thread::spawn(move || tcp.accept().unwrap().0.write_all(b"tcp"));
        let script = format!(
            "python3 -c 'import socket as s, os\nu=s.socket(s.AF_UNIX); u.connect(os.environ[\"BASE\"]+\"/outside/s\")\n\
             t=s.create_connection((\"127.0.0.1\",{port}),5); print(u.recv(9).decode()+t.recv(9).decode())'"
        );
        let outcome = scene.run(profile, &script);
        assert_eq!((outcome.code, &*outcome.output), (0, "unix tcp\n"), "{profile:?}: {outcome:?}");
        unix.join().unwrap().unwrap();
        tcp.join().unwrap().unwrap();
    }
}

#[test]
fn shared_loopback_cannot_be_listened_on() {
    if !profiles().contains(&Profile::Landlock) {
        return;
    }
    let mut scene = Scene::new();
    scene.policy.network = Network::Own { loopback: vec![9] };
    for call in ["s.bind((\"127.0.0.1\",0))", "s.listen()", "s.connect((\"127.0.0.1\",10))"] {
        let script = format!("python3 -c 'import socket; s=socket.socket(); print(1); {call}'");
        let outcome = scene.run(Profile::Landlock, &script);
        assert!(outcome.code != 0 && outcome.output.contains("1\n"), "{call}: {outcome:?}");
    }
}

#[test]
fn inherited_descriptors_are_closed() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let mut host = Command::new("/bin/sh");
        let secret = scene.path("home/.ssh/id");
        host.args(["-c", "exec 9<\"$1\"; shift; exec \"$@\"", "sh"]).arg(secret).arg(helper());
        let mut running = scene.start_with(profile, "cat <&9", host);
        assert_eq!(running.control.next_report().unwrap(), Some(meerkat_sandbox::Report::Ready));
        let mut output = String::new();
        running.output.read_to_string(&mut output).unwrap();
        assert!(!output.contains("hidden"), "{profile:?}: {output}");
        assert!(!running.child.wait().unwrap().success());
    }
}

#[test]
fn shared_memory_of_others_is_out_of_reach() {
    let name = format!("/dev/shm/meerkat-{}", std::process::id());
    std::fs::write(&name, "hidden").unwrap();
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let outcome = scene.run(profile, &format!("cat {name} && echo x > {name}"));
        let own = scene.run(profile, "f=/dev/shm/own-$$; echo own > $f && cat $f && rm $f");
        assert!(outcome.code != 0 && !outcome.output.contains("hidden"), "{profile:?}: {outcome:?}");
        assert_eq!((own.code, &*own.output), (0, "own\n"), "{profile:?}: {own:?}");
    }
    std::fs::remove_file(&name).unwrap();
}

#[test]
fn full_network_reaches_loopback_but_no_sockets() {
    for profile in profiles().iter().copied() {
        let mut scene = Scene::new();
        scene.policy.network = Network::Full;
        let others = Others::start(&scene);
        let (mut reached, mut wrong) = (Vec::new(), Vec::new());
        for (name, script) in others.attempts() {
            let outcome = scene.run(profile, &script);
            let _ = std::fs::remove_file(scene.path("work/l"));
            if outcome.code == 0 { reached.push(name) } else { wrong.push(outcome) }
        }
        assert_eq!(reached, ["loopback", "loopback over IPv6", "fast open"], "{profile:?}: {wrong:#?}");
    }
}

/// Python that connects to a granted port as `s`, and forgets that connection as `forget()`.
const GRANTED: &str = "import socket as s, ctypes\nt=s.socket(); t.connect((\"127.0.0.1\",GRANTED)); t.recv(1)\n\
    def forget(s): assert ctypes.CDLL(None).connect(s.fileno(), bytes(16), 16)==0\n";

#[test]
fn granted_ports_grant_nothing_else() {
    let granted = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let port = |address: std::io::Result<std::net::SocketAddr>| address.unwrap().port();
    let (granted_port, other_port) = (port(granted.local_addr()), port(other.local_addr()));
    let udp_port = port(datagrams.local_addr());
    std::thread::spawn(move || {
        for stream in granted.incoming() {
            let _ = stream.unwrap().write_all(b"x");
        }
    });
    let after = |code: &str| {
        let code = GRANTED.replace("GRANTED", &granted_port.to_string()) + code;
        format!("python3 -c '{code}'")
    };
    let attempts = [
        after(&format!("forget(t); t.connect((\"127.0.0.1\",{other_port}))")),
        after("forget(t); t.bind((\"127.0.0.1\",0))"),
        after("forget(t); t.listen()"),
    ];
    let udp = format!(
        "python3 -c 'import socket as s\nu=s.socket(s.AF_INET,s.SOCK_DGRAM); u.connect((\"127.0.0.1\",{granted_port})); u.sendto(b\"x\",(\"127.0.0.1\",{udp_port}))'"
    );
    let mut scene = Scene::new();
    scene.policy.network = Network::Own { loopback: vec![granted_port] };
    for attempt in &attempts {
        assert!(scene.run_outside(attempt), "{attempt}");
    }
    assert!(scene.run_outside(&udp));
    assert!(datagrams.recv(&mut [0; 8]).is_ok());
    for profile in profiles().iter().copied() {
        for attempt in &attempts {
            let outcome = scene.run(profile, attempt);
            assert_ne!(outcome.code, 0, "{profile:?}: {attempt}: {outcome:?}");
        }
        scene.run(profile, &udp);
        assert!(datagrams.recv(&mut [0; 8]).is_err(), "{profile:?}");
        let outcome = scene.run(profile, &after("print(1)"));
        assert_eq!((outcome.code, &*outcome.output), (0, "1\n"), "{profile:?}: {outcome:?}");
    }
}

#[test]
fn sockets_of_other_protocols_are_refused() {
    for profile in profiles().iter().copied() {
        let mut scene = Scene::new();
        scene.policy.network = Network::Own { loopback: vec![9] };
        for arguments in
            ["s.AF_INET,s.SOCK_STREAM,132", "s.AF_INET,s.SOCK_STREAM,262", "s.AF_INET,s.SOCK_DGRAM,136"]
        {
            let script = format!(
                "python3 -c 'import socket as s, errno\ntry: s.socket({arguments}); print(1)\nexcept OSError as e: print(errno.errorcode[e.errno])'"
            );
            let outcome = scene.run(profile, &script);
            assert_eq!(outcome.output, "EPROTONOSUPPORT\n", "{profile:?}, {arguments}: {outcome:?}");
        }
    }
}

#[test]
fn renamed_memory_of_others_stays_out_of_reach() {
    let name = format!("/dev/shm/meerkat-renamed-{}", std::process::id());
    for profile in profiles().iter().copied() {
        std::fs::write(&name, "hidden").unwrap();
        let scene = Scene::new();
        let outcome = scene.run(profile, &format!("mv {name} /dev/shm/.env.x && cat /dev/shm/.env.x"));
        let _ = std::fs::remove_file("/dev/shm/.env.x");
        let _ = std::fs::remove_file(&name);
        assert!(outcome.code != 0 && !outcome.output.contains("hidden"), "{profile:?}: {outcome:?}");
    }
}

#[test]
fn abstract_names_of_closed_sockets_are_forgotten() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let name = format!("meerkat-reused-{}-{}", std::process::id(), scene.root().display());
        let script = format!(
            "mkfifo p q; python3 -c 'import socket as s\na=s.socket(s.AF_UNIX); a.bind(\"\\0{name}\"); a.listen()\n\
             s.socket(s.AF_UNIX).connect(\"\\0{name}\"); print(\"own\", flush=True); a.close()\n\
             open(\"p\",\"w\").close(); open(\"q\").read(); s.socket(s.AF_UNIX).connect(\"\\0{name}\"); print(\"hidden\")'"
        );
        let running = scene.start(profile, &script);
        let wait_for = |name: &str| {
            while !scene.path(name).exists() {
                std::thread::yield_now();
            }
        };
        wait_for("work/q");
        std::fs::read(scene.path("work/p")).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _other = UnixListener::bind_addr(&address).unwrap();
        std::fs::write(scene.path("work/q"), "").unwrap();
        let outcome = running.finish();
        assert!(outcome.output.starts_with("own\n") && !outcome.output.contains("hidden"), "{outcome:?}");
    }
}

#[test]
fn granted_directories_of_devices_can_be_used() {
    use std::os::unix::fs::FileTypeExt as _;
    let is_usable = |path: &str| {
        std::fs::File::open(path).is_ok_and(|file| file.metadata().unwrap().file_type().is_char_device())
    };
    if !is_usable("/dev/net/tun") {
        return;
    }
    for profile in profiles().iter().copied() {
        let mut scene = Scene::new();
        let script = "head -c 0 /dev/net/tun && mknod /dev/net/x p";
        let outcome = scene.run(profile, script);
        assert!(outcome.code != 0 && !outcome.output.contains("mknod"), "{profile:?}: {outcome:?}");
        scene.policy.devices = vec!["/dev/net".into()];
        let outcome = scene.run(profile, script);
        assert!(outcome.code != 0 && outcome.output.contains("mknod"), "{profile:?}: {outcome:?}");
    }
}
