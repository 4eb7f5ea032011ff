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
        self.files_of("home/work")
    }

    fn files_of(&self, project: &str) -> HookFiles {
        let (project, home) = (self.0.path().join(project), self.0.path().join("home"));
        HookFiles::of(Some(&project), Some(&home)).below(Some(&home))
    }

    /// What is loaded: ids and notices, or what is wrong.
    fn told(&self) -> String {
        self.shown(&self.files())
    }

    fn shown(&self, files: &HookFiles) -> String {
        let told = match files.load() {
            Ok(loaded) => {
                let ids = loaded.entries.iter().map(|entry| format!("hook {}", entry.id));
                ids.chain(loaded.notices).collect::<Vec<_>>().join("\n")
            }
            Err(error) => format!("error: {error}"),
        };
        told.replace(&self.0.path().display().to_string(), "[dir]")
    }
}

fn hook(id: &str) -> String {
    HOOK.replace("ID", id)
}

#[test]
fn the_users_come_first_and_the_projects_only_when_they_are_trusted() {
    let world = World::new(&[
        ("home/.rkat/config.toml", hook("user")),
        ("home/work/.rkat/config.toml", hook("project")),
    ]);
    let untrusted = "hook user\nnotice: [dir]/home/work/.rkat/config.toml is not trusted, so its hooks are not used; \
                     look at it, then `rkat trust`";
    assert_eq!(world.told(), untrusted);
    world.files().trust_project().unwrap();
    assert_eq!(world.told(), "hook user\nhook project");
    let changed = format!("{}# more\n", hook("project"));
    std::fs::write(world.0.path().join("home/work/.rkat/config.toml"), changed).unwrap();
    assert_eq!(world.told(), untrusted, "a change is trusted anew");
    world.files().trust_project().unwrap();
    assert_eq!(world.told(), "hook user\nhook project");
    world.files().distrust_project().unwrap();
    assert_eq!(world.told(), untrusted);
}

#[test]
fn the_users_file_is_not_a_projects() {
    let world = World::new(&[("home/.rkat/config.toml", hook("user"))]);
    let home = world.0.path().join("home");
    let files = HookFiles::of(Some(&home), Some(&home));
    assert_eq!((world.told(), files.project_file()), ("hook user".to_owned(), None));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
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
        let told = World::new(&[("home/.rkat/config.toml", text.to_owned())]).told();
        let expected = format!("error: [dir]/home/.rkat/config.toml:{expected}");
        assert!(told.starts_with(&expected), "{text}: {told}");
    }
}

#[test]
fn what_is_not_read_is_told() {
    let text = format!(
        "model = \"x\"\n[hooks]\ndefault_timeout_ms = 1\n{}[shell]\nsandbox = \"off\"\n",
        hook("user")
    );
    let told = World::new(&[("home/.rkat/config.toml", text)]).told();
    let unread = |line, key| {
        format!(
            "warning: [dir]/home/.rkat/config.toml:{line}: `{key}` is not read from here, only `hooks.entries` is; \
             `rkat config` changes the realm's"
        )
    };
    let expected = [
        "hook user".to_owned(),
        unread(1, "model"),
        unread(8, "shell"),
        unread(3, "hooks.default_timeout_ms"),
    ];
    let mut told: Vec<_> = told.lines().collect();
    told.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(told, expected);
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
    let files = |project| world.files_of(project);
    let notice = |dir: &str, place: &str| {
        format!(
            "notice: [dir]/{dir}/.rkat/config.toml is not trusted, so its hooks are not used; \
             look at it, then `rkat trust`{place}"
        )
    };
    let outer = notice("home/work", " in [dir]/home/work");
    assert_eq!(world.shown(&files("home/work/pkg")), format!("hook user\n{outer}"));
    let inner = notice("home/work/pkg/sub", "");
    assert_eq!(world.shown(&files("home/work/pkg/sub")), format!("hook user\n{outer}\n{inner}"));
    files("home/work").trust_project().unwrap();
    assert_eq!(world.shown(&files("home/work/pkg")), "hook user\nhook outer");
    assert_eq!(world.shown(&files("home/work/pkg/../sub")), "hook user\nhook outer");
    files("home/work/pkg/sub").trust_project().unwrap();
    assert_eq!(world.shown(&files("home/work/pkg/sub")), "hook user\nhook outer\nhook inner");
}

#[test]
fn home_is_no_project_beside_another_user_directory() {
    let world = World::new(&[
        ("home/.rkat/config.toml", hook("home")),
        ("home/work/.rkat/config.toml", hook("outer")),
        ("home/work/ci/.rkat/config.toml", hook("user")),
    ]);
    let path = |name: &str| world.0.path().join(name);
    let files = |project: &str| {
        HookFiles::of(Some(&path(project)), Some(&path("home/work/ci"))).below(Some(&path("home")))
    };
    files("home/work").trust_project().unwrap();
    assert_eq!(world.shown(&files("home/work/sub")), "hook user\nhook outer");
}
