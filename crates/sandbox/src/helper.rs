//! The helper: sets up the sandbox, starts the program in it, answers its calls, and ends all that it started.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{CWD, FileType, Mode, OFlags, openat, stat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};
use rustix::process::{
    DumpableBehavior, Pid, fchdir, getpid, set_child_subreaper, set_dumpable_behavior, test_kill_process,
    umask,
};
use rustix::thread::{UnshareFlags, set_no_new_privs};

use crate::child::{Launch, Restrictions, release_output};
use crate::filter::{self, Internet, Needs, Processes};
use crate::gate::{self, Gate, Isolation, View};
use crate::life::{Life, Reach, Watched};
use crate::plan::{FLAG, NOTHING, Plan, Profile, TRIAL};
use crate::policy::Network;
use crate::report::{Refusal, Report, Stage};
use crate::sys::{self, Closing};
use crate::{landlock, mounts, trial};

/// Exit code if the sandbox does not hold, and so the program is not started.
const REFUSED: u8 = 125;
/// Devices that hold no data and that programs need.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
const SHARED_MEMORY: &str = "/dev/shm";

/// Runs as a helper if the arguments request it, and returns the exit code.
///
/// A host calls this first in `main`, before it starts threads or a runtime:
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(code) = meerkat_sandbox::run_helper(std::env::args_os()) {
///         return code;
///     }
///     ExitCode::SUCCESS
/// }
/// ```
pub fn run_helper(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != FLAG {
        return None;
    }
    match arguments.next() {
        Some(argument) if argument == NOTHING => Some(ExitCode::SUCCESS),
        Some(argument) if argument == TRIAL => {
            let done = trial::attempt_all(Path::new(&arguments.next()?));
            Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Some(_) => None,
        None => Some(ExitCode::from(serve())),
    }
}

fn serve() -> u8 {
    const FIRST_FREE: i32 = 3;
    let refused = |error: Errno| Refusal { stage: Stage::Plan, path: None, error: error.raw_os_error() };
    let closed = sys::close_from(3, Closing::Now);
    let Ok(socket) = fcntl_dupfd_cloexec(std::io::stdin(), FIRST_FREE) else { return REFUSED };
    let mut host = UnixStream::from(socket);
    let plan = closed.map_err(refused).and_then(|()| read_plan(&host));
    let started = plan.and_then(|(plan, input)| start(&resolve_paths(plan)?, input));
    match started {
        Ok(mut life) => {
            report(&mut host, &Report::Ready);
            let (code, ended) = life.watch(host.as_fd());
            report(&mut host, &ended);
            code
        }
        Err(refusal) => {
            report(&mut host, &Report::Refused(refusal));
            REFUSED
        }
    }
}

/// Sends a report; a host that is gone needs none.
fn report(host: &mut UnixStream, report: &Report) {
    if let Ok(mut text) = serde_json::to_string(report) {
        text.push('\n');
        let _ = host.write_all(text.as_bytes());
    }
}

/// Reads the plan, and the descriptor of the program's input if the host sends one.
fn read_plan(host: &UnixStream) -> Result<(Plan, Option<OwnedFd>), Refusal> {
    const PART: usize = 1 << 16;
    let refused = refuse(Stage::Plan);
    let (mut text, mut input, mut buffer) = (Vec::new(), None, vec![0; PART]);
    while !text.ends_with(b"\n") {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [std::io::IoSliceMut::new(&mut buffer)];
        let received =
            recvmsg(host, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC).map_err(&refused)?.bytes;
        input = first_descriptor(&mut control).or(input);
        if received == 0 {
            return Err(refused(Errno::PIPE));
        }
        text.extend_from_slice(&buffer[..received]);
    }
    let plan = serde_json::from_slice(&text).map_err(|_| refused(Errno::INVAL))?;
    Ok((plan, input))
}

fn first_descriptor(control: &mut RecvAncillaryBuffer<'_>) -> Option<OwnedFd> {
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

/// Replaces paths by the real ones, which the gate compares with those of the objects that it opens.
fn resolve_paths(mut plan: Plan) -> Result<Plan, Refusal> {
    let policy = &mut plan.policy;
    policy.validate().map_err(|invalid| Refusal {
        stage: Stage::Grants,
        error: invalid.problem.error_number(),
        path: Some(invalid.path),
    })?;
    for path in policy.names.roots.iter_mut().chain([&mut policy.temporary]) {
        let refused = |error: std::io::Error| Refusal {
            stage: Stage::Grants,
            path: Some(path.clone()),
            error: error.raw_os_error().unwrap_or(libc::EIO),
        };
        *path = path.canonicalize().map_err(refused)?;
    }
    let home = policy.home.as_ref().and_then(|home| home.canonicalize().ok());
    policy.home = home.or(policy.home.take());
    for paths in [&mut policy.names.places, &mut policy.sockets, &mut policy.devices] {
        let real: Vec<_> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
        paths.extend(real);
        paths.sort();
        paths.dedup();
    }
    policy.names.find_guards();
    Ok(plan)
}

fn refuse(stage: Stage) -> impl Fn(Errno) -> Refusal {
    move |error| Refusal { stage, path: None, error: error.raw_os_error() }
}

/// Sets everything up and starts the program.
fn start(plan: &Plan, input: Option<OwnedFd>) -> Result<Life, Refusal> {
    let at = refuse;
    let proc = openat(CWD, c"/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(at(Stage::Processes))?;
    set_no_new_privs(true).map_err(at(Stage::Gate))?;
    set_child_subreaper(Some(getpid())).map_err(at(Stage::Processes))?;
    let umask = umask(Mode::empty());
    let score = raise_score(&proc);
    let view = restrict_view(plan)?;
    // Other processes of the user must not read or stop the gate.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(at(Stage::Processes))?;
    fchdir(&proc).map_err(at(Stage::Processes))?;
    let needs = needs(plan);
    let own = proc.try_clone().map_err(|_| at(Stage::Gate)(Errno::MFILE))?;
    let gate = Gate::new(&plan.policy, proc, needs.processes, view).map_err(at(Stage::Gate))?;
    let (socket, launch, failure) = prepare_launch(plan, needs, umask, input)?;
    let thread_error = |_| at(Stage::Gate)(Errno::AGAIN);
    let listener = gate::start(&gate).map_err(thread_error)?;
    let reach = if needs.processes == Processes::Own { Reach::Namespace } else { confine_signals() };
    let child = fork(plan.profile, launch)?;
    if let Some((file, before)) = score {
        // Where this is denied, the helper may end before the program, which then ends too.
        let _ = rustix::io::write(&file, &before);
    }
    sys::drop_capabilities().map_err(at(Stage::Gate))?;
    release_output();
    if let Some(received) = receive_listener(&socket) {
        // A gate that is gone leaves the calls of the program unanswered until this process ends.
        listener.send(received).map_err(|_| at(Stage::Gate)(Errno::PIPE))?;
    }
    await_start(failure)?;
    let (limits, roots) = (plan.policy.limits.clone(), plan.policy.writable_roots());
    Ok(Life::new(gate, Watched { child, reach, proc: own, limits, roots }))
}

/// Confines the signals of this thread to what it starts from now on, if the kernel can do that.
fn confine_signals() -> Reach {
    let is_confined = landlock::signals().is_some_and(|rules| sys::restrict(rules.as_fd()).is_ok());
    // The host shows that it works: it is the same user's, so it could be signaled otherwise.
    let host = rustix::process::getppid();
    if is_confined && host.is_some_and(|host| test_kill_process(host) == Err(Errno::PERM)) {
        Reach::Domain
    } else {
        Reach::Descendants
    }
}

/// Restricts the files of this process and all it starts; returns what the gate needs to know.
fn restrict_view(plan: &Plan) -> Result<View, Refusal> {
    let policy = &plan.policy;
    let roots = policy.writable_roots();
    let wanted = DEVICES.iter().map(PathBuf::from).chain(policy.devices.iter().cloned());
    let devices: Vec<_> = wanted.filter(|path| path.exists()).flat_map(|path| devices_in(path, 4)).collect();
    let numbers = devices.iter().filter_map(|path| device_number(path)).collect();
    let mut writable = roots;
    writable.push(policy.temporary.clone());
    if plan.profile == Profile::Landlock {
        writable.push(SHARED_MEMORY.into());
        let rules = landlock::files(&writable, &devices, &policy.names.places)
            .map_err(|_| refuse(Stage::Landlock)(Errno::NOSYS))?;
        sys::restrict(rules.as_fd()).map_err(refuse(Stage::Landlock))?;
        let shared = Some(SHARED_MEMORY.into());
        return Ok(View { writable, devices: numbers, shared, isolation: Isolation::Shared });
    }
    mounts::enter_namespaces()?;
    mounts::mount_view(policy, &writable, &devices)?;
    writable.extend([SHARED_MEMORY, "/tmp", "/var/tmp"].map(PathBuf::from));
    let isolation = if policy.network == Network::Full { Isolation::Shared } else { Isolation::Namespace };
    Ok(View { writable, devices: numbers, shared: None, isolation })
}

/// Returns a device, or those in a directory.
fn devices_in(path: PathBuf, depth: usize) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(&path) else { return vec![path] };
    let inside = entries.flatten().filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_char_device() || (kind.is_dir() && depth > 0))
    });
    inside.flat_map(|entry| devices_in(entry.path(), depth.saturating_sub(1))).collect()
}

