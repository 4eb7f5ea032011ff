//! `rkat skill`.

use std::fs;

use serde_json::json;

use crate::support::Rkat;

fn skill(rkat: &Rkat, dir: &str, name: &str, description: &str) {
    let dir = rkat.work().join(dir).join(name);
    fs::create_dir_all(&dir).unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n# {name}\n");
    fs::write(dir.join("SKILL.md"), text).unwrap();
}

#[test]
fn skill_list_reports_skipped_skills() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, ".rkat/skills", "pdf", "Reads others");
    fs::create_dir_all(rkat.work().join(".claude/skills/bad")).unwrap();
    fs::write(rkat.work().join(".claude/skills/bad/SKILL.md"), "# Bad\n").unwrap();
    let done = rkat.args(["skill", "list"]).run();
    assert!(done.stdout.contains("pdf") && !done.stdout.contains("Reads others"), "{}", done.stdout);
    let bad = rkat.work().join(".claude/skills/bad/SKILL.md");
    let message = format!(
        "warning: {}:1: the frontmatter is missing; start the file with a line `---`, then `name:` and `description:`, \
         then a line `---`\nwarning: `pdf` is the one from project-agent; use pdf@project for the other one\n",
        bad.display()
    );
    assert_eq!(done.stderr, message);
    let all = rkat.args(["skill", "list", "--all", "--json"]).run().json();
    let rows: Vec<_> = all["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| json!([skill["name"], skill["source"]["display_name"], skill["is_active"]]))
        .collect();
    let expected = [
        json!(["hook-authoring", "embedded", true]),
        json!(["mcp-server-setup", "embedded", true]),
        json!(["meerkat-cli-reference", "embedded", true]),
        json!(["meerkat-platform", "embedded", true]),
        json!(["memory-retrieval", "embedded", true]),
        json!(["pdf", "project-agent", true]),
        json!(["pdf", "project", false]),
        json!(["session-management", "embedded", true]),
    ];
    assert_eq!(rows, expected);
    assert_eq!(all["problems"][0]["reason"], "the frontmatter is missing");
}

#[test]
fn list_and_doctor_count_ignored_skills() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, ".agent/skills/pdf/examples", "one", "Nested");
    skill(&rkat, ".agent/skills/pdf/examples", "two", "Nested");
    fs::create_dir_all(rkat.work().join(".agent/skills/title")).unwrap();
    fs::write(rkat.work().join(".agent/skills/title/Skill.md"), "").unwrap();
    let requested = rkat.work().join(".agent/skills");
    let canonical = requested.canonicalize().unwrap();
    let (requested, canonical) = (requested.display(), canonical.display());
    let nested = format!(
        "{requested}: 2 skills are not loaded because they are inside another skill, such as \
         {canonical}/pdf/examples/one/SKILL.md"
    );
    let misnamed = format!(
        "{requested}: 1 skill is not loaded because it is not named `SKILL.md`: {canonical}/title/Skill.md"
    );
    let fixes = ["move a skill out if it does not belong to the other one", "rename the file to `SKILL.md`"];
    let listed = rkat.args(["skill", "list"]).run();
    let expected = format!("warning: {nested}; {}\nwarning: {misnamed}; {}\n", fixes[0], fixes[1]);
    assert_eq!(listed.stderr, expected);
    let all = rkat.args(["skill", "list", "--all", "--json"]).run().json();
    let reasons: Vec<_> = all["ignored"].as_array().unwrap().iter().map(|group| &group["reason"]).collect();
    assert_eq!(reasons, ["nested", "misnamed"]);
    assert_eq!(all["ignored"][0]["files"].as_array().unwrap().len(), 2);
    let report = rkat.args(["doctor", "--json"]).run().json();
    let checks: Vec<_> = report["checks"].as_array().unwrap().iter().rev().take(2).rev().collect();
    let finding = |message: &str, fix: &str| json!({ "check": "skills", "health": "warning", "message": message, "fix": fix });
    assert_eq!(checks, [&finding(&nested, fixes[0]), &finding(&misnamed, fixes[1])]);
}

#[test]
fn skill_is_shown_by_name() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, ".rkat/skills", "pdf", "Reads others");
    let text = rkat.args(["skill", "show", "PDF"]).run().stdout;
    assert_eq!(text, "---\nname: pdf\ndescription: Reads PDFs\n---\n# pdf\n");
    let other = rkat.args(["skill", "show", "pdf@project", "--json"]).run().json();
    assert_eq!((&other["description"], &other["body"]), (&json!("Reads others"), &json!("# pdf\n")));
    let missing = rkat.args(["skill", "show", "none"]).run();
    let message = "error: no skill named `none`; run `rkat skill list` to see all skills [SKILL_NOT_FOUND]\n";
    assert_eq!((missing.code, missing.stderr.as_str()), (Some(1), message));
}

