//! A disk that a test can fill or make read-only.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A one-megabyte disk, unmounted at the end of the test.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts an empty disk at a directory. Returns `None` if the kernel does not allow it: mounting requires root.
    #[must_use]
    pub fn mount(at: &Path) -> Option<Self> {
        mount(&["-t", "tmpfs", "-o", "size=1m", "meerkat-test"], at).then(|| Self(at.to_owned()))
    }

    /// Writes until the disk is full. Returns the file to remove to free space again.
    ///
    /// # Panics
    /// Panics if the file cannot be created.
    #[must_use]
    pub fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).expect("a file on the disk");
        for size in [4096, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
        path
    }

    /// Remounts the disk read-only.
    ///
    /// # Panics
    /// Panics if the kernel rejects it, for example because a process is writing to the disk.
    pub fn make_read_only(&self) {
        assert!(mount(&["-o", "remount,ro"], &self.0), "the disk can be made read-only");
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    Command::new("mount").args(arguments).arg(at).output().is_ok_and(|output| output.status.success())
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that is shutting down may still have a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
