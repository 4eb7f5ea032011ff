//! Changes of mode, owner, times, and attributes, made by the gate on the object that it judged.

use std::os::fd::AsFd as _;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, removexattr,
    setxattr, utimensat,
};
use rustix::io::Errno;

use super::resolve::{Object, own_path, path_of};
use super::serve::{Answer, Caller, int};
use crate::guard::Access;

const MAX_ATTRIBUTE: usize = 65_536;
const KEEP: u32 = u32::MAX;

fn judge(caller: &Caller, operation: &str, object: &Object) -> Result<(), Errno> {
    let path = path_of(object.fd.as_fd())?;
    caller.gate.judge.writable(operation, &path)?;
    caller.gate.judge.object(operation, object, &path, Access::Write)
}

/// Changes the mode. No file gets the identity of its owner.
pub(super) fn mode(caller: &Caller, object: &Object, mode: u32) -> Result<Answer, Errno> {
    const SET_ID: u32 = 0o6000;
    judge(caller, "chmod", object)?;
    let kind = object.file_type();
    if kind == FileType::Symlink {
        return Err(Errno::OPNOTSUPP);
    }
    if kind != FileType::Directory && mode & SET_ID != 0 {
        return Err(Errno::PERM);
    }
    chmod(own_path(object.fd.as_fd()), Mode::from_raw_mode(mode & 0o7777))?;
    Ok(Answer::Value(0))
}

/// Changes owner and group.
pub(super) fn owner(caller: &Caller, object: &Object, user: u32, group: u32) -> Result<Answer, Errno> {
    judge(caller, "chown", object)?;
    let user = (user != KEEP).then(|| Uid::from_raw(user));
    let group = (group != KEEP).then(|| Gid::from_raw(group));
    chownat(&object.fd, c"", user, group, AtFlags::EMPTY_PATH)?;
    Ok(Answer::Value(0))
}

/// Changes times, which are given in seconds and nanoseconds.
pub(super) fn times(caller: &Caller, object: &Object, address: u64) -> Result<Answer, Errno> {
    let times = match address {
        0 => NOW,
        _ => {
            let [access, access_part, change, change_part] = numbers(caller, address)?;
            pair((access, access_part), (change, change_part))
        }
    };
    set_times(caller, object, &times)
}

/// Changes times, which are given in seconds, or in seconds and parts of which one is `scale` nanoseconds.
pub(super) fn old_times(caller: &Caller, object: &Object, address: u64, scale: i64) -> Result<Answer, Errno> {
    let times = match (address, scale) {
        (0, _) => NOW,
        (_, 0) => {
            let [access, change] = numbers(caller, address)?;
            pair((access, 0), (change, 0))
        }
        _ => {
            let [access, access_part, change, change_part] = numbers(caller, address)?;
            if [access_part, change_part].iter().any(|part| !(0..1_000_000).contains(part)) {
                return Err(Errno::INVAL);
            }
            pair((access, access_part * scale), (change, change_part * scale))
        }
    };
    set_times(caller, object, &times)
}

const NOW: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
    last_modification: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
};

fn pair(access: (i64, i64), change: (i64, i64)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: access.0, tv_nsec: access.1 },
        last_modification: Timespec { tv_sec: change.0, tv_nsec: change.1 },
    }
}

fn numbers<const COUNT: usize>(caller: &Caller, address: u64) -> Result<[i64; COUNT], Errno> {
    let len = COUNT * size_of::<i64>();
    let bytes = caller.bytes(address, len as u64, len)?;
    let mut numbers = [0; COUNT];
    for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = i64::from_ne_bytes(*bytes);
    }
    Ok(numbers)
}

fn set_times(caller: &Caller, object: &Object, times: &Timestamps) -> Result<Answer, Errno> {
    judge(caller, "utime", object)?;
    utimensat(&object.fd, c"", times, AtFlags::EMPTY_PATH)?;
    Ok(Answer::Value(0))
}

/// Sets an extended attribute.
pub(super) fn set_attribute(caller: &Caller, object: &Object) -> Result<Answer, Errno> {
    let [_, name, value, len, flags, _] = caller.arguments;
    let name = caller.string(name)?;
    let value = caller.bytes(value, len, MAX_ATTRIBUTE)?;
    judge(caller, "setxattr", object)?;
    if object.file_type() == FileType::Symlink {
        return Err(Errno::PERM);
    }
    let flags = XattrFlags::from_bits(int(flags).cast_unsigned()).ok_or(Errno::INVAL)?;
    setxattr(own_path(object.fd.as_fd()), &*name, &value, flags)?;
    Ok(Answer::Value(0))
}

/// Removes an extended attribute.
pub(super) fn remove_attribute(caller: &Caller, object: &Object) -> Result<Answer, Errno> {
    let name = caller.string(caller.arguments[1])?;
    judge(caller, "removexattr", object)?;
    if object.file_type() == FileType::Symlink {
        return Err(Errno::PERM);
    }
    removexattr(own_path(object.fd.as_fd()), &*name)?;
    Ok(Answer::Value(0))
}
