//! A trial of the sandbox for a person who asks what it enforces: a program in it attempts what it must not do.

use std::io::{self, Read as _};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, thread};

use rustix::process::{Pid, getpid, test_kill_process};

use crate::plan::{FLAG, Plan, Profile, TRIAL};
use crate::policy::Program;
use crate::probe::linux::empty_policy;

/// One thing that a sandbox must prevent.
struct Attempt {
    prevented: &'static str,
    perform: fn(&Path) -> io::Result<()>,
}

const ATTEMPTS: [Attempt; 10] = [
    Attempt { prevented: "writing outside", perform: |dir| fs::write(dir.join("outside/file"), "x") },
    Attempt {
        prevented: "changing modes outside",
        perform: |dir| fs::set_permissions(dir.join("outside/file"), fs::Permissions::from_mode(0o600)),
    },
    Attempt {
        prevented: "reading secret directories",
        perform: |dir| fs::read(dir.join("secret/key")).map(drop),
    },
    Attempt {
        prevented: "reading secrets by name",
        perform: |dir| fs::read(dir.join("work/.env")).map(drop),
    },
    Attempt {
        prevented: "writing git hooks",
        perform: |dir| fs::write(dir.join("work/.git/hooks/hook"), "x"),
    },
    Attempt {
        prevented: "creating files that run by themselves",
        perform: |dir| fs::write(dir.join("work/.envrc"), "x"),
    },
    Attempt {
        prevented: "connecting to Unix sockets",
        perform: |dir| UnixStream::connect(dir.join("outside/s")).map(drop),
    },
    Attempt {
        prevented: "connecting to abstract sockets",
        perform: |dir| UnixStream::connect_addr(&abstract_name(dir)?).map(drop),
    },
    Attempt {
        prevented: "connecting to this machine",
        perform: |dir| {
            let port = number(&dir.join("work/port"))?;
            TcpStream::connect(("127.0.0.1", u16::try_from(port).map_err(io::Error::other)?)).map(drop)
        },
    },
    Attempt {
        prevented: "signals to other programs",
        perform: |dir| {
            let pid = Pid::from_raw(number(&dir.join("work/pid"))?).ok_or(io::ErrorKind::InvalidData)?;
            Ok(test_kill_process(pid)?)
        },
    },
];

/// A property of the sandbox, and whether it holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Property {
    /// Actions that the sandbox prevents.
    pub prevented: &'static str,
    /// Whether it does.
    pub holds: bool,
}

/// Tries a profile against things planted in `scratch`, an empty directory that the caller removes.
///
/// # Errors
/// Returns an error if the trial cannot be set up, or if its program does not work.
pub fn try_profile(profile: Profile, helper: &Path, scratch: &Path) -> io::Result<Vec<Property>> {
    let scratch = &scratch.canonicalize()?;
    let _sockets = plant(scratch)?;
    let mut policy = empty_policy(helper, &scratch.join("temporary"));
    policy.names.roots.push(scratch.join("work"));
    policy.names.places = vec![scratch.join("secret")];
    policy.names.patterns = vec![".env".to_owned()];
    let program = Program {
        path: helper.to_owned(),
        arguments: vec![FLAG.into(), TRIAL.into(), scratch.into()],
        environment: Vec::new(),
        directory: scratch.join("work"),
    };
    let (output, writer) = io::pipe()?;
    let mut command = Command::new(helper);
    command.stdout(writer).stderr(Stdio::null());
    let (mut child, control) = Plan { profile, policy, program }.start(command)?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        output.take(1 << 16).read_to_string(&mut text).map(|_| text)
    });
    let status = child.wait()?;
    drop(control);
    let text = reader.join().map_err(|_| io::ErrorKind::Other)??;
    if !status.success() || text.len() != ATTEMPTS.len() {
        return Err(io::Error::other("the program of the trial did not work in the sandbox"));
    }
    let rows = ATTEMPTS.iter().zip(text.bytes());
    Ok(rows
        .map(|(attempt, result)| Property { prevented: attempt.prevented, holds: result == PREVENTED })
        .collect())
}

const PREVENTED: u8 = b'p';
const SUCCEEDED: u8 = b's';

/// Performs the attempts, and writes a letter for each one.
pub(crate) fn attempt_all(dir: &Path) -> io::Result<()> {
    // What must work; else all attempts would fail for another reason.
    fs::write(dir.join("work/new"), "x")?;
    let letters =
        ATTEMPTS.iter().map(|attempt| if (attempt.perform)(dir).is_ok() { SUCCEEDED } else { PREVENTED });
    io::Write::write_all(&mut io::stdout(), &letters.collect::<Vec<_>>())
}

fn plant(dir: &Path) -> io::Result<(UnixListener, UnixListener, TcpListener)> {
    for name in ["work/.git/hooks", "secret", "outside", "temporary"] {
        fs::create_dir_all(dir.join(name))?;
    }
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let port = tcp.local_addr()?.port().to_string();
    let pid = getpid().as_raw_nonzero().to_string();
    let files = [
        ("work/.env", "x"),
        ("secret/key", "x"),
        ("outside/file", "x"),
        ("work/port", &port),
        ("work/pid", &pid),
    ];
    for (name, text) in files {
        fs::write(dir.join(name), text)?;
    }
    let path = UnixListener::bind(dir.join("outside/s"))?;
    Ok((path, UnixListener::bind_addr(&abstract_name(dir)?)?, tcp))
}

fn abstract_name(dir: &Path) -> io::Result<SocketAddr> {
    let name = dir.as_os_str().as_encoded_bytes();
    SocketAddr::from_abstract_name(&name[name.len().saturating_sub(100)..])
}

fn number(path: &Path) -> io::Result<i32> {
    fs::read_to_string(path)?.parse().map_err(io::Error::other)
}
