//! `rkat skill`.

use std::fs;

use serde_json::json;

use crate::support::Rkat;

fn skill(rkat: &Rkat, folder: &str, name: &str, description: &str) {
    let folder = rkat.work().join(folder).join(name);
    fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n# {name}\n");
    fs::write(folder.join("SKILL.md"), text).unwrap();
}

#[test]
fn skills_are_listed_and_what_is_left_out_is_told() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, ".rkat/skills", "pdf", "Reads others");
    fs::create_dir_all(rkat.work().join(".claude/skills/bad")).unwrap();
    fs::write(rkat.work().join(".claude/skills/bad/SKILL.md"), "# Bad\n").unwrap();
    let done = rkat.args(["skill", "list"]).run();
    assert!(done.stdout.contains("pdf") && !done.stdout.contains("Reads others"), "{}", done.stdout);
    let bad = rkat.work().join(".claude/skills/bad/SKILL.md");
    let told = format!(
        "warning: {}:1: there is no frontmatter; begin the file with a line `---`, then `name:` and `description:`, \
         then a line `---`\nwarning: `pdf` is that of project-agent; pdf@project shows the other one\n",
        bad.display()
    );
    assert_eq!(done.stderr, told);
    let all = rkat.args(["skill", "list", "--all", "--json"]).run().json();
    let named: Vec<_> = all["skills"]
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
    assert_eq!(named, expected);
    assert_eq!(all["problems"][0]["reason"], "there is no frontmatter");
}

#[test]
fn list_and_doctor_count_ignored_skills() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, ".agent/skills/pdf/examples", "one", "Nested");
    skill(&rkat, ".agent/skills/pdf/examples", "two", "Nested");
    fs::create_dir_all(rkat.work().join(".agent/skills/title")).unwrap();
    fs::write(rkat.work().join(".agent/skills/title/Skill.md"), "").unwrap();
    let given = rkat.work().join(".agent/skills");
    let found = given.canonicalize().unwrap();
    let (given, found) = (given.display(), found.display());
    let nested = format!(
        "{given}: 2 skills are not loaded because they are inside another skill, such as \
         {found}/pdf/examples/one/SKILL.md"
    );
    let misnamed =
        format!("{given}: 1 skill is not loaded because it is not named `SKILL.md`: {found}/title/Skill.md");
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
fn a_skill_is_shown_by_name() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, ".rkat/skills", "pdf", "Reads others");
    let text = rkat.args(["skill", "show", "PDF"]).run().stdout;
    assert_eq!(text, "---\nname: pdf\ndescription: Reads PDFs\n---\n# pdf\n");
    let other = rkat.args(["skill", "show", "pdf@project", "--json"]).run().json();
    assert_eq!((&other["description"], &other["body"]), (&json!("Reads others"), &json!("# pdf\n")));
    let missing = rkat.args(["skill", "show", "none"]).run();
    let told =
        "error: no skill is called `none`; `rkat skill list` shows those there are [SKILL_NOT_FOUND]\n";
    assert_eq!((missing.code, missing.stderr.as_str()), (Some(1), told));
}

