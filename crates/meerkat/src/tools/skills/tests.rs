//! Runs during a scan that takes long.

use std::sync::Arc;
use std::time::Duration;

use meerkat_contracts::SkillKey;
use meerkat_core::{Content, ToolOutput};
use meerkat_skills::{Provenance, Roots, ScanResult, Source, SourceId};
use meerkat_testkit::{FnTool, Scratch, Script, ScriptedModel, Tools};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::catalog::{BundledSkills, Skills, SkillsOptions};
use super::files::ProblemSource;
use crate::{NewSessionOptions, RunInput, RunResult, Runtime, RuntimeOptions, TurnOptions};

/// A source whose scans wait until the test unlocks it.
struct SlowSource {
    skills: Arc<ProblemSource>,
    lock: Arc<Mutex<()>>,
}

impl Source for SlowSource {
    fn provenance(&self) -> &Arc<Provenance> {
        self.skills.provenance()
    }

    fn scan(&self) -> Arc<ScanResult> {
        drop(self.lock.blocking_lock());
        self.skills.scan()
    }
}

/// A project on a slow disk.
struct SlowProject {
    skills: Skills,
    lock: Arc<Mutex<()>>,
    scratch: Scratch,
}

impl SlowProject {
    fn new(scan_limit: Duration) -> Self {
        let scratch = Scratch::new();
        let roots = Roots { project: Some(scratch.path().to_owned()), ..Roots::default() };
        let bundled = BundledSkills::Excluded;
        let skills = Skills::new(SkillsOptions { roots, bundled, scan_limit, ..SkillsOptions::default() });
        let lock = Arc::default();
        let slow = SlowSource { skills: ProblemSource::new(Vec::new()), lock: Arc::clone(&lock) };
        skills.add_source(&(Arc::new(slow) as Arc<dyn Source>));
        let project = Self { skills, lock, scratch };
        project.write("deploy");
        project
    }

    fn write(&self, name: &str) -> SkillKey {
        let dir = self.scratch.join(".rkat/skills").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let text = format!("---\nname: {name}\ndescription: Ship it.\n---\nRun the script of {name}.\n");
        std::fs::write(dir.join("SKILL.md"), text).unwrap();
        SkillKey { source_uuid: SourceId::PROJECT.to_string(), skill_name: name.to_owned() }
    }

    async fn lock(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.lock).lock_owned().await
    }

    fn runtime(&self, model: &Arc<ScriptedModel>, tools: Vec<Arc<dyn meerkat_core::Tool>>) -> Runtime {
        let options = RuntimeOptions {
            models: vec![Arc::clone(model) as _],
            tool_sources: vec![Tools::new(tools)],
            skills: Some(self.skills.clone()),
            ..RuntimeOptions::default()
        };
        Runtime::ephemeral(options).unwrap()
    }
}

async fn run(runtime: &Runtime, skills: Vec<SkillKey>) -> RunResult {
    let turn = TurnOptions {
        model: Some(ScriptedModel::ID.to_owned()),
        input: RunInput { prompt: Content::text("hello"), ..RunInput::default() },
        skills,
        ..TurnOptions::default()
    };
    runtime.sessions().create(NewSessionOptions::default(), turn, Default::default()).await.unwrap()
}

#[tokio::test]
async fn run_finds_skills_of_a_slow_scan_later() {
    let project = SlowProject::new(Duration::ZERO);
    let held = std::sync::Mutex::new(Some(project.lock().await));
    let catalog = project.skills.catalog().clone();
    let finish_scan = FnTool::new("finish_scan", move |_| {
        drop(held.lock().unwrap().take());
        let mut snapshots = catalog.subscribe();
        async move {
            snapshots.wait_for(|snapshot| snapshot.generation() > 0).await.unwrap();
            ToolOutput::text("done")
        }
    });
    let script = [Script::call("c1", "finish_scan", serde_json::json!({})), Script::say("done")];
    let model = ScriptedModel::new(script);
    let runtime = project.runtime(&model, vec![finish_scan]);
    let warning = "the scan for skills takes long: this run starts with the 0 found before, and its skill tools find \
                   the others once the scan is done";
    assert_eq!(run(&runtime, Vec::new()).await.warnings, [warning]);
    let seen = model.seen();
    assert_eq!(seen[0].tools, ["finish_scan"]);
    assert_eq!(seen[1].tools[..3], ["browse_skills", "finish_scan", "load_skill"]);

    run(&runtime, Vec::new()).await;
    let system = &model.seen()[2].system;
    assert!(system.contains("/deploy\""), "the next run lists them: {system}");
}

#[tokio::test]
async fn run_in_time_has_no_warning() {
    let project = SlowProject::new(Duration::from_secs(60));
    let model = ScriptedModel::new([]);
    let runtime = project.runtime(&model, Vec::new());
    assert_eq!(run(&runtime, Vec::new()).await.warnings, Vec::<String>::new());
    assert!(model.seen()[0].system.contains("/deploy\""));
}

#[tokio::test]
async fn run_waits_for_a_skill_it_names() {
    let project = SlowProject::new(Duration::ZERO);
    let model = ScriptedModel::new([]);
    let runtime = project.runtime(&model, Vec::new());
    runtime.refresh_skills().await.unwrap();
    let held = project.lock().await;
    let fresh = project.write("fresh");
    let release = async {
        while project.skills.scan_warning().is_none() {
            tokio::task::yield_now().await;
        }
        drop(held);
    };
    tokio::join!(run(&runtime, vec![fresh]), release);
    let lines = &model.seen()[0].lines;
    assert!(lines.iter().any(|line| line.contains("Run the script of fresh.")), "{lines:?}");
}
