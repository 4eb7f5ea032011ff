//! Paths of a caller, resolved to objects that the gate holds open.
//!
//! The kernel resolves a path as long as no process is named in it. Names such as `/proc/self` would mean the gate there;
//! such paths are walked one name at a time, in the place of the caller.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstatfs, openat, openat2};
use rustix::fs::{Statx, readlinkat, statx};
use rustix::io::Errno;

use crate::filter::Processes;
use crate::processes::{Status, is_descendant, status};

const MAX_LINKS: usize = 40;
const HOLD: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A path with the directory that it starts from.
#[derive(Debug, Clone)]
pub(super) struct At {
    pub(super) directory: i32,
    pub(super) path: Vec<u8>,
}

/// Treatment of the last name of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// A symlink is followed.
    Followed,
    /// A symlink is the object.
    Itself,
    /// A symlink is followed, and the name may be missing.
    FollowedOrMissing,
    /// A symlink is the object, and the name may be missing.
    ItselfOrMissing,
}

/// Origin of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file system.
    Disk,
    /// The kernel's description of a process of the program.
    OwnProcess,
    /// The kernel's description of anything else.
    Kernel,
}

/// An object, held without access to its content.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) fd: OwnedFd,
    pub(super) origin: Origin,
    /// Kind, owner, and identity of the file.
    pub(super) file: Statx,
}

impl Object {
    /// Returns an object of a file system.
    pub(super) fn on_disk(fd: OwnedFd) -> Result<Self, Errno> {
        let file = describe(fd.as_fd())?;
        Ok(Self { fd, origin: Origin::Disk, file })
    }

    /// Returns its file type.
    pub(super) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.file.stx_mode.into())
    }
}

/// Result of a resolution.
#[derive(Debug)]
pub(super) enum Target {
    Object(Object),
    Missing { parent: Object, name: Vec<u8> },
}

/// Resolves paths.
#[derive(Debug)]
pub(super) struct Resolver {
    /// The process file system of the gate, which is also its working directory.
    pub(super) proc: OwnedFd,
    /// Whose processes the program sees.
    pub(super) visible: Processes,
}

impl Resolver {
    pub(super) fn status(&self, thread: i32) -> Result<Status, Errno> {
        status(self.proc.as_fd(), thread)
    }

    /// Returns `true` if a process is one of the program.
    pub(super) fn is_own(&self, pid: i32) -> bool {
        is_descendant(self.proc.as_fd(), pid, rustix::process::getpid().as_raw_nonzero().get())
    }

    /// Resolves a path to an object.
    pub(super) fn object(&self, thread: i32, at: &At, last: Last) -> Result<Object, Errno> {
        match self.resolve(thread, at, last)? {
            Target::Object(object) => Ok(object),
            Target::Missing { .. } => Err(Errno::NOENT),
        }
    }

