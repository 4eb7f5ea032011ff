//! The processes between the helper and the program: what they do after a fork, where nothing may allocate.

use std::ffi::CString;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, chdir, set_parent_process_death_signal, setrlimit, setsid,
    wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::system::uname;

use crate::mounts::{mount_processes, protect_settings};
use crate::plan::Profile;
use crate::policy::{Limits, Program};
use crate::report::Stage;
use crate::sys::{self, Closing, Instruction, Strings, drop_capabilities};

/// All that the program's first process needs, allocated before the fork.
pub(crate) struct Launch {
    path: CString,
    arguments: Strings,
    environment: Strings,
    directory: CString,
    limits: Limits,
    umask: Mode,
    profile: Profile,
    /// Whether the largest process id is a setting of each process namespace.
    has_own_pid_max: bool,
    filter: Vec<Instruction>,
    /// Rules about other processes, applied last.
    rules: Option<OwnedFd>,
    /// Input of the program, if it has any.
    input: Option<OwnedFd>,
    /// Sends the listener to the helper.
    socket: OwnedFd,
    /// Reports a failure; closed by the program's start.
    failure: OwnedFd,
}

/// The parts of a launch other than the program.
pub(crate) struct Restrictions {
    pub(crate) limits: Limits,
    pub(crate) umask: Mode,
    pub(crate) profile: Profile,
    pub(crate) filter: Vec<Instruction>,
    pub(crate) rules: Option<OwnedFd>,
    pub(crate) input: Option<OwnedFd>,
}

impl Launch {
    pub(crate) fn new(
        program: &Program,
        restrictions: Restrictions,
        socket: OwnedFd,
        failure: OwnedFd,
    ) -> Result<Self, std::ffi::NulError> {
        let path = CString::new(program.path.as_os_str().as_bytes())?;
        let arguments = program.arguments.iter().map(|text| CString::new(text.as_bytes()));
        let arguments = [Ok(path.clone())].into_iter().chain(arguments).collect::<Result<_, _>>()?;
        let variables = program.environment.iter();
        let variables =
            variables.map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let Restrictions { limits, umask, profile, filter, rules, input } = restrictions;
        Ok(Self {
            path,
            arguments: Strings::new(arguments),
            environment: Strings::new(variables.collect::<Result<_, _>>()?),
            directory: CString::new(program.directory.as_os_str().as_bytes())?,
            limits,
            umask,
            profile,
            has_own_pid_max: is_at_least(&uname().release().to_string_lossy(), OWN_PID_MAX),
            filter,
            rules,
            input,
            socket,
            failure,
        })
    }

    /// Becomes the first process of a process namespace, starts the program, and ends with it.
    pub(crate) fn run_first(self) -> ! {
        let started =
            self.prepare_first().and_then(|()| sys::fork().map_err(|error| (Stage::Processes, error)));
        match started {
            Ok(Some(program)) => {
                drop(self.socket);
                drop(self.failure);
                drop(self.input);
                release_output();
                sys::exit_now(reap(program))
            }
            Ok(None) => self.run_program(),
            Err((stage, error)) => self.fail(stage, error),
        }
    }

