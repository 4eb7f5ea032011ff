//! Measures two things alternately, and compares them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Reason a benchmark failed.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Amount of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Enough to test that it works.
    Smoke,
    /// Enough for reliable numbers.
    Full,
}

impl Effort {
    pub(crate) fn rounds(self, full: usize) -> usize {
        match self {
            Self::Smoke => full.div_ceil(10),
            Self::Full => full,
        }
    }
}

/// Measured times.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.0.push(start.elapsed());
        done
    }

    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Returns the median.
    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// Returns the time below which `share` percent of the measurements are.
    pub(crate) fn percentile(&self, share: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * share / 100).copied().unwrap_or_default()
    }
}

/// Prints the ratio of measurements to their floor, and the target. The two were measured alternately: each measurement
/// is compared with the floor's at the same moment, so that a busy machine affects both alike. Above the target, a full
/// measurement fails; a short one proves nothing either way.
pub(crate) fn compare(
    what: &str,
    (ours, floor): (&Times, &Times),
    target: f64,
    effort: Effort,
) -> Result<(), Failure> {
    let pairs = ours.0.iter().zip(&floor.0);
    let mut ratios: Vec<f64> =
        pairs.map(|(ours, floor)| ours.as_secs_f64() / floor.as_secs_f64().max(f64::EPSILON)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let ratio = ratios.get(ratios.len() / 2).copied().ok_or("nothing was measured")?;
    let verdict = if ratio <= target { "ok" } else { "over" };
    println!(
        "{what:<52} {ratio:>6.2} x   (target {target:.1}: {verdict}; median {:?} vs. {:?})",
        ours.median(),
        floor.median()
    );
    if ratio <= target || effort == Effort::Smoke {
        Ok(())
    } else {
        Err(format!("{what}: {ratio:.2} is over {target:.1}").into())
    }
}

/// Prints a number without a floor.
pub(crate) fn report(what: &str, value: &str) {
    println!("{what:<52} {value}");
}

/// Returns the memory of a process in KiB.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    status(pid, "VmRSS:")
}

/// Returns the memory of a process in KiB without the pages of its executable, which the system shares and reclaims.
pub(crate) fn allocated(pid: u32) -> Option<u64> {
    status(pid, "RssAnon:")
}

fn status(pid: u32, key: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Returns the path of a workspace binary, next to this one.
pub(crate) fn program(name: &str) -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.is_file() { Ok(path) } else { Err(format!("`{}` is not built", path.display()).into()) }
}