    /// Resolves a path.
    pub(super) fn resolve(&self, thread: i32, at: &At, last: Last) -> Result<Target, Errno> {
        if at.path.is_empty() {
            return Err(Errno::NOENT);
        }
        let itself = if is_followed(last) { OFlags::empty() } else { OFlags::NOFOLLOW };
        let open = |start: BorrowedFd<'_>| {
            let flags = ResolveFlags::NO_MAGICLINKS;
            let fd = openat2(start, &*at.path, HOLD | itself, Mode::empty(), flags).ok()?;
            let file = describe(fd.as_fd()).ok()?;
            (!is_proc(fd.as_fd(), &file).ok()?).then_some(Object { fd, origin: Origin::Disk, file })
        };
        // The path says all if it is absolute.
        if at.path.starts_with(b"/")
            && let Some(object) = open(CWD)
        {
            return Ok(Target::Object(object));
        }
        let start = self.start(thread, at)?;
        match open(start.as_fd()) {
            Some(object) => Ok(Target::Object(object)),
            None => self.walk(thread, start, &at.path, last),
        }
    }

    /// Resolves the directory of a path, and returns the last name with it.
    pub(super) fn parent(&self, thread: i32, at: &At) -> Result<(Object, Vec<u8>), Errno> {
        let end = at.path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let path = &at.path[..end];
        let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (directory, name) = path.split_at(start);
        match name {
            b"" => return Err(if at.path.is_empty() { Errno::NOENT } else { Errno::EXIST }),
            b"." | b".." => return Err(Errno::INVAL),
            _ => {}
        }
        let directory = if directory.is_empty() { b"." } else { directory };
        let at = At { directory: at.directory, path: directory.to_vec() };
        Ok((self.object(thread, &at, Last::Followed)?, name.to_vec()))
    }

    /// Holds what a descriptor of the caller refers to.
    pub(super) fn descriptor(&self, thread: i32, number: i32) -> Result<Object, Errno> {
        let path = format!("{thread}/fd/{number}");
        let fd = openat(&self.proc, path, HOLD, Mode::empty()).map_err(|_| Errno::BADF)?;
        self.classify(fd)
    }

    fn start(&self, thread: i32, at: &At) -> Result<OwnedFd, Errno> {
        let flags = HOLD | OFlags::DIRECTORY;
        if at.path.starts_with(b"/") {
            return openat(CWD, c"/", flags, Mode::empty());
        }
        if at.directory == libc::AT_FDCWD {
            return openat(&self.proc, format!("{thread}/cwd"), flags, Mode::empty());
        }
        openat(&self.proc, format!("{thread}/fd/{}", at.directory), flags, Mode::empty())
            .map_err(|error| if error == Errno::NOTDIR { error } else { Errno::BADF })
    }

    fn walk(&self, thread: i32, start: OwnedFd, path: &[u8], last: Last) -> Result<Target, Errno> {
        let mut current = self.classify(start)?;
        let mut open = Vec::new();
        push(&mut open, path);
        let mut links = 0;
        while let Some(name) = open.pop() {
            let is_last = open.is_empty();
            if name == b"." || name == b".." {
                let flags = HOLD | OFlags::DIRECTORY;
                current = self.classify(openat(&current.fd, &*name, flags, Mode::empty())?)?;
                continue;
            }
            let next = match openat(&current.fd, &*name, HOLD | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::NOENT) if is_last && may_be_missing(last) => {
                    return Ok(Target::Missing { parent: current, name });
                }
                next => self.classify(next?)?,
            };
            if next.file_type() != FileType::Symlink || (is_last && !is_followed(last)) {
                current = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            if current.origin == Origin::OwnProcess {
                // The kernel's links of a process of the program lead to an object, not to a path.
                current = self.classify(openat(&current.fd, &*name, HOLD, Mode::empty())?)?;
                continue;
            }
            let text = self.link_text(thread, &current, &name, &next)?;
            if text.starts_with(b"/") {
                current = self.classify(openat(CWD, c"/", HOLD | OFlags::DIRECTORY, Mode::empty())?)?;
            }
            push(&mut open, &text);
        }
        Ok(Target::Object(current))
    }

    /// Returns the text of a symlink as the caller would read it.
    fn link_text(&self, thread: i32, dir: &Object, name: &[u8], link: &Object) -> Result<Vec<u8>, Errno> {
        if dir.origin == Origin::Kernel && path_of(dir.fd.as_fd())? == Path::new("/proc") {
            let status = || self.status(thread);
            match name {
                b"self" => return Ok(status()?.own_process.to_string().into_bytes()),
                b"thread-self" => {
                    let status = status()?;
                    return Ok(format!("{}/task/{}", status.own_process, status.own_thread).into_bytes());
                }
                _ => {}
            }
        }
        Ok(readlinkat(&link.fd, c"", Vec::with_capacity(256))?.into_bytes())
    }

    /// Determines the origin of an object. Descriptions of processes that are not the program's are denied.
    fn classify(&self, fd: OwnedFd) -> Result<Object, Errno> {
        let file = describe(fd.as_fd())?;
        if !is_proc(fd.as_fd(), &file)? {
            return Ok(Object { fd, origin: Origin::Disk, file });
        }
        let path = path_of(fd.as_fd())?;
        let inside = path.strip_prefix("/proc").map_err(|_| Errno::ACCESS)?;
        let first = inside.iter().next().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let Some(pid) = std::str::from_utf8(&first).ok().and_then(|name| name.parse().ok()) else {
            return Ok(Object { fd, origin: Origin::Kernel, file });
        };
        if self.visible == Processes::Own || self.is_own(pid) {
            Ok(Object { fd, origin: Origin::OwnProcess, file })
        } else {
            Err(Errno::ACCESS)
        }
    }
}

pub(super) fn describe(fd: BorrowedFd<'_>) -> Result<Statx, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// Returns the path of an object now; a removed file keeps its last one.
pub(super) fn path_of(fd: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    const REMOVED: &[u8] = b" (deleted)";
    let path = readlinkat(CWD, own_path(fd), Vec::with_capacity(256))?.into_bytes();
    let path = path.strip_suffix(REMOVED).map(<[u8]>::to_vec).unwrap_or(path);
    Ok(PathBuf::from(OsString::from_vec(path)))
}

/// Returns the path, from the gate's working directory, by which the gate opens a held object again.
pub(super) fn own_path(fd: BorrowedFd<'_>) -> String {
    format!("self/fd/{}", fd.as_raw_fd())
}

/// Returns `true` for the kernel's descriptions. They have no device, which is known without another call.
fn is_proc(fd: BorrowedFd<'_>, file: &Statx) -> Result<bool, Errno> {
    Ok(file.stx_dev_major == 0 && fstatfs(fd)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

fn is_followed(last: Last) -> bool {
    matches!(last, Last::Followed | Last::FollowedOrMissing)
}

fn may_be_missing(last: Last) -> bool {
    matches!(last, Last::FollowedOrMissing | Last::ItselfOrMissing)
}

/// Puts the names of a path on a stack, the first on top. A slash at the end requires a directory.
fn push(open: &mut Vec<Vec<u8>>, path: &[u8]) {
    if path.ends_with(b"/") {
        open.push(b".".to_vec());
    }
    open.extend(path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).rev().map(<[u8]>::to_vec));
}