#[test]
fn missing_skill_names_the_disabled_setting() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    let show_error = |name: &str| rkat.args(["skill", "show", name]).run().stderr;
    let message = "error: the skill `shell-patterns` is not available because it needs the capability `builtins`; set \
                `tools.builtins_enabled` to `true` in the config [SKILL_NOT_FOUND]\n";
    assert_eq!(show_error("shell-patterns"), message);
    rkat.args(["config", "patch", "--json", r#"{"skills": {"enabled": false}}"#]).run().text();
    let message = "error: the skill `pdf` is not available because skills are turned off; set `skills.enabled` to `true` \
                [SKILL_NOT_FOUND]\n";
    assert_eq!(show_error("pdf"), message);
    assert_eq!(rkat.args(["run", "--skill", "pdf", "say hi"]).run().stderr, message);
}

#[test]
fn skill_is_created_linted_installed_and_removed() {
    let rkat = Rkat::new();
    rkat.args(["skill", "new", "my-skill", "--into", "drafts", "--description", "Use it: now"]).run().text();
    let linted = rkat.args(["skill", "lint", "--strict", "drafts"]).run();
    assert_eq!((linted.stdout.as_str(), linted.stderr.trim()), ("", "1 skills checked, 0 failed"));
    rkat.args(["skill", "install", "drafts", "--user"]).run().text();
    let details = rkat.args(["skill", "show", "my-skill", "--json"]).run().json();
    assert_eq!((&details["scope"], &details["description"]), (&json!("user"), &json!("Use it: now")));
    assert_eq!(rkat.args(["skill", "install", "drafts", "--user"]).run().code, Some(2));
    rkat.args(["skill", "install", "drafts", "--user", "--force"]).run().text();
    rkat.args(["skill", "remove", "my-skill", "--user"]).run().text();
    assert_eq!(rkat.args(["skill", "show", "my-skill"]).run().code, Some(1));
}

#[test]
fn only_strict_lint_fails_on_format_violations() {
    let rkat = Rkat::new();
    skill(&rkat, "skills", "Pdf", "Reads PDFs");
    assert_eq!(rkat.args(["skill", "lint", "skills"]).run().code, Some(0));
    let strict = rkat.args(["skill", "lint", "--strict", "skills"]).run();
    let file = rkat.work().join("skills/Pdf/SKILL.md");
    let message = "2: error: the name `Pdf` has uppercase letters [name]; write it in lowercase";
    assert_eq!((strict.code, strict.stdout), (Some(1), format!("{}:{message}\n", file.display())));
    let linted = rkat.args(["skill", "lint", "--strict", "--json", "skills"]).run();
    let report: serde_json::Value = serde_json::from_str(&linted.stdout).unwrap();
    assert_eq!((&report["skills"][0]["valid"], &report["skills"][0]["loads"]), (&json!(false), &json!(true)));
}

#[test]
fn run_loads_skills_by_name() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, "more", "deploy", "Ships");
    let run = ["run", "--model", "offline", "--json", "--skill", "PDF", "--skill", "deploy"];
    let done = rkat.args(run.into_iter().chain(["--skill-dir=more", "say hi"])).run().json();
    let details = rkat.args(["session", "show", done["session_id"].as_str().unwrap(), "--json"]).run().json();
    let prompt = details["messages"][0]["content"].to_string();
    let positions = ["# pdf", "# deploy", "say hi"].map(|text| prompt.find(text));
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{prompt}");
    let missing = rkat.args(["run", "--skill", "nothing", "say hi"]).run();
    let message =
        "error: no skill named `nothing`; run `rkat skill list` to see all skills [SKILL_NOT_FOUND]\n";
    assert_eq!((missing.code, missing.stderr.as_str()), (Some(1), message));
}

#[test]
fn skill_update_fetches_repository_skills() {
    let rkat = Rkat::new();
    skill(&rkat, "origin", "team-review", "Reviews");
    let git = |args: &[&str]| {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
            .args(args)
            .current_dir(rkat.work().join("origin"))
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "one"]);
    let uuid = "11111111-1111-4111-8111-111111111111";
    let url = rkat.work().join("origin");
    let team = json!({ "type": "git", "name": "team", "source_uuid": uuid, "url": url });
    let patch = json!({ "skills": { "repositories": [team] } }).to_string();
    rkat.args(["config", "patch", "--json", &patch]).run().text();
    assert_eq!(rkat.args(["skill", "update"]).run().text(), "team\n");
    let details = rkat.args(["skill", "show", "team-review", "--json"]).run().json();
    assert_eq!(
        (&details["source"]["transport_kind"], &details["source"]["display_name"]),
        (&json!("git"), &json!("team"))
    );
    std::fs::remove_dir_all(&url).unwrap();
    let failed = rkat.args(["skill", "update"]).run();
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("team: git could not"), "{}", failed.stderr);
    assert_eq!(
        rkat.args(["skill", "show", "team-review@team"]).run().code,
        Some(0),
        "what was fetched stays"
    );
}

