use super::*;

const HOOK: &str = "[[hooks.entries]]\nid = \"ID\"\npoint = \"run_started\"\n\
                    runtime = { type = \"command\", command = \"true\" }\n";

struct World(tempfile::TempDir);

impl World {
    fn new(files: &[(&str, String)]) -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(world.0.path().join("home/work/sub")).unwrap();
        for (path, text) in files {
            let path = world.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        world
    }

    fn files(&self) -> HookFiles {
        self.files_for("home/work")
    }

    fn files_for(&self, project: &str) -> HookFiles {
        let (project, home) = (self.0.path().join(project), self.0.path().join("home"));
        HookFiles::for_dirs(Some(&project), Some(&home)).below(Some(&home))
    }

    /// Loads the files and returns the ids and notices, or the error.
    fn report(&self) -> String {
        self.report_of(&self.files())
    }

    fn report_of(&self, files: &HookFiles) -> String {
        let report = match files.load() {
            Ok(loaded) => {
                let ids = loaded.entries.iter().map(|entry| format!("hook {}", entry.id));
                ids.chain(loaded.notices).collect::<Vec<_>>().join("\n")
            }
            Err(error) => format!("error: {error}"),
        };
        report.replace(&self.0.path().display().to_string(), "[dir]")
    }
}

fn hook(id: &str) -> String {
    HOOK.replace("ID", id)
}

#[test]
fn user_hooks_come_before_trusted_project_hooks() {
    let world = World::new(&[
        ("home/.rkat/config.toml", hook("user")),
        ("home/work/.rkat/config.toml", hook("project")),
    ]);
    let untrusted = "hook user\nnotice: ignoring hooks in [dir]/home/work/.rkat/config.toml: not trusted; \
                     review it, then run `rkat trust`";
    assert_eq!(world.report(), untrusted);
    world.files().trust_project().unwrap();
    assert_eq!(world.report(), "hook user\nhook project");
    let changed = format!("{}# more\n", hook("project"));
    std::fs::write(world.0.path().join("home/work/.rkat/config.toml"), changed).unwrap();
    assert_eq!(world.report(), untrusted, "a changed file must be trusted again");
    world.files().trust_project().unwrap();
    assert_eq!(world.report(), "hook user\nhook project");
    world.files().distrust_project().unwrap();
    assert_eq!(world.report(), untrusted);
}

#[test]
fn user_file_is_not_a_project_file() {
    let world = World::new(&[("home/.rkat/config.toml", hook("user"))]);
    let home = world.0.path().join("home");
    let files = HookFiles::for_dirs(Some(&home), Some(&home));
    assert_eq!((world.report(), files.project_file()), ("hook user".to_owned(), None));
}

#[test]
fn errors_name_the_line_and_field() {
    let table = [
        ("[hooks\n", "1: unclosed table"),
        ("\n[[hooks.entries]]\npoint = \"never\"\n", "3: `hooks.entries[0].point`: unknown variant `never`"),
        ("[[hooks.entries]]\nid = 7\n", "2: `hooks.entries[0].id`: invalid type"),
        ("[[hooks.entries]]\nsurprise = 7\n", "2: `hooks.entries[0].surprise`: unknown field"),
        (
            "[[hooks.entries]]\nid = \" \"\nruntime = { type = \"command\", command = \"x\" }\n",
            "1: `hooks.entries[0]`: ",
        ),
    ];
    for (text, expected) in table {
        let report = World::new(&[("home/.rkat/config.toml", text.to_owned())]).report();
        let expected = format!("error: [dir]/home/.rkat/config.toml:{expected}");
        assert!(report.starts_with(&expected), "{text}: {report}");
    }
}

#[test]
fn ignored_keys_are_reported() {
    let text = format!(
        "model = \"x\"\n[hooks]\ndefault_timeout_ms = 1\n{}[shell]\nsandbox = \"off\"\n",
        hook("user")
    );
    let report = World::new(&[("home/.rkat/config.toml", text)]).report();
    let warning = |line, key| {
        format!(
            "warning: [dir]/home/.rkat/config.toml:{line}: ignoring `{key}`: only `hooks.entries` is read from this \
             file; use `rkat config` instead"
        )
    };
    let expected = [
        "hook user".to_owned(),
        warning(1, "model"),
        warning(8, "shell"),
        warning(3, "hooks.default_timeout_ms"),
    ];
    let mut report: Vec<_> = report.lines().collect();
    report.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(report, expected);
}

#[test]
fn hooks_of_every_enclosing_project_apply() {
    let world = World::new(&[
        (".rkat/config.toml", hook("above-home")),
        ("home/.rkat/config.toml", hook("user")),
        ("home/work/.rkat/config.toml", hook("outer")),
        ("home/work/pkg/.rkat/mcp.toml", String::new()),
        ("home/work/pkg/sub/.rkat/config.toml", hook("inner")),
    ]);
    let files = |project| world.files_for(project);
    let notice = |dir: &str, location: &str| {
        format!(
            "notice: ignoring hooks in [dir]/{dir}/.rkat/config.toml: not trusted; \
             review it, then run `rkat trust`{location}"
        )
    };
    let outer = notice("home/work", " in [dir]/home/work");
    assert_eq!(world.report_of(&files("home/work/pkg")), format!("hook user\n{outer}"));
    let inner = notice("home/work/pkg/sub", "");
    assert_eq!(world.report_of(&files("home/work/pkg/sub")), format!("hook user\n{outer}\n{inner}"));
    files("home/work").trust_project().unwrap();
    assert_eq!(world.report_of(&files("home/work/pkg")), "hook user\nhook outer");
    assert_eq!(world.report_of(&files("home/work/pkg/../sub")), "hook user\nhook outer");
    files("home/work/pkg/sub").trust_project().unwrap();
    assert_eq!(world.report_of(&files("home/work/pkg/sub")), "hook user\nhook outer\nhook inner");
}

#[test]
fn home_is_never_a_project() {
    let world = World::new(&[
        ("home/.rkat/config.toml", hook("home")),
        ("home/work/.rkat/config.toml", hook("outer")),
        ("home/work/ci/.rkat/config.toml", hook("user")),
    ]);
    let path = |name: &str| world.0.path().join(name);
    let files = |project: &str| {
        HookFiles::for_dirs(Some(&path(project)), Some(&path("home/work/ci"))).below(Some(&path("home")))
    };
    files("home/work").trust_project().unwrap();
    assert_eq!(world.report_of(&files("home/work/sub")), "hook user\nhook outer");
}

#[test]
fn file_is_parsed_again_only_if_its_text_changed() {
    let world = World::new(&[("home/.rkat/config.toml", hook("user"))]);
    let (files, path) = (world.files(), world.0.path().join("home/.rkat/config.toml"));
    let parse = |id: &str| files.parse(&path, hook(id)).unwrap();
    let first = parse("user");
    assert!(Arc::ptr_eq(&first, &parse("user")));
    assert_eq!(parse("other").entries[0].id, "other");
    std::fs::write(&path, "[hooks").unwrap();
    assert!(world.report_of(&files).starts_with("error: "), "an invalid file is an error every time");
    std::fs::write(&path, hook("user")).unwrap();
    assert_eq!(world.report_of(&files), "hook user");
}
