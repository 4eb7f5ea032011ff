//! `rkat skill`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use meerkat::{BundledSkills, RealmManifest, Skills, SkillsOptions};
use meerkat_mcp_server::{Stdio, serve_skills};
use meerkat_skills::view::inspect;
use meerkat_skills::{
    Catalog, GitOptions, Ignored, Limits, Origin, Overwrite, RefKind, Report, Roots, Skill, SkillLocation,
    Snapshot, SnapshotEntry, Trust, create, ensure_within, install, lint_file, remove, standard_roots,
};
use serde_json::{Value, json};

use super::print_json;
use crate::args::{InstallTarget, SkillCommand};
use crate::compose::{self, skill_roots};
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::table;
use crate::scope::Scope;

pub(super) async fn skill(scope: &Scope, command: SkillCommand) -> Result<ExitCode, CliError> {
    match command {
        SkillCommand::List { all, json } => list(catalog(scope).await?, all, json).await,
        SkillCommand::Show { name, json } => show(&*snapshot(scope).await?, &name, json)?,
        SkillCommand::Serve => serve(scope).await?,
        SkillCommand::Update => return update(scope).await,
        SkillCommand::Lint { paths, strict, json } => return check(scope, paths, strict, json),
        SkillCommand::Install { origin, name, reference, place, force } => {
            let root = writable_root(scope, &place)?;
            let origin = parse_origin(origin, reference, &root)?;
            let installed = install(&origin, name.as_deref(), &root, overwrite_mode(force)).await;
            let dir = root.join(installed.map_err(CliError::Skill)?.name);
            trust_new_skill(scope, &dir)?;
            out::line(&dir.display().to_string());
        }
        SkillCommand::Remove { name, place, force } => {
            let dir = root(scope, &place)?.join(&name);
            let root = dir.parent().unwrap_or(&dir);
            remove(root, &name, overwrite_mode(force)).map_err(CliError::Skill)?;
            untrust_removed_skill(scope, &dir)?;
        }
        SkillCommand::New { name, description, place } => {
            let root = writable_root(scope, &place)?;
            let file = create(&root, &name, &description).map_err(CliError::Skill)?;
            trust_new_skill(scope, &root.join(&name))?;
            out::line(&file.display().to_string());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Trusts a skill of the project that the user has just created or installed.
fn trust_new_skill(scope: &Scope, dir: &Path) -> Result<(), CliError> {
    let roots = skill_roots(scope)?;
    let project = roots.project.as_ref().and_then(|project| project.canonicalize().ok());
    let inside = project.zip(dir.canonicalize().ok()).is_some_and(|(project, dir)| dir.starts_with(project));
    if inside && roots.trust == Trust::Untrusted && roots.home.is_some() {
        scope.server_files().trust_skill(dir)?;
    }
    Ok(())
}

/// Revokes trust in a removed skill, so that a later one at the same path is not trusted.
fn untrust_removed_skill(scope: &Scope, dir: &Path) -> Result<(), CliError> {
    let roots = skill_roots(scope)?;
    if !roots.trusted.is_empty() {
        scope.server_files().distrust_skill(dir)?;
    }
    Ok(())
}

fn overwrite_mode(force: bool) -> Overwrite {
    if force { Overwrite::Replace } else { Overwrite::Refuse }
}

/// Returns the skills as configured by the realm and the skill files.
async fn configured(scope: &Scope) -> Result<Skills, CliError> {
    let options = scope.options()?;
    if RealmManifest::read(&options.state_root, &options.realm).is_err() {
        let skills = compose::skills(scope)?;
        settle(&skills, scope).await?;
        return Ok(skills);
    }
    // Workers may have registered skills.
    let runtime = compose::open(scope)?;
    runtime.refresh_skills().await?;
    Ok(runtime.skills().clone())
}

/// Applies the realm's config to the skills, without creating the realm.
async fn settle(skills: &Skills, scope: &Scope) -> Result<(), CliError> {
    let options = scope.options()?;
    let config = match RealmManifest::read(&options.state_root, &options.realm) {
        Ok(_) => compose::open(scope)?.config().get().await?.config,
        Err(_) => Arc::default(),
    };
    skills.refresh_with(&config, &compose::secrets()).await;
    Ok(())
}

async fn snapshot(scope: &Scope) -> Result<Arc<Snapshot>, CliError> {
    Ok(catalog(scope).await?.load().await)
}

pub(super) async fn catalog(scope: &Scope) -> Result<Catalog, CliError> {
    // The directory may be created later, but a user who names one expects it to exist.
    for missing in scope.skill_dirs.iter().filter(|dir| !dir.exists()) {
        out::warn(format_args!("directory `{}` not found (--skill-dir)", missing.display()));
    }
    Ok(configured(scope).await?.catalog().clone())
}

/// Serves skills to one client: those of agents, without the bundled ones.
async fn serve(scope: &Scope) -> Result<(), CliError> {
    let options =
        SkillsOptions { bundled: BundledSkills::Excluded, ..SkillsOptions::from_roots(skill_roots(scope)?) };
    let skills = Skills::new(options);
    let catalog = skills.catalog();
    let failed = |error| CliError::Io("cannot use stdin and stdout".to_owned(), error);
    let stdio = Stdio::from_process().map_err(failed)?;
    let serving = serve_skills(catalog.clone(), stdio, out::stderr_line);
    // The first scan may send notifications, so the server must already be listening.
    settle(&skills, scope).await?;
    serving.await;
    Ok(())
}

/// Updates skills from repositories, and reports the outcome of each.
async fn update(scope: &Scope) -> Result<ExitCode, CliError> {
    let skills = configured(scope).await?;
    let mut code = ExitCode::SUCCESS;
    for (name, outcome) in skills.update().await {
        match outcome {
            Ok(()) => out::line(&name),
            Err(error) => {
                out::warn(format_args!("{name}: {error}; keeping the previous version"));
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// Searches for skill files that are not loaded. Returns none if a source panicked.
pub(super) async fn ignored(catalog: Catalog) -> Vec<Ignored> {
    tokio::task::spawn_blocking(move || catalog.ignored()).await.unwrap_or_default()
}

async fn list(catalog: Catalog, all: bool, json: bool) {
    let snapshot = catalog.load().await;
    let ignored = ignored(catalog).await;
    let entries: Vec<&SnapshotEntry> =
        snapshot.entries().iter().filter(|listed| all || listed.shadowed_by.is_none()).collect();
    if json {
        let mut document = json!({ "skills": entries.iter().map(|listed| row(listed)).collect::<Vec<_>>() });
        if all {
            document["problems"] = json!(snapshot.problems());
            document["ignored"] = json!(ignored);
        }
        print_json(&document);
    } else {
        let cells = |listed: &&SnapshotEntry| {
            let name = snapshot.lookup_name(listed).unwrap_or_else(|| listed.skill.name.clone());
            let mark = if listed.skill.trust == Trust::Untrusted { " (untrusted)" } else { "" };
            let source = format!("{}{mark}", listed.skill.source.display_name);
            let description: Vec<_> = listed.skill.description.split_whitespace().collect();
            vec![name, source, description.join(" ")]
        };
        let rows: Vec<_> = entries.iter().map(cells).collect();
        out::print(&table(&["SKILL", "SOURCE", "DESCRIPTION"], &rows, env::page()));
    }
    report(&snapshot, all);
    for group in &ignored {
        out::warn(group);
        for file in group.files.iter().filter(|_| all) {
            out::stderr_line(&format!("  {}", file.display()));
        }
    }
}

/// Reports skipped and shadowed skills on stderr.
fn report(snapshot: &Snapshot, all: bool) {
    let is_reported =
        |problem: &&meerkat_skills::Problem| all || problem.effect != meerkat_skills::Effect::Withheld;
    snapshot.problems().iter().filter(is_reported).for_each(out::warn);
    for (lost, winner) in snapshot.collisions() {
        let (name, source) = (&winner.name, &winner.source.display_name);
        let advice = match snapshot.lookup_name(lost) {
            Some(way) => format!("use {way} for the other one"),
            None => {
                format!("the one in {} has the same name and cannot be loaded; rename it", lost.skill.base())
            }
        };
        out::warn(format_args!("`{name}` is the one from {source}; {advice}"));
    }
}

fn row(listed: &SnapshotEntry) -> Value {
    let skill = &listed.skill;
    let mut row = json!({
        "key": skill.key,
        "name": skill.name,
        "description": skill.description,
        "scope": skill.scope,
        "source": *skill.source,
        "path": path(skill),
        "digest": skill.digest,
        "trusted": skill.trust == Trust::Trusted,
        "is_active": listed.shadowed_by.is_none(),
    });
    if let Some(by) = &listed.shadowed_by {
        row["shadowed_by"] = json!(**by);
    }
    row
}

fn path(skill: &Skill) -> Option<&Path> {
    match &skill.place {
        SkillLocation::Directory { dir, .. } => Some(dir),
        SkillLocation::Text(_) => None,
    }
}

fn show(snapshot: &Snapshot, name: &str, json: bool) -> Result<(), CliError> {
    let skill = snapshot.by_name(name).map_err(CliError::Skill)?;
    if json {
        let inspection = inspect(snapshot, &skill.key, None).map_err(CliError::Skill)?;
        let mut document = json!(inspection);
        document["path"] = json!(path(skill));
        document["digest"] = json!(skill.digest);
        document["files"] = json!(skill.bundle().map_err(CliError::Skill)?.files);
        print_json(&document);
    } else {
        out::print(&skill.read().map_err(CliError::Skill)?.text);
    }
    Ok(())
}

/// Lints skills. The findings depend only on their files.
fn check(scope: &Scope, paths: Vec<PathBuf>, strict: bool, json: bool) -> Result<ExitCode, CliError> {
    let mut reports = Vec::new();
    for file in files(scope, paths)? {
        let report = lint_file(&file);
        reports.push((file, report));
    }
    let passes = |report: &Report| report.loads && (!strict || report.is_valid());
    if json {
        let entry = |(file, report): &(PathBuf, Report)| json!({"path": file, "valid": report.is_valid(), "loads": report.loads, "findings": report.findings});
        print_json(&json!({ "skills": reports.iter().map(entry).collect::<Vec<_>>() }));
    } else {
        for (file, report) in &reports {
            print_findings(file, report);
        }
        let failed = reports.iter().filter(|(_, report)| !passes(report)).count();
        out::stderr_line(&format!("{} skills checked, {failed} failed", reports.len()));
    }
    let failed = reports.iter().any(|(_, report)| !passes(report));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print_findings(file: &Path, report: &Report) {
    for finding in &report.findings {
        let severity = match finding.severity {
            meerkat_skills::Severity::Error => "error",
            meerkat_skills::Severity::Warning => "warning",
        };
        let (line, rule) = (finding.line, finding.rule);
        out::line(&format!(
            "{}:{line}: {severity}: {} [{rule}]; {}",
            file.display(),
            finding.message,
            finding.fix
        ));
    }
}

/// Lists the SKILL.md of every selected skill, loaded or not.
fn files(scope: &Scope, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, CliError> {
    let roots = if paths.is_empty() {
        skill_roots(scope)?
    } else {
        if let Some(missing) = paths.iter().find(|path| !path.exists()) {
            return Err(CliError::Usage(format!("`{}` not found", missing.display())));
        }
        Roots { extra: paths, ..Roots::default() }
    };
    // Skills with a missing capability are linted too, so the sources are scanned instead of the catalog.
    let scans: Vec<_> =
        standard_roots(&roots, Limits::default()).iter().map(|source| source.scan()).collect();
    let loaded = scans.iter().flat_map(|scan| &scan.skills).filter_map(|skill| match &skill.place {
        SkillLocation::Directory { dir, file } => Some(dir.join(file)),
        SkillLocation::Text(_) => None,
    });
    let problems = scans.iter().flat_map(|scan| &scan.problems);
    let skipped = problems.map(|problem| problem.path.clone()).filter(|path| path.is_file());
    let mut files: Vec<_> = loaded.chain(skipped).collect();
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// Returns the directory to install a skill in. The user's directory is created private.
fn writable_root(scope: &Scope, place: &InstallTarget) -> Result<PathBuf, CliError> {
    let root = root(scope, place)?;
    if place.user && place.into.is_none() {
        let failed = |error| CliError::Io(format!("cannot create `{}`", root.display()), error);
        meerkat::create_private_dirs(&root).map_err(failed)?;
    }
    Ok(root)
}

/// Returns the directory to install a skill in, or to remove it from.
fn root(scope: &Scope, place: &InstallTarget) -> Result<PathBuf, CliError> {
    if let Some(dir) = &place.into {
        return Ok(dir.clone());
    }
    let roots = skill_roots(scope)?;
    let base = if place.user { roots.home } else { roots.project };
    let base = base.ok_or_else(|| CliError::Usage("home directory not found; use --into".to_owned()))?;
    let root = base.join(".rkat/skills");
    if !place.user {
        ensure_within(&base, &root).map_err(CliError::Skill)?;
    }
    Ok(root)
}

/// Parses an origin: an existing directory, or else the URL of a repository.
fn parse_origin(origin: String, reference: String, root: &Path) -> Result<Origin, CliError> {
    let dir = PathBuf::from(&origin);
    if dir.is_dir() && !dir.join(".git").exists() {
        return Ok(Origin::Directory(dir));
    }
    let written_as_path = dir.is_absolute() || origin.starts_with('.') || origin.starts_with('~');
    if written_as_path && !dir.exists() {
        return Err(CliError::Usage(format!("directory `{origin}` not found")));
    }
    let commit = reference.len() == 40 && reference.bytes().all(|b| b.is_ascii_hexdigit());
    let kind = if commit { RefKind::Commit } else { RefKind::Named };
    Ok(Origin::Git(GitOptions { reference, kind, ..GitOptions::new(origin, root) }))
}
