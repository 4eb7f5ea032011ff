//! Skills: scanning many of them, loading one, detecting that nothing has changed, and the skill server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use meerkat::skills::view::skill_tool_answer;
use meerkat::skills::{Catalog, Limits, Policy, Refreshed, Roots, Snapshot, WatchOptions, standard_roots};
use tempfile::TempDir;

use crate::floor::dir;
use crate::mcp::Server;
use crate::measure::{Effort, Failure, Times, compare, program, report};

/// Time limit for a first scan of ten thousand skills.
const SCAN: Duration = Duration::from_secs(1);
/// Maximum ratio of a scan to reading the same files.
const SCAN_RATIO: f64 = 2.0;
/// Time limit for finding and reading one skill.
const LOOKUP: Duration = Duration::from_millis(1);
/// Maximum ratio of detecting no changes to a first scan.
const UNCHANGED: f64 = 0.05;
/// Maximum ratio of a rescan without watching to querying the metadata of every file.
const LOOK_RATIO: f64 = 1.5;
/// Memory limit for a server of a hundred skills, in KiB.
const MEMORY: u64 = 10 * 1024;

pub(crate) fn run(effort: Effort) -> Result<(), Failure> {
    println!("skills");
    let mut outcome = Ok(());
    for count in [100, 1_000, 10_000] {
        let tree = Tree::new(count)?;
        for measured in [tree.scan(effort), tree.lookup(effort), tree.unchanged(effort)] {
            outcome = outcome.and(measured);
        }
    }
    outcome.and(serve(effort))
}

/// A directory with many skills.
struct Tree {
    dir: TempDir,
    count: usize,
}

impl Tree {
    fn new(count: usize) -> Result<Self, Failure> {
        let tree = Self { dir: dir()?, count };
        write_skills(&tree.dir.path().join("skills"), count)?;
        Ok(tree)
    }

    fn catalog(&self) -> Catalog {
        let roots = Roots { extra: vec![self.dir.path().join("skills")], ..Roots::default() };
        Catalog::new(standard_roots(&roots, Limits::default()), Policy::default())
    }

    fn snapshot(&self) -> Result<std::sync::Arc<Snapshot>, Failure> {
        let snapshot = self.catalog().snapshot();
        let found = snapshot.active().count();
        if found == self.count {
            Ok(snapshot)
        } else {
            Err(format!("{found} of {} skills", self.count).into())
        }
    }

    /// Measures a first scan, against a walk that reads the same files.
    fn scan(&self, effort: Effort) -> Result<(), Failure> {
        let (mut ours, mut plain) = (Times::default(), Times::default());
        for _ in 0..rounds(effort, self.count) {
            ours.time(|| self.snapshot())?;
            let mut bytes = 0;
            plain.time(|| walk(self.dir.path(), &mut bytes))?;
        }
        let what = format!("{} skills: first scan, vs. reading the files", self.count);
        let ratio = compare(&what, (&ours, &plain), SCAN_RATIO, effort);
        ratio.and(within(&format!("{} skills: first scan", self.count), ours.median(), SCAN, effort))
    }

    /// Measures finding a skill by name and reading it.
    fn lookup(&self, effort: Effort) -> Result<(), Failure> {
        let snapshot = self.snapshot()?;
        let mut times = Times::default();
        for at in 0..effort.rounds(10_000) {
            // A large step visits skills throughout the tree.
            let name = format!("Skill-{}", at * 7919 % self.count);
            let answer = times.time(|| skill_tool_answer(&snapshot, &name));
            if !answer.text().starts_with("Loading: ") {
                return Err(answer.text().to_owned().into());
            }
        }
        within(
            &format!("{} skills: one found and read, p99", self.count),
            times.percentile(99),
            LOOKUP,
            effort,
        )
    }

    /// Measures detecting that nothing has changed: by scanning, and by file notifications.
    fn unchanged(&self, effort: Effort) -> Result<(), Failure> {
        let (mut scans, mut looks, mut floor) = (Times::default(), Times::default(), Times::default());
        let mut files = Vec::new();
        skill_files(self.dir.path(), &mut files)?;
        for _ in 0..rounds(effort, self.count) {
            let catalog = self.catalog();
            scans.time(|| catalog.refresh());
            let seen = looks.time(|| catalog.refresh());
            if seen != Refreshed::Unchanged {
                return Err("something has changed by itself".into());
            }
            floor.time(|| files.iter().try_for_each(|file| fs::metadata(file).map(|_| ())))?;
        }
        let what = format!("{} skills: rescan, vs. querying the files", self.count);
        let ratio = compare(&what, (&looks, &floor), LOOK_RATIO, effort);
        let what = format!("{} skills: rescan, vs. the first scan", self.count);
        let looked = ratio.and(share(&what, (&looks, &scans), effort));
        let catalog = self.catalog();
        let _watch = catalog.watch(WatchOptions::default())?;
        let start = Instant::now();
        while !catalog.is_up_to_date() {
            catalog.refresh_if_stale();
            if start.elapsed() > Duration::from_secs(60) {
                return Err("changes are not reported".into());
            }
        }
        let mut notified = Times::default();
        for _ in 0..effort.rounds(1_000) {
            notified.time(|| catalog.refresh_if_stale());
        }
        let what = format!("{} skills: no notifications, vs. the first scan", self.count);
        looked.and(share(&what, (&notified, &scans), effort))
    }
}

