//! Checks of the documentation: its commands run, its configurations parse, and its links resolve.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::support::Rkat;

/// A fenced block of a page.
struct Block {
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the documentation pages with their paths in the repository.
fn pages() -> Vec<(String, String)> {
    let mut paths: Vec<_> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md"]
        .map(|name| root().join(name))
        .to_vec();
    let mut dirs = vec![root().join("docs")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let text: Vec<_> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
            blocks.push(Block { language: language.to_owned(), text: text.join("\n") });
        }
    }
    blocks
}

/// Returns the commands of a block that can be run, with the exit code of each.
fn commands(block: &str) -> Vec<(String, i32)> {
    let is_runnable =
        |line: &String| ["rkat ", "echo ", "printf "].iter().any(|start| line.starts_with(start));
    let with_code = |line: String| {
        let code = line.rsplit_once("# exit ").map_or(0, |(_, code)| code.trim().parse().unwrap());
        (line, code)
    };
    let plain = block.replace("cargo run --release -- ", "rkat ");
    statements(&plain).into_iter().filter(is_runnable).map(with_code).collect()
}

/// Splits a block into commands as a shell would: at line ends, except in single quotes and after a backslash.
fn statements(block: &str) -> Vec<String> {
    let (mut statements, mut statement, mut quoted) = (Vec::new(), String::new(), false);
    for character in block.chars() {
        match character {
            '\n' if !quoted && !statement.ends_with('\\') => statements.push(std::mem::take(&mut statement)),
            character => {
                quoted ^= character == '\'';
                statement.push(character);
            }
        }
    }
    statements.push(statement);
    statements
}

#[test]
#[cfg(unix)]
fn commands_of_every_page_run() {
    let mut count = 0;
    for (page, text) in pages() {
        let rkat = Rkat::new();
        let shell = blocks(&text).into_iter().filter(|block| block.language == "sh");
        for (line, expected) in shell.flat_map(|block| commands(&block.text)) {
            let script = format!("rkat() {{ '{}' \"$@\"; }}\n{line}", env!("CARGO_BIN_EXE_rkat"));
            let mut command = rkat.command(Path::new("/bin/sh"));
            command.arg("-c").arg(script).env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::null());
            let done = command.output().unwrap();
            let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(expected), "{page}: {line}\n{stderr}");
            count += 1;
        }
    }
    assert!(count > 30, "only {count} commands were found");
}

#[test]
#[cfg(target_os = "linux")]
fn readme_example_matches_real_output() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let example = blocks(&readme).into_iter().find(|block| block.language == "console").unwrap().text;
    let rkat = Rkat::new();
    let mut printed = Vec::new();
    for line in example.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let script = format!("rkat() {{ \"$RKAT\" \"$@\"; }}; {line}");
        let (_, screen) = crate::terminal::Terminal::run(&rkat, &script).finish();
        printed.push(format!("$ {line}\n{screen}"));
    }
    assert_eq!(rkat.redact(printed.join("\n").trim_end()), rkat.redact(&example));
}

#[test]
fn client_configurations_name_our_server() {
    let mut found = Vec::new();
    for (page, text) in pages() {
        for block in blocks(&text) {
            let value: Value = match block.language.as_str() {
                "json" => serde_json::from_str(&block.text)
                    .unwrap_or_else(|e| panic!("{page}: {e}\n{}", block.text)),
                "toml" => {
                    toml::from_str(&block.text).unwrap_or_else(|e| panic!("{page}: {e}\n{}", block.text))
                }
                _ => continue,
            };
            for key in ["mcpServers", "mcp_servers"] {
                for server in value[key].as_object().into_iter().flat_map(|servers| servers.values()) {
                    let by = match server["url"].as_str() {
                        Some(url) => {
                            assert!(url.ends_with("/mcp"), "{page}: {}", block.text);
                            "url"
                        }
                        None => {
                            assert_eq!(server["command"], "rkat-mcp", "{page}: {}", block.text);
                            "command"
                        }
                    };
                    found.push(format!("{page} {} {by}", block.language));
                }
            }
        }
    }
    let expected = [
        "README.md json command",
        "docs/mcp-clients.md json command",
        "docs/mcp-clients.md toml command",
        "docs/mcp-clients.md json url",
        "docs/mcp-clients.md toml url",
    ];
    for page in expected {
        assert!(found.iter().any(|place| place == page), "{page} is missing in {found:?}");
    }
}

#[test]
fn links_resolve() {
    for (page, text) in pages() {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap();
            if target.contains("://") || path.is_empty() {
                continue;
            }
            let file = root().join(&page).parent().unwrap().join(path);
            assert!(file.exists(), "{page}: {target}");
        }
    }
}
