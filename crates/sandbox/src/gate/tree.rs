//! Changes of names: rename, link, symlink, create, and remove.
//!
//! Each call holds the lock of names from the judgment to the change, and acts relative to the directory that it judged.

use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, linkat, mkdirat, mknodat, openat, renameat_with, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::files;
use super::judge::identity;
use super::resolve::{At, Last, Object, Origin, describe, own_path, path_of};
use super::serve::{Answer, Caller};
use crate::guard::Access;

/// A name in a directory that is held open.
struct Name {
    parent: Object,
    leaf: Vec<u8>,
    path: PathBuf,
}

impl Name {
    fn resolve(caller: &Caller, at: &At) -> Result<Self, Errno> {
        let (parent, leaf) = caller.gate.resolver.parent(caller.thread, at)?;
        if parent.origin != Origin::Disk {
            return Err(Errno::PERM);
        }
        let path = path_of(parent.fd.as_fd())?.join(OsStr::from_bytes(&leaf));
        Ok(Self { parent, leaf, path })
    }

    /// Holds what has this name now; `None` if nothing has.
    fn object(&self) -> Result<Option<Object>, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.parent.fd, &*self.leaf, flags, Mode::empty()) {
            Ok(fd) => Object::on_disk(fd).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Renames a file or directory.
pub(super) fn rename(caller: &Caller, from: &At, to: &At, flags: u32) -> Result<Answer, Errno> {
    let gate = &caller.gate;
    let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
    if flags.contains(RenameFlags::WHITEOUT) {
        return Err(Errno::INVAL);
    }
    let _names = gate.names.lock().map_err(|_| Errno::ACCESS)?;
    let (from, to) = (Name::resolve(caller, from)?, Name::resolve(caller, to)?);
    let source = from.object()?.ok_or(Errno::NOENT)?;
    let replaced = to.object()?;
    judge_rename(caller, &from, &source)?;
    judge_destination(caller, &source, &from, &to, replaced.as_ref())?;
    if flags.contains(RenameFlags::EXCHANGE) {
        let replaced = replaced.as_ref().ok_or(Errno::NOENT)?;
        judge_rename(caller, &to, replaced)?;
        judge_destination(caller, replaced, &to, &from, Some(&source))?;
    }
    renameat_with(&from.parent.fd, &*from.leaf, &to.parent.fd, &*to.leaf, flags)?;
    verify_moved(caller, &source, &from, &to, flags)?;
    match replaced {
        Some(replaced) if flags.contains(RenameFlags::EXCHANGE) => {
            verify_moved(caller, &replaced, &to, &from, flags)?;
        }
        Some(replaced) => gate.judge.forget(&describe(replaced.fd.as_fd())?),
        None => {}
    }
    Ok(Answer::Value(0))
}

/// Judges what got a name if it is not what was judged: programs in other sandboxes share the directory. If it must not
/// have the name, it loses it.
fn verify_moved(
    caller: &Caller,
    source: &Object,
    from: &Name,
    to: &Name,
    flags: RenameFlags,
) -> Result<(), Errno> {
    const ATTEMPTS: usize = 64;
    let Some(moved) = to.object()? else { return Ok(()) };
    if identity(&moved.file) == identity(&source.file) {
        return Ok(());
    }
    let judged =
        judge_rename(caller, from, &moved).and_then(|()| judge_destination(caller, &moved, from, to, None));
    let Err(error) = judged else { return Ok(()) };
    if flags.contains(RenameFlags::EXCHANGE) {
        let _ = renameat_with(&to.parent.fd, &*to.leaf, &from.parent.fd, &*from.leaf, flags);
        return Err(error);
    }
    for attempt in 0..ATTEMPTS {
        let leaf = if attempt == 0 { from.leaf.clone() } else { format!("moved-{attempt}").into_bytes() };
        let flags = RenameFlags::NOREPLACE;
        match renameat_with(&to.parent.fd, &*to.leaf, &from.parent.fd, &*leaf, flags) {
            Err(Errno::EXIST) => {}
            _ => break,
        }
    }
    Err(error)
}

fn judge_rename(caller: &Caller, from: &Name, source: &Object) -> Result<(), Errno> {
    let gate = &caller.gate;
    let is_created = gate.judge.is_created(identity(&source.file));
    if gate.judge.is_shared(&from.path) && !is_created {
        return Err(gate.judge.deny(
            "rename",
            from.path.as_os_str().as_bytes(),
            "belongs to another program",
        ));
    }
    if leads_to_directory(source) {
        gate.judge.name("rename", &from.path, Access::MoveDir)?;
        return gate.judge.name("rename", &from.path, Access::Create);
    }
    if is_created {
        return gate.judge.name("rename", &from.path, Access::Create);
    }
    gate.judge.name("rename", &from.path, Access::Rename)
}

/// Returns `true` if a name may stand for all that a directory contains.
fn leads_to_directory(object: &Object) -> bool {
    matches!(object.file_type(), FileType::Directory | FileType::Symlink)
}

/// A name may be taken if it is not guarded, and if no secret of the user is lost.
fn judge_destination(
    caller: &Caller,
    source: &Object,
    from: &Name,
    to: &Name,
    replaced: Option<&Object>,
) -> Result<(), Errno> {
    let judge = &caller.gate.judge;
    let names = judge.names(Access::MoveDir);
    if source.file_type() == FileType::Directory && names.root(&from.path) != names.root(&to.path) {
        // Names inside it have not been judged as those of a root; a program then copies it, file by file.
        return Err(Errno::XDEV);
    }
    if leads_to_directory(source) {
        judge.name("rename", &to.path, Access::MoveDir)?;
    }
    judge.name("rename", &to.path, Access::Create)?;
    if let Some(replaced) = replaced
        && !judge.is_created(identity(&replaced.file))
    {
        judge.name("rename", &to.path, Access::Write)?;
    }
    Ok(())
}

/// Adds a name to a file.
pub(super) fn link(caller: &Caller, from: &At, to: &At, flags: i32) -> Result<Answer, Errno> {
    let gate = &caller.gate;
    if from.path.is_empty() {
        return Err(Errno::NOENT);
    }
    let _names = gate.names.lock().map_err(|_| Errno::ACCESS)?;
    let last = if flags & libc::AT_SYMLINK_FOLLOW == 0 { Last::Itself } else { Last::Followed };
    let source = gate.resolver.object(caller.thread, from, last)?;
    let path = path_of(source.fd.as_fd())?;
    gate.judge.object("link", &source, &path, Access::Rename)?;
    let to = Name::resolve(caller, to)?;
    gate.judge.name("link", &to.path, Access::Create)?;
    let flags = AtFlags::SYMLINK_FOLLOW;
    linkat(&gate.resolver.proc, own_path(source.fd.as_fd()), &to.parent.fd, &*to.leaf, flags)?;
    Ok(Answer::Value(0))
}

/// Creates a symlink, which may lead to a directory with everything in it.
pub(super) fn symlink(caller: &Caller, text: &[u8], at: &At) -> Result<Answer, Errno> {
    add(caller, at, Access::MoveDir, FileType::Symlink, |name| {
        caller.gate.judge.name("create", &name.path, Access::Create)?;
        symlinkat(text, &name.parent.fd, &*name.leaf)
    })
}

/// Creates a directory.
pub(super) fn make_dir(caller: &Caller, at: &At, mode: u32) -> Result<Answer, Errno> {
    let mode = caller.masked(mode)?;
    add(caller, at, Access::MakeDir, FileType::Directory, |name| mkdirat(&name.parent.fd, &*name.leaf, mode))
}

/// Creates a pipe or an empty file.
pub(super) fn make_node(caller: &Caller, at: &At, mode: u32) -> Result<Answer, Errno> {
    match FileType::from_raw_mode(mode) {
        FileType::Unknown | FileType::RegularFile => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
            files::open(caller, at, flags.bits().cast_signed(), mode).map(|_| Answer::Value(0))
        }
        kind @ FileType::Fifo => {
            let mode = caller.masked(mode)?;
            add(caller, at, Access::Create, kind, |name| mknodat(&name.parent.fd, &*name.leaf, kind, mode, 0))
        }
        _ => Err(Errno::PERM),
    }
}

