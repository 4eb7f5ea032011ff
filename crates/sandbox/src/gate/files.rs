//! Opening and truncating files.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{FileType, Mode, OFlags, ftruncate, openat};
use rustix::io::Errno;

use super::resolve::{At, Last, Object, Target, own_path, path_of};
use super::serve::{Answer, Caller, Sharing};
use crate::guard::Access;
use crate::sys::Then;

/// Attempts to open or create a file that others create and remove at the same time.
const ATTEMPTS: usize = 16;

/// Opens a file.
pub(super) fn open(caller: &Caller, at: &At, flags: i32, mode: u32) -> Result<Answer, Errno> {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    if flags.contains(OFlags::TMPFILE) {
        return open_nameless(caller, at, flags, mode);
    }
    let (creates, is_exclusive) = (flags.contains(OFlags::CREATE), flags.contains(OFlags::EXCL));
    let is_followed = !(flags.contains(OFlags::NOFOLLOW) || (creates && is_exclusive));
    let last = match (is_followed, creates) {
        (true, true) => Last::FollowedOrMissing,
        (false, true) => Last::ItselfOrMissing,
        (true, false) => Last::Followed,
        (false, false) => Last::Itself,
    };
    for _ in 0..ATTEMPTS {
        match caller.gate.resolver.resolve(caller.thread, at, last)? {
            Target::Object(_) if creates && is_exclusive => return Err(Errno::EXIST),
            Target::Object(object) => return open_object(caller, &object, flags),
            Target::Missing { parent, name } => match create(caller, &parent, &name, flags, mode) {
                Err(Errno::EXIST) if !is_exclusive => {}
                result => return result,
            },
        }
    }
    Err(Errno::AGAIN)
}

fn open_object(caller: &Caller, object: &Object, flags: OFlags) -> Result<Answer, Errno> {
    let kind = object.file_type();
    if kind == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    if kind == FileType::Directory && flags.intersects(OFlags::CREATE) {
        return Err(Errno::ISDIR);
    }
    judge(caller, object, flags)?;
    let reopened = flags
        .difference(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC | OFlags::NOCTTY);
    if kind == FileType::Fifo && !flags.contains(OFlags::NONBLOCK) {
        let fd = object.fd.try_clone().map_err(|_| Errno::MFILE)?;
        return caller.later(move |caller| {
            openat(&caller.gate.resolver.proc, own_path(fd.as_fd()), reopened, Mode::empty())
                .map(|fd| give(fd, flags))
        });
    }
    let fd = openat(&caller.gate.resolver.proc, own_path(object.fd.as_fd()), reopened, Mode::empty())?;
    Ok(give(fd, flags))
}

fn judge(caller: &Caller, object: &Object, flags: OFlags) -> Result<(), Errno> {
    let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC);
    let access = if writes { Access::Write } else { Access::Read };
    let path = path_of(object.fd.as_fd())?;
    caller.gate.judge.object("open", object, &path, access)
}

fn give(fd: OwnedFd, flags: OFlags) -> Answer {
    let is_read = !flags.intersects(OFlags::WRONLY | OFlags::RDWR);
    let then = if is_read { Then::Answer } else { Then::Wait };
    Answer::Give(fd, Sharing { close_on_exec: (flags & OFlags::CLOEXEC).bits(), then })
}

fn create(caller: &Caller, parent: &Object, name: &[u8], flags: OFlags, mode: u32) -> Result<Answer, Errno> {
    let gate = &caller.gate;
    let mode = caller.masked(mode)?;
    let names = gate.names.lock().map_err(|_| Errno::ACCESS)?;
    let path = path_of(parent.fd.as_fd())?.join(OsStr::from_bytes(name));
    gate.judge.name("create", &path, Access::Create)?;
    let flags_here = flags.union(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC);
    let fd = openat(&parent.fd, name, flags_here, mode)?;
    gate.judge.add_created(fd.as_fd())?;
    drop(names);
    Ok(give(fd, flags))
}

/// Creates a file without a name in a directory.
fn open_nameless(caller: &Caller, at: &At, flags: OFlags, mode: u32) -> Result<Answer, Errno> {
    let gate = &caller.gate;
    let parent = gate.resolver.object(caller.thread, at, Last::Followed)?;
    let path = path_of(parent.fd.as_fd())?;
    gate.judge.name("create", &path.join("#"), Access::Create)?;
    let mode = caller.masked(mode)?;
    let fd = openat(&gate.resolver.proc, own_path(parent.fd.as_fd()), flags.union(OFlags::CLOEXEC), mode)?;
    gate.judge.add_created(fd.as_fd())?;
    Ok(give(fd, flags))
}

/// Changes the size of a file by its path.
pub(super) fn truncate(caller: &Caller, at: &At, size: u64) -> Result<Answer, Errno> {
    let object = caller.gate.resolver.object(caller.thread, at, Last::Followed)?;
    match object.file_type() {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR),
        _ => return Err(Errno::INVAL),
    }
    judge(caller, &object, OFlags::WRONLY)?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let fd = openat(&caller.gate.resolver.proc, own_path(object.fd.as_fd()), flags, Mode::empty())?;
    ftruncate(&fd, size)?;
    Ok(Answer::Value(0))
}