#[test]
fn a_missing_skill_names_the_gate_that_hides_it() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    let shown = |name: &str| rkat.args(["skill", "show", name]).run().stderr;
    let told = "error: the skill `shell-patterns` is not available because it needs the capability `builtins`; set \
                `tools.builtins_enabled` to `true` in the config [SKILL_NOT_FOUND]\n";
    assert_eq!(shown("shell-patterns"), told);
    rkat.args(["config", "patch", "--json", r#"{"skills": {"enabled": false}}"#]).run().text();
    let told = "error: the skill `pdf` is not available because skills are turned off; set `skills.enabled` to `true` \
                [SKILL_NOT_FOUND]\n";
    assert_eq!(shown("pdf"), told);
    assert_eq!(rkat.args(["run", "--skill", "pdf", "say hi"]).run().stderr, told);
}

#[test]
fn a_skill_is_written_checked_installed_and_removed() {
    let rkat = Rkat::new();
    rkat.args(["skill", "new", "my-skill", "--into", "drafts", "--description", "Use it: now"]).run().text();
    let checked = rkat.args(["skill", "lint", "--strict", "drafts"]).run();
    assert_eq!((checked.stdout.as_str(), checked.stderr.trim()), ("", "1 skills checked, 0 failed"));
    rkat.args(["skill", "install", "drafts", "--user"]).run().text();
    let shown = rkat.args(["skill", "show", "my-skill", "--json"]).run().json();
    assert_eq!((&shown["scope"], &shown["description"]), (&json!("user"), &json!("Use it: now")));
    assert_eq!(rkat.args(["skill", "install", "drafts", "--user"]).run().code, Some(2));
    rkat.args(["skill", "install", "drafts", "--user", "--force"]).run().text();
    rkat.args(["skill", "remove", "my-skill", "--user"]).run().text();
    assert_eq!(rkat.args(["skill", "show", "my-skill"]).run().code, Some(1));
}

#[test]
fn a_check_fails_on_what_the_format_forbids_only_if_it_is_strict() {
    let rkat = Rkat::new();
    skill(&rkat, "skills", "Pdf", "Reads PDFs");
    assert_eq!(rkat.args(["skill", "lint", "skills"]).run().code, Some(0));
    let strict = rkat.args(["skill", "lint", "--strict", "skills"]).run();
    let file = rkat.work().join("skills/Pdf/SKILL.md");
    let told = "2: error: the name `Pdf` has capital letters [name]; write it in lower case";
    assert_eq!((strict.code, strict.stdout), (Some(1), format!("{}:{told}\n", file.display())));
    let checked = rkat.args(["skill", "lint", "--strict", "--json", "skills"]).run();
    let report: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!((&report["skills"][0]["valid"], &report["skills"][0]["loads"]), (&json!(false), &json!(true)));
}

#[test]
fn a_run_is_given_skills_by_name() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, "more", "deploy", "Ships");
    let run = ["run", "--model", "offline", "--json", "--skill", "PDF", "--skill", "deploy"];
    let done = rkat.args(run.into_iter().chain(["--skill-dir=more", "say hi"])).run().json();
    let shown = rkat.args(["session", "show", done["session_id"].as_str().unwrap(), "--json"]).run().json();
    let prompt = shown["messages"][0]["content"].to_string();
    let places = ["# pdf", "# deploy", "say hi"].map(|text| prompt.find(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{prompt}");
    let missing = rkat.args(["run", "--skill", "nothing", "say hi"]).run();
    let told =
        "error: no skill is called `nothing`; `rkat skill list` shows those there are [SKILL_NOT_FOUND]\n";
    assert_eq!((missing.code, missing.stderr.as_str()), (Some(1), told));
}

#[test]
fn skills_of_a_repository_are_fetched_when_asked_for() {
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
    let shown = rkat.args(["skill", "show", "team-review", "--json"]).run().json();
    assert_eq!(
        (&shown["source"]["transport_kind"], &shown["source"]["display_name"]),
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
fn skills_of_a_folder_are_marked_until_it_is_trusted() {
    let rkat = Rkat::new();
    skill(&rkat, ".agent/skills", "pdf", "Reads PDFs");
    skill(&rkat, "../home/.agent/skills", "mine", "The user's own");
    let trusted = || {
        let listed = rkat.args(["skill", "list", "--json"]).run().json();
        let of = |name: &str| {
            let skills = listed["skills"].as_array().unwrap().iter();
            skills.filter(|skill| skill["name"] == name).map(|skill| skill["trusted"] == true).next()
        };
        (of("pdf"), of("mine"))
    };
    assert_eq!(trusted(), (Some(false), Some(true)));
    assert!(rkat.args(["skill", "list"]).run().stdout.contains("project-agent (untrusted)"));
    rkat.args(["trust"]).run().text();
    assert_eq!(trusted(), (Some(true), Some(true)));
}

#[test]
fn a_skill_that_needs_something_is_checked_too() {
    let rkat = Rkat::new();
    let folder = rkat.work().join("skills/needy");
    std::fs::create_dir_all(&folder).unwrap();
    let text =
        "---\nname: needy\ndescription: Needs something\nrequires_capabilities: nothing-has-it\n---\nBody\n";
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    let checked = rkat.args(["skill", "lint", "--json", "skills"]).run().json();
    assert_eq!(checked["skills"].as_array().unwrap().len(), 1);
}

#[test]
fn a_second_skill_of_the_same_name_and_place_is_told_truthfully() {
    let rkat = Rkat::new();
    for (folder, description) in [("a", "First"), ("b", "Second")] {
        let folder = rkat.work().join(".agent/skills").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("---\nname: pdf\ndescription: {description}\n---\nBody\n");
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
    }
    let listed = rkat.args(["skill", "list"]).run();
    let lost = rkat.work().canonicalize().unwrap().join(".agent/skills/b");
    let told = format!(
        "warning: `pdf` is that of project-agent; the one in {} has the same name and cannot be had; rename it\n",
        lost.display()
    );
    assert!(listed.stderr.contains(&told), "{}", listed.stderr);
}

#[test]
fn a_skill_that_the_user_makes_or_installs_in_a_project_is_trusted_by_that_act() {
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
fn a_new_skill_tells_the_offline_model_nothing() {
    let rkat = Rkat::new();
    rkat.args(["skill", "new", "mine", "--description", "Made here"]).run().text();
    assert_eq!(rkat.args(["run", "--skill", "mine", "say hello"]).run().text().trim(), "hello");
}

#[cfg(unix)]
#[test]
fn nothing_is_put_where_a_link_leads_out_of_the_project() {
    let rkat = Rkat::new();
    let outside = rkat.work().parent().unwrap().join("outside");
    fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, rkat.work().join(".rkat")).unwrap();
    let refused = rkat.args(["skill", "new", "mine"]).run();
    assert!(refused.stderr.contains("is a link that leads out of the project"), "{}", refused.stderr);
    assert_eq!((refused.code, fs::read_dir(&outside).unwrap().count()), (Some(2), 0));
}

#[test]
fn a_place_that_is_not_there_is_told() {
    let rkat = Rkat::new();
    let listed = rkat.args(["skill", "list", "--skill-dir", "/no/such/directory"]).run();
    assert_eq!(
        (listed.code, listed.stderr.as_str()),
        (Some(0), "warning: there is no directory `/no/such/directory` (--skill-dir)\n")
    );
    let refused = rkat.args(["skill", "install", "./no-such-directory"]).run();
    assert!(refused.stderr.starts_with("error: there is no directory `./no-such-directory`"), "{}", refused.stderr);
    rkat.args(["skill", "new", "mine"]).run().text();
    let again = rkat.args(["skill", "new", "mine"]).run();
    assert!(again.stderr.contains("choose another name"), "{}", again.stderr);
}
