//! Files that stay usable next to secrets, and protection on kernels with fewer features.

use meerkat_testkit::{MissingFeature, with_restricted_kernel};
use meerkat_tools::{ShellOptions, ToolSelection};
use serde_json::{Value, json};

use crate::support::{World, is_sandbox_available, unsandboxed};

/// Creates a workspace with secrets in it and next to it.
fn world(secrets: &[&str]) -> World {
    let secrets = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    let shell = Some(ShellOptions::default());
    let world = World::with(ToolSelection { images: true, shell, secrets, ..ToolSelection::default() });
    world.write(".env", "KEY=SECRET\n");
    world.write(".env.example", "KEY=\n");
    world.write("web/.env.local", "KEY=SECRET\n");
    world.write("notes", "notes\n");
    world
}

/// Runs commands, and returns their exit codes and output.
async fn run_commands(world: &World, commands: &[&str]) -> Vec<(Value, Value)> {
    let mut results = Vec::new();
    for command in commands {
        let mut reply = world.shell(command).await;
        results.push((reply["exit_code"].take(), reply["stdout"].take()));
    }
    results
}

/// Runs work where no process can get a separate view of the file system.
fn without_mounts<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
    with_restricted_kernel(MissingFeature::Namespaces, || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work())
    })
}

#[tokio::test]
async fn workspace_and_temporary_files_are_writable() {
    if !is_sandbox_available() {
        return;
    }
    let world = world(&[]);
    let made = "echo one > file && mkdir sub && echo two > sub/x && mv file sub/file && echo t > $TMPDIR/t && cat sub/file $TMPDIR/t";
    assert_eq!(run_commands(&world, &[made]).await, [(json!(0), json!("one\nt\n"))]);
    assert_eq!(world.read("sub/file").as_deref(), Some("one\n"));
}

#[tokio::test]
async fn files_next_to_a_secret_are_usable() {
    if !is_sandbox_available() {
        return;
    }
    let listed = run_commands(
        &world(&[]),
        &[
            "ls -A",
            "cat .env.example notes",
            "ls -A ~",
            "ls -A ~/.ssh",
            "cat ~/other/notes && test -r /etc/passwd && ls /usr/bin | grep -q .",
            "wc -c < .env || echo no",
            "echo more > .env || echo no",
        ],
    )
    .await;
    // Root can read files without permissions; the cover is empty.
    let empty = if is_root() { "0\n" } else { "no\n" };
    let expected = [
        (0, ".env\n.env.example\nnotes\nweb\n"),
        (0, "KEY=\nnotes\n"),
        (0, ".ssh\nother\n"),
        (if is_root() { 0 } else { 2 }, ""),
        (0, "notes"),
        (0, empty),
        (0, "no\n"),
    ];
    assert_eq!(listed, expected.map(|(code, text)| (json!(code), json!(text))));
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn secrets_are_unreadable_without_mounts() {
    if !is_sandbox_available() {
        return;
    }
    let outputs = without_mounts(async || {
        let world = world(&[]);
        let read = [
            "cat .env",
            "cat web/.env.local",
            "cat ~/.ssh/id_ed25519",
            "mv .env web/x; cat web/x",
            "ln web/.env.local y; cat y",
        ];
        for command in read {
            let reply = world.shell(command).await;
            assert!(reply["exit_code"] != 0 && !reply.to_string().contains("SECRET"), "{command}: {reply}");
        }
        let commands =
            ["ls -A ~ ~/.ssh", "echo one > new && cat new", "cat new", "mkdir -p made && cat notes"];
        run_commands(&world, &commands).await
    });
    let home = "/.ssh:\nid_ed25519\n";
    assert!(outputs[0].1.as_str().unwrap().contains(home), "names are listed: {outputs:?}");
    let expected = [(json!(1), json!("")), (json!(0), json!("one\n")), (json!(0), json!("notes\n"))];
    assert_eq!(outputs[1..], expected);
}

#[test]
fn secret_parents_are_read_only_without_mounts() {
    if !is_sandbox_available() {
        return;
    }
    let outputs = without_mounts(async || {
        let world = world(&["keys", "/work/keys"]);
        let place = world.path("work/keys").display().to_string();
        world.write("keys/k", "SECRET");
        world.write("sub/x", "x");
        let world = world.with_secrets(&[place.as_str()]);
        run_commands(&world, &["cat keys/k", "mv notes keys/", "echo x > new", "echo y > sub/x && cat sub/x"])
            .await
    });
    let codes: Vec<_> = outputs.iter().map(|(code, _)| code == 0).collect();
    assert_eq!(codes, [false, false, false, true], "{outputs:?}");
}

#[tokio::test]
async fn file_tools_reject_reading_secrets() {
    let world = world(&["deploy.json", "!.env.local"]);
    world.write("deploy.json", "SECRET");
    world.link("link", ".env");
    let patch = "*** Begin Patch\n*** Update File: .env\n@@\n-KEY=SECRET\n+x\n*** End Patch";
    for (tool, arguments, path) in [
        ("read_file", json!({ "path": ".env" }), ".env"),
        ("read_file", json!({ "path": "link" }), "link"),
        ("read_file", json!({ "path": "deploy.json" }), "deploy.json"),
        ("view_image", json!({ "path": ".env" }), ".env"),
        ("blob_load_file", json!({ "path": ".env" }), ".env"),
        ("apply_patch", json!({ "patch": patch }), ".env"),
    ] {
        let expected =
            format!("`{path}` may contain secrets; the realm's owner can allow access with `tools.secrets`");
        assert_eq!(world.failure(tool, arguments).await, ("access_denied".to_owned(), expected), "{tool}");
    }
    assert_eq!(world.text("read_file", json!({ "path": "web/.env.local" })).await, "KEY=SECRET\n");
    let found = world.text("search_files", json!({ "pattern": "KEY" })).await;
    assert_eq!(found, ".env.example:1:KEY=\nweb/.env.local:1:KEY=SECRET\n");
}

/// Every tool that writes a file, with arguments for this path.
fn writes(path: &str, blob: &Value) -> [(&'static str, Value); 4] {
    let patch = |part: String| json!({ "patch": format!("*** Begin Patch\n{part}\n*** End Patch") });
    [
        ("apply_patch", patch(format!("*** Add File: {path}\n+x"))),
        ("apply_patch", patch(format!("*** Update File: notes\n*** Move to: {path}\n@@\n-notes\n+x"))),
        ("blob_save_file", json!({ "path": path, "blob_id": blob })),
        ("blob_save_file", json!({ "path": path, "blob_id": blob, "overwrite": true })),
    ]
}

#[tokio::test]
async fn file_tools_reject_writing_secret_files() {
    let world = world(&[]);
    world.link("same", "web");
    let vault = world.path("work/vault").display().to_string();
    let world = world.with_secrets(&[vault.as_str(), "deploy.json"]);
    let blob = world.json("blob_load_file", json!({ "path": "notes" })).await["blob_id"].clone();
    let paths = [
        ".env",
        "web/.env.local",
        "same/.env",
        "new/.env",
        "deploy.json",
        "vault",
        "vault/key",
        "vault/new/key",
    ];
    for path in paths {
        for (tool, arguments) in writes(path, &blob) {
            let (kind, message) = world.failure(tool, arguments).await;
            assert!(
                kind == "access_denied" && message.contains("may contain secrets"),
                "{tool} {path}: {message}"
            );
        }
    }
    let there = |name: &str| world.path("work").join(name).exists();
    assert_eq!(["new", "vault", "deploy.json", "web/.env"].map(there), [false; 4]);
    assert_eq!(world.read(".env").as_deref(), Some("KEY=SECRET\n"));
    assert_eq!(world.read("web/.env.local").as_deref(), Some("KEY=SECRET\n"));
    for (tool, arguments) in writes(".env.example", &blob).into_iter().skip(3) {
        world.json(tool, arguments).await;
    }
    assert_eq!(world.read(".env.example").as_deref(), Some("notes\n"));
}

#[tokio::test]
async fn secret_in_oddly_named_directory_is_masked() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = world(&[]);
    let dir = world.path("work").join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join(".env"), "KEY=SECRET\n").unwrap();
    let found = world.text("search_files", json!({ "pattern": "SECRET" })).await;
    assert_eq!(found, "[no match]");
}