fn rounds(effort: Effort, count: usize) -> usize {
    effort.rounds(if count > 1_000 { 20 } else { 100 })
}

fn write_skills(root: &Path, count: usize) -> Result<(), Failure> {
    for index in 0..count {
        let name = format!("skill-{index}");
        let skill = if index % 3 == 0 {
            root.join(format!("group-{}", index % 20)).join(&name)
        } else {
            root.join(&name)
        };
        fs::create_dir_all(&skill)?;
        let body = "Read the file, decide what to do, and say what was done.\n".repeat(40);
        let head =
            format!("---\nname: {name}\ndescription: What number {index} does, and when to use it.\n---\n");
        fs::write(skill.join("SKILL.md"), format!("{head}# {name}\n\n{body}"))?;
        if index % 10 == 0 {
            fs::write(skill.join("reference.md"), "More.\n")?;
        }
    }
    Ok(())
}

/// Walks a tree in the simplest way: lists every directory, reads every SKILL.md.
fn walk(dir: &Path, bytes: &mut usize) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), bytes)?;
        } else if entry.file_name() == "SKILL.md" {
            *bytes += fs::read(entry.path())?.len();
        }
    }
    Ok(())
}

/// Collects every SKILL.md.
fn skill_files(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            skill_files(&entry.path(), files)?;
        } else if entry.file_name() == "SKILL.md" {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Measures the skill server: startup and memory.
fn serve(effort: Effort) -> Result<(), Failure> {
    let dir = dir()?;
    write_skills(&dir.path().join(".agent/skills"), 100)?;
    let mut times = Times::default();
    let (mut memory, mut allocated) = (0, 0);
    for _ in 0..effort.rounds(40) {
        let start = Instant::now();
        let mut command = Command::new(program("rkat")?);
        command.args(["skill", "serve"]).env("HOME", dir.path()).current_dir(dir.path());
        let mut server = Server::start(&mut command)?;
        let list = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let listed = server.ask(&list)?;
        times.push(start.elapsed());
        let described = listed["result"]["tools"][0]["description"].as_str().unwrap_or_default();
        if described.matches("<name>").count() != 100 {
            return Err(format!("not every skill is served: {listed}").into());
        }
        memory = memory.max(server.memory());
        allocated = allocated.max(server.allocated());
    }
    report("rkat skill serve, 100 skills: spawn to tools/list", &format!("{:?}", times.median()));
    let limit = MEMORY as f64 / 1024.0;
    let megabytes = memory as f64 / 1024.0;
    report(&format!("its memory (target {limit:.0} MB)"), &format!("{megabytes:.1} MB"));
    report("of that, without the executable", &format!("{:.1} MB", allocated as f64 / 1024.0));
    if memory > MEMORY && effort == Effort::Full {
        return Err(format!("rkat skill serve takes {megabytes:.1} MB").into());
    }
    Ok(())
}

/// Prints a time and its limit.
pub(crate) fn within(what: &str, time: Duration, target: Duration, effort: Effort) -> Result<(), Failure> {
    report(&format!("{what} (target {target:?})"), &format!("{time:?}"));
    if time <= target || effort == Effort::Smoke { Ok(()) } else { Err(format!("{what}: {time:?}").into()) }
}

/// Prints the ratio of a time to another one.
fn share(what: &str, (part, total): (&Times, &Times), effort: Effort) -> Result<(), Failure> {
    let share = part.median().as_secs_f64() / total.median().as_secs_f64().max(f64::EPSILON);
    let target = UNCHANGED * 100.0;
    report(&format!("{what} (target {target:.0} %)"), &format!("{:.2} %", share * 100.0));
    if share <= UNCHANGED || effort == Effort::Smoke {
        Ok(())
    } else {
        Err(format!("{what}: {:.1} %", share * 100.0).into())
    }
}