fn add(
    caller: &Caller,
    at: &At,
    access: Access,
    kind: FileType,
    perform: impl Fn(&Name) -> Result<(), Errno>,
) -> Result<Answer, Errno> {
    let judge = &caller.gate.judge;
    let _names = caller.gate.names.lock().map_err(|_| Errno::ACCESS)?;
    let name = Name::resolve(caller, at)?;
    judge.name("create", &name.path, access)?;
    perform(&name)?;
    // Directories and symlinks are no secrets.
    if kind == FileType::Fifo || judge.is_shared(&name.path) {
        // A program in another sandbox may have put another file there, but never a socket or a file with content.
        let object = name.object()?.filter(|object| object.file_type() == kind);
        if let Some(object) = object {
            judge.add_created(object.fd.as_fd())?;
        }
    }
    Ok(Answer::Value(0))
}

/// Removes a name.
pub(super) fn unlink(caller: &Caller, at: &At) -> Result<Answer, Errno> {
    let _names = caller.gate.names.lock().map_err(|_| Errno::ACCESS)?;
    if at.path.ends_with(b"/") {
        return Err(Errno::NOTDIR);
    }
    let name = Name::resolve(caller, at)?;
    caller.gate.judge.name("remove", &name.path, Access::Remove)?;
    let removed = name.object()?;
    unlinkat(&name.parent.fd, &*name.leaf, AtFlags::empty())?;
    if let Some(removed) = removed {
        caller.gate.judge.forget(&removed.file);
    }
    Ok(Answer::Value(0))
}