#[tokio::test]
async fn process_files_are_unreadable() {
    let world = World::everywhere();
    let mem = format!("proc/{}/mem", std::process::id());
    for path in
        ["proc/self/environ", "/proc/self/environ", "/proc/thread-self/environ", "proc/self/maps", &mem]
    {
        for (tool, arguments) in [
            ("read_file", json!({ "path": path })),
            ("search_files", json!({ "path": path, "pattern": "." })),
            ("blob_load_file", json!({ "path": path })),
        ] {
            let (kind, message) = world.failure(tool, arguments).await;
            assert_eq!(kind, "access_denied", "{tool} {path}: {message}");
        }
    }
}

#[test]
fn commands_are_rejected_without_kernel_support() {
    let reasons = [
        (
            MissingFeature::Landlock,
            "this kernel cannot sandbox programs (requires Landlock from Linux 6.2 or newer)",
        ),
        (MissingFeature::Seccomp, "this kernel cannot filter system calls (it lacks seccomp)"),
    ];
    for (lacking, reason) in reasons {
        let ((kind, message), free) = with_restricted_kernel(lacking, || {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            tokio.block_on(async {
                let refused = World::with_shell(ShellOptions::default());
                let run = World::with_shell(unsandboxed());
                (refused.failure("shell", json!({ "command": "echo x" })).await, run.shell("echo x").await)
            })
        });
        let expected = format!(
            "cannot run commands in a sandbox on this system; the realm's owner can set `shell.sandbox` to `off`: {reason}"
        );
        assert_eq!(kind, "tool_unavailable");
        assert!(message.starts_with(&expected), "{message}");
        assert_eq!(
            (&free["exit_code"], &free["stdout"], &free["sandbox"]),
            (&json!(0), &json!("x\n"), &json!("off"))
        );
    }
}

#[tokio::test]
async fn command_in_home_cannot_plant_config() {
    if !is_sandbox_available() {
        return;
    }
    let plant = "mkdir -p ~/.rkat; echo x > ~/.rkat/config.toml; echo x > ~/.rkat/mcp.toml; echo done > note";
    let planted = |world: &World| {
        let there = |name: &str| world.path(name).exists();
        ["home/.rkat/config.toml", "home/.rkat/mcp.toml", "home/note"].map(there)
    };
    let confined = World::at_home(ShellOptions::default());
    confined.shell(plant).await;
    assert_eq!(planted(&confined), [false, false, true]);
    let control = World::at_home(unsandboxed());
    control.shell(plant).await;
    assert_eq!(planted(&control), [true, true, true]);
    let lesser = without_mounts(async || {
        let world = World::at_home(ShellOptions::default());
        world.shell(plant).await;
        planted(&world)
    });
    assert_eq!(lesser[..2], [false, false]);
}
