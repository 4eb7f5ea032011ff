//! The scope of a command line: its program, if it runs exactly one.

use super::builtins::is_opaque;
use super::command::{WordKind, parse};
use super::nested::{NestedCommands, launch};

/// Programs that only print, whatever their arguments are. Any other name reveals too little about what a line does.
const BOUND: [&str; 33] = [
    "[",
    "basename",
    "cat",
    "cmp",
    "cut",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expr",
    "false",
    "fgrep",
    "grep",
    "groups",
    "head",
    "id",
    "ls",
    "md5sum",
    "nl",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "sha256sum",
    "stat",
    "tail",
    "test",
    "true",
    "uname",
    "wc",
    "whoami",
];

/// Programs with the subcommands that reveal enough: they only print, or do what the user expects from their name.
const BOUND_SUBCOMMANDS: [(&str, &[&str]); 12] = [
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "metadata", "test", "tree"]),
    ("docker", &["images", "logs", "ps"]),
    ("dotnet", &["build", "test"]),
    ("git", &["add", "blame", "commit", "diff", "log", "show", "status"]),
    ("go", &["build", "fmt", "test"]),
    ("jj", &["diff", "log", "show", "status"]),
    ("kubectl", &["describe", "get", "logs"]),
    ("npm", &["ls", "test"]),
    ("pip", &["freeze", "list", "show"]),
    ("pnpm", &["list", "test"]),
    ("systemctl", &["status"]),
    ("yarn", &["list", "test"]),
];

/// Options of these programs that write a file or run a program that the line names.
const UNBOUND_OPTIONS: [&str; 13] = [
    "--config",
    "--exec",
    "--ext-diff",
    "--kubeconfig",
    "--open-files-in-pager",
    "--output",
    "--script-shell",
    "--tool",
    "--toolexec",
    "--vettool",
    "-exec",
    "-toolexec",
    "-vettool",
];

/// Returns the program of a command line, with its subcommand if it has one. Returns `None` if the line does more than
/// run one program, or if the program's name does not bound what it does.
pub(crate) fn program(line: &str) -> Option<Vec<String>> {
    let commands = parse(line).ok()?;
    let [command] = commands.as_slice() else { return None };
    let is_plain = command.files.is_empty() && command.words.iter().all(|word| word.kind == WordKind::Plain);
    let (first, rest) = command.words.split_first()?;
    let name = first.text.as_str();
    if !is_plain || is_opaque(command) || launch(command) != Ok(NestedCommands::Nothing) {
        return None;
    }
    if BOUND.contains(&name) {
        return Some(vec![name.to_owned()]);
    }
    let (_, subcommands) = BOUND_SUBCOMMANDS.iter().find(|(program, _)| *program == name)?;
    let (subcommand, arguments) = rest.split_first()?;
    let is_unbound = |option: &str| UNBOUND_OPTIONS.contains(&option.split('=').next().unwrap_or(option));
    if !subcommands.contains(&subcommand.text.as_str()) || arguments.iter().any(|word| is_unbound(&word.text))
    {
        return None;
    }
    Some(vec![name.to_owned(), subcommand.text.clone()])
}

#[cfg(test)]
mod tests {
    use super::program;

    #[test]
    fn program_is_extracted_from_bounded_lines() {
        let cases = [
            ("echo one", Some("echo")),
            ("ls -la 'a b' 2> /dev/null", Some("ls")),
            ("git status -s", Some("git status")),
            ("cargo test -p x", Some("cargo test")),
            ("git -c core.pager=x log", None),
            ("git", None),
            ("git diff --output=file", None),
            ("git bisect run x", None),
            ("go build ./...", Some("go build")),
            ("go build -toolexec=./x ./...", None),
            ("git fetch --upload-pack=x", None),
            ("test -f x", Some("test")),
            ("test -v 'a[$(touch x)]'", None),
            ("printf -v 'a[$(touch x)]' y", None),
            ("sort --compress-program=x -o y z", None),
            ("rg --pre x y", None),
            ("make", None),
            ("npm run build", None),
            ("rm -rf sub", None),
            ("echo one; rm -rf sub", None),
            ("echo $(rm -rf sub)", None),
            ("echo one > file", None),
            ("echo *", None),
            ("ls | sh", None),
            ("A=1 ls", None),
            ("./build.sh", None),
            ("python3 x.py", None),
            ("env ls", None),
            ("sudo ls", None),
            ("find . -name x", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(program(line).map(|words| words.join(" ")).as_deref(), expected, "{line}");
        }
    }
}