    fn prepare_first(&self) -> Result<(), (Stage, Errno)> {
        let failed = |error| (Stage::Processes, error);
        mount_processes().map_err(failed)?;
        if rustix::process::getuid().is_root() {
            // The number of processes of root has no other limit.
            if self.has_own_pid_max {
                limit_process_ids(self.limits.processes);
            }
            protect_settings().map_err(failed)?;
        }
        drop_capabilities().map_err(failed)?;
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)
    }

    /// Becomes the program.
    pub(crate) fn run_program(self) -> ! {
        let (stage, error) = self.execute();
        self.fail(stage, error)
    }

    fn execute(&self) -> (Stage, Errno) {
        let prepared = self.prepare();
        if let Err(failure) = prepared {
            return failure;
        }
        let listener = match sys::install_filter(&self.filter) {
            Ok(listener) => listener,
            Err(error) => return (Stage::Gate, error),
        };
        if let Err(error) = send(self.socket.as_fd(), listener.as_fd()) {
            return (Stage::Gate, error);
        }
        if let Err(error) = sys::close_from(3, Closing::OnExec) {
            return (Stage::Gate, error);
        }
        (Stage::Program, sys::execute(&self.path, &self.arguments, &self.environment))
    }

    fn prepare(&self) -> Result<(), (Stage, Errno)> {
        let at = |stage| move |error| (stage, error);
        drop_capabilities().map_err(at(Stage::Processes))?;
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(Stage::Processes))?;
        setsid().map_err(at(Stage::Processes))?;
        sys::reset_signals().map_err(at(Stage::Processes))?;
        let connected = match &self.input {
            Some(input) => dup2_stdin(input),
            None => openat(CWD, c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .and_then(|null| dup2_stdin(&null)),
        };
        connected.map_err(at(Stage::Processes))?;
        rustix::process::umask(self.umask);
        chdir(self.directory.as_c_str()).map_err(at(Stage::Directory))?;
        self.limit().map_err(at(Stage::Limits))?;
        if let Some(rules) = &self.rules {
            sys::restrict(rules.as_fd()).map_err(at(Stage::Landlock))?;
        }
        Ok(())
    }

    fn limit(&self) -> Result<(), Errno> {
        let limits = [
            (Resource::Data, self.limits.memory),
            (Resource::Nofile, self.limits.open_files),
            (Resource::Fsize, self.limits.file_size),
            (Resource::Core, 0),
        ];
        for (resource, limit) in limits {
            lower(resource, limit)?;
        }
        // Outside a namespace it would count all processes of the user, which the gate does not.
        match self.profile {
            Profile::Landlock => Ok(()),
            Profile::Namespaces | Profile::SharedProc => lower(Resource::Nproc, self.limits.processes),
        }
    }

    fn fail(&self, stage: Stage, error: Errno) -> ! {
        let code = error.raw_os_error().to_ne_bytes();
        let _ = rustix::io::write(&self.failure, &[stage as u8, code[0], code[1], code[2], code[3]]);
        sys::exit_now(125)
    }
}

fn lower(resource: Resource, limit: u64) -> Result<(), Errno> {
    let now = rustix::process::getrlimit(resource);
    let limit = now.maximum.map_or(limit, |maximum| maximum.min(limit));
    setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })
}

/// The first version of Linux in which it is; before, it is the machine's.
const OWN_PID_MAX: (u32, u32) = (6, 14);

fn is_at_least(release: &str, least: (u32, u32)) -> bool {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let version = numbers.next().zip(numbers.next());
    version.is_some_and(|version| version >= least)
}

/// The kernel accepts no smaller number.
pub(crate) const LEAST_PROCESS_IDS: u64 = 301;

fn limit_process_ids(processes: u64) {
    let Ok(file) = openat(CWD, c"/proc/sys/kernel/pid_max", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
    else {
        return;
    };
    let (mut digits, mut at, mut rest) = ([0; 20], 20, processes.max(LEAST_PROCESS_IDS));
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    let _ = rustix::io::write(&file, &digits[at..]);
}

fn send(socket: BorrowedFd<'_>, listener: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(b"l")], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Closes this process's copies of the output, so that a reader sees when the program closes its own.
pub(crate) fn release_output() {
    if let Ok(null) = openat(CWD, c"/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
    }
}

/// Waits until the program ends, and returns its exit code.
fn reap(program: Pid) -> i32 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => return exit_code(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return 125,
        }
    }
}

/// Returns the exit code as a shell does.
pub(crate) fn exit_code(status: rustix::process::WaitStatus) -> i32 {
    status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(125)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_first_two_numbers() {
        let table = [
            ("6.14.0", true),
            ("6.18.44-fc-v657", true),
            ("7.0-rc1", true),
            ("6.13.12-generic", false),
            ("6.2", false),
            ("5.19.0", false),
            ("6", false),
            ("", false),
        ];
        for (release, expected) in table {
            assert_eq!(is_at_least(release, OWN_PID_MAX), expected, "{release}");
        }
    }
}