#[test]
fn project_skills_are_marked_until_trusted() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, "../home/.agent/skills", "mine", "The user's own");
    let trusted = || {
        let listed = rkat.args(["skill", "list", "--json"]).run().json();
        let is_trusted = |name: &str| {
            let skills = listed["skills"].as_array().unwrap().iter();
            skills.filter(|skill| skill["name"] == name).map(|skill| skill["trusted"] == true).next()
        };
        (is_trusted("pdf"), is_trusted("mine"))
    };
    assert_eq!(trusted(), (Some(false), Some(true)));
    assert!(rkat.args(["skill", "list"]).run().stdout.contains("project-agent (untrusted)"));
    rkat.args(["trust"]).run().text();
    assert_eq!(trusted(), (Some(true), Some(true)));
}

#[test]
fn skill_with_missing_capability_is_linted() {
    let rkat = Rkat::new();
    let dir = rkat.work().join("skills/needy");
    std::fs::create_dir_all(&dir).unwrap();
    let text =
        "---\nname: needy\ndescription: Needs something\nrequires_capabilities: nothing-has-it\n---\nBody\n";
    std::fs::write(dir.join("SKILL.md"), text).unwrap();
    let linted = rkat.args(["skill", "lint", "--json", "skills"]).run().json();
    assert_eq!(linted["skills"].as_array().unwrap().len(), 1);
}

#[test]
fn duplicate_name_in_one_root_is_reported() {
    let rkat = Rkat::new();
    for (dir, description) in [("a", "First"), ("b", "Second")] {
        let dir = rkat.work().join(".agent/skills").join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        let text = format!("---\nname: pdf\ndescription: {description}\n---\nBody\n");
        std::fs::write(dir.join("SKILL.md"), text).unwrap();
    }
    let listed = rkat.args(["skill", "list"]).run();
    let shadowed = rkat.work().canonicalize().unwrap().join(".agent/skills/b");
    let message = format!(
        "warning: `pdf` is the one from project-agent; the one in {} has the same name and cannot be loaded; \
         rename it\n",
        shadowed.display()
    );
    assert!(listed.stderr.contains(&message), "{}", listed.stderr);
}

#[test]
fn created_or_installed_project_skill_is_trusted() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "found", "Came with the project");
    skill(&rkat, "drafts", "other", "From elsewhere");
    rkat.args(["skill", "new", "mine", "--description", "Made here"]).run().text();
    rkat.args(["skill", "install", "drafts"]).run().text();
    let trust = || {
        let listed = rkat.args(["skill", "list", "--json"]).run().json();
        let skills = listed["skills"].as_array().unwrap().clone();
        let own = skills.into_iter().filter(|skill| skill["scope"] == "project");
        own.map(|skill| json!([skill["name"], skill["trusted"]])).collect::<Vec<_>>()
    };
    assert_eq!(trust(), [json!(["found", false]), json!(["mine", true]), json!(["other", true])]);
    rkat.args(["skill", "remove", "other"]).run().text();
    skill(&rkat, ".rkat/skills", "other", "Came later");
    assert_eq!(trust(), [json!(["found", false]), json!(["mine", true]), json!(["other", false])]);
}

#[test]
fn new_skill_does_not_affect_offline_model() {
    let rkat = Rkat::new();
    rkat.args(["skill", "new", "mine", "--description", "Made here"]).run().text();
    assert_eq!(rkat.args(["run", "--skill", "mine", "say hello"]).run().text().trim(), "hello");
}

#[cfg(unix)]
#[test]
fn skill_is_not_created_through_outside_symlink() {
    let rkat = Rkat::new();
    let outside = rkat.work().parent().unwrap().join("outside");
    fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, rkat.work().join(".rkat")).unwrap();
    let rejected = rkat.args(["skill", "new", "mine"]).run();
    assert!(rejected.stderr.contains("is a symlink that leads out of the project"), "{}", rejected.stderr);
    assert_eq!((rejected.code, fs::read_dir(&outside).unwrap().count()), (Some(2), 0));
}

#[test]
fn missing_directory_is_reported() {
    let rkat = Rkat::new();
    let listed = rkat.args(["skill", "list", "--skill-dir", "/no/such/directory"]).run();
    assert_eq!(
        (listed.code, listed.stderr.as_str()),
        (Some(0), "warning: directory `/no/such/directory` not found (--skill-dir)\n")
    );
    let rejected = rkat.args(["skill", "install", "./no-such-directory"]).run();
    assert!(
        rejected.stderr.starts_with("error: directory `./no-such-directory` not found"),
        "{}",
        rejected.stderr
    );
    rkat.args(["skill", "new", "mine"]).run().text();
    let again = rkat.args(["skill", "new", "mine"]).run();
    assert!(again.stderr.contains("choose another name"), "{}", again.stderr);
}