fn device_number(path: &Path) -> Option<(u32, u32)> {
    let stat = stat(path).ok()?;
    let is_device = FileType::from_raw_mode(stat.st_mode).is_char_device();
    is_device.then(|| (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)))
}

fn needs(plan: &Plan) -> Needs {
    let processes = if plan.profile == Profile::Namespaces { Processes::Own } else { Processes::Shared };
    let internet = match &plan.policy.network {
        Network::Full => Internet::Open,
        Network::Own { loopback } if plan.profile == Profile::Landlock && loopback.is_empty() => {
            Internet::Refused
        }
        Network::Own { .. } => Internet::Asked,
    };
    Needs { processes, internet }
}

/// Has the kernel prefer this process, and what it starts, when memory is short; returns how to undo that.
fn raise_score(proc: &OwnedFd) -> Option<(OwnedFd, Vec<u8>)> {
    const SCORE: i32 = 500;
    let file = openat(proc, c"self/oom_score_adj", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut before = [0; 16];
    let len = rustix::io::read(&file, &mut before[..]).ok()?;
    let before = before[..len].trim_ascii().to_vec();
    let is_lower = std::str::from_utf8(&before).ok()?.parse::<i32>().ok()? < SCORE;
    (is_lower && rustix::io::write(&file, SCORE.to_string().as_bytes()).is_ok()).then_some((file, before))
}

fn prepare_launch(
    plan: &Plan,
    needs: Needs,
    umask: Mode,
    input: Option<OwnedFd>,
) -> Result<(OwnedFd, Launch, OwnedFd), Refusal> {
    let at = refuse;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(at(Stage::Gate))?;
    let (failure, failing) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(at(Stage::Gate))?;
    let rules = match plan.profile {
        Profile::Namespaces => None,
        Profile::SharedProc | Profile::Landlock => landlock::others(&plan.policy.network),
    };
    let restrictions = Restrictions {
        limits: plan.policy.limits.clone(),
        umask,
        profile: plan.profile,
        filter: filter::build(needs),
        rules,
        input,
    };
    let launch = Launch::new(&plan.program, restrictions, theirs, failing)
        .map_err(|_| at(Stage::Program)(Errno::INVAL))?;
    Ok((ours, launch, failure))
}

/// Forks the first process. In the child nothing may allocate from here on.
fn fork(profile: Profile, launch: Launch) -> Result<Pid, Refusal> {
    if profile == Profile::Namespaces {
        sys::unshare(UnshareFlags::NEWPID).map_err(refuse(Stage::Processes))?;
    }
    match sys::fork().map_err(refuse(Stage::Processes))? {
        Some(child) => Ok(child),
        None if profile == Profile::Namespaces => launch.run_first(),
        None => launch.run_program(),
    }
}

/// Receives the listener; `None` if the child failed before it had one.
fn receive_listener(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut buffers = [std::io::IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    first_descriptor(&mut control)
}

/// Waits until the program is executed, which closes the pipe, or until the child reports why it is not.
fn await_start(failure: OwnedFd) -> Result<(), Refusal> {
    let mut message = Vec::new();
    let read = std::fs::File::from(failure).read_to_end(&mut message);
    match (read, &*message) {
        (Ok(0), _) => Ok(()),
        (Ok(_), [stage, code @ ..]) if code.len() == size_of::<i32>() => {
            let code = code.try_into().map_or(libc::EIO, i32::from_ne_bytes);
            Err(Refusal { stage: Stage::from_number(*stage), path: None, error: code })
        }
        _ => Err(refuse(Stage::Program)(Errno::IO)),
    }
}
