use proptest::prelude::*;

use super::*;

fn allow(patterns: &[&str], line: &str) -> bool {
    Policy::Allow(patterns.iter().map(|pattern| (*pattern).to_owned()).collect()).check(line).is_ok()
}

fn deny(patterns: &[&str], line: &str) -> bool {
    Policy::Deny(patterns.iter().map(|pattern| (*pattern).to_owned()).collect()).check(line).is_ok()
}

#[test]
fn every_command_in_a_line_must_be_allowed() {
    for good in [
        "git status",
        "git",
        "git log --oneline | git diff",
        "git status && git log; git diff",
        "git commit -m 'a; b $(c)'",
        "'git' status",
        "g\\it status",
        "git log 2>&1 >/dev/null",
        "git log *.rs # a note; rm x",
        "git log \\\n  --all\n",
        "git log &&\n git status",
    ] {
        assert!(allow(&["git *"], good), "{good}");
    }
    for bad in [
        "",
        "git status; id",
        "git status && id",
        "git status || id",
        "git status | id",
        "git status & id",
        "git status\nid",
        "git status `id`",
        "git $(id)",
        "git \"$(id)\"",
        "git ${IFS}x",
        "git $'x'",
        "git <(id)",
        "git > file",
        "git >> ~/.bashrc",
        "git &> file",
        "git < file",
        "git << end",
        "(id)",
        "{ id; }",
        "if git; then id; fi",
        "! id",
        "git() { id; }; git",
        "A=1 git",
        "PATH=/tmp git status",
        "/tmp/git status",
        "./git status",
        "git status 'open",
        "git status &&",
        "git status ;; id",
        "gi? status",
        "{git,status}",
        "~/git",
        "git\rid",
        "git\u{0}id",
    ] {
        assert!(bad.is_empty() || !allow(&["git *"], bad), "{bad}");
    }
}

#[test]
fn denied_command_cannot_be_disguised() {
    for bad in [
        "sudo id",
        "/usr/bin/sudo id",
        "../../usr/bin/sudo id",
        "'su'do id",
        "s\\udo id",
        "su\"do\" id",
        "true; sudo id",
        "true | sudo id",
        "true &\nsudo id",
        "`echo sudo` id",
        "$(echo sudo) id",
        "$X id",
        "env sudo id",
        "command sudo id",
        "exec sudo id",
        "nohup sudo id",
        "xargs sudo",
        "sh -c 'sudo id'",
        "echo c3VkbyBpZA== | base64 -d | sh",
        "eval sudo id",
        "find . -exec sudo id",
        "/usr/bin/s?do id",
        "f() { sudo id; }; f",
        "if true; then sudo id; fi",
    ] {
        assert!(!deny(&["sudo *"], bad), "{bad}");
    }
    for good in ["ls -l", "echo sudo", "git log | head -3", "cargo test 2>&1 > log", "[ -f x ]"] {
        assert!(deny(&["sudo *"], good), "{good}");
    }
}

/// Outcome of a line when `rm` is denied, and when only `git` and `find` with any arguments are allowed.
#[test]
fn wrapped_commands_are_checked() {
    let table = [
        // Wrappers.
        ("env X=1 rm a", "denied", "`env X=1 rm a` is not allowed"),
        ("env -i rm a", "denied", "`env -i rm a` is not allowed"),
        ("env -S 'rm a'", "unseen env", "`env -S rm a` is not allowed"),
        ("nice rm a", "denied", "`rm a` is not allowed"),
        ("nice -n 5 rm a", "denied", "`rm a` is not allowed"),
        ("nice -5 git log", "fine", "fine"),
        ("nice --weird 5 rm a", "unseen nice", "`nice --weird 5 rm a` is not allowed"),
        ("nohup rm a", "denied", "`rm a` is not allowed"),
        ("timeout 5 rm a", "denied", "`rm a` is not allowed"),
        ("timeout -k 1 5 /bin/rm a", "denied", "`/bin/rm a` is not allowed"),
        ("timeout 5 git log", "fine", "fine"),
        ("xargs rm", "denied", "`rm *` is not allowed"),
        ("xargs -n 1 -I {} rm {}", "denied", "`rm {} *` is not allowed"),
        ("xargs git log", "fine", "fine"),
        ("find . -exec rm {} +", "denied", "`rm {}` is not allowed"),
        ("find . -name a -exec git log {} \\; -execdir rm b \\;", "denied", "`rm b` is not allowed"),
        ("find . -name a", "fine", "fine"),
        ("busybox rm a", "denied", "`rm a` is not allowed"),
        ("busybox sh -c 'rm a'", "denied", "`rm a` is not allowed"),
        ("sudo rm a", "denied", "`sudo rm a` is not allowed"),
        ("sudo -u ada git log", "fine", "`sudo -u ada git log` is not allowed"),
        ("exec rm a", "denied", "`rm a` is not allowed"),
        ("command rm a", "denied", "`rm a` is not allowed"),
        ("command git log", "fine", "fine"),
        ("builtin command rm a", "denied", "`rm a` is not allowed"),
        ("eval 'git log; rm a'", "denied", "`rm a` is not allowed"),
        ("eval eval git log", "fine", "fine"),
        ("source x", "unseen source", "`source x` is not allowed"),
        // Shells.
        ("sh -c 'rm a'", "denied", "`rm a` is not allowed"),
        ("sh -c 'git log'", "fine", "fine"),
        ("bash -ec \"nice sh -c 'rm a'\"", "denied", "`rm a` is not allowed"),
        ("sh -c 'git log > x'", "fine", "redirection"),
        ("sh -c '`rm a`'", "unclear", "unclear"),
        ("sh x.sh", "unseen sh", "`sh x.sh` is not allowed"),
        ("echo x | sh", "unseen sh", "`echo x` is not allowed"),
        ("sh << end\nrm a\nend", "unclear", "unclear"),
        ("bash --rcfile x -c ls", "unseen bash", "`bash --rcfile x -c ls` is not allowed"),
        // Interpreters.
        ("python -c 'x'", "unseen python", "`python -c x` is not allowed"),
        ("python3.12 -Ic 'x'", "unseen python3.12", "`python3.12 -Ic x` is not allowed"),
        ("python3 -W ignore -c x", "unseen python3", "`python3 -W ignore -c x` is not allowed"),
        ("echo x | python3 -", "unseen python3", "`echo x` is not allowed"),
        ("python3", "unseen python3", "`python3` is not allowed"),
        ("python3 x.py", "fine", "`python3 x.py` is not allowed"),
        ("python3 --version", "fine", "`python3 --version` is not allowed"),
        ("perl -e x", "unseen perl", "`perl -e x` is not allowed"),
        ("perl -lane x", "unseen perl", "`perl -lane x` is not allowed"),
        ("node -e x", "unseen node", "`node -e x` is not allowed"),
        ("nodejs --eval=x", "unseen nodejs", "`nodejs --eval=x` is not allowed"),
        ("ruby -e x", "unseen ruby", "`ruby -e x` is not allowed"),
        ("awk 'BEGIN { system(\"rm a\") }'", "unseen awk", "not allowed"),
        ("awk '{ print | \"rm a\" }'", "unseen awk", "not allowed"),
        ("awk '{ print $1 }' x", "fine", "not allowed"),
        ("awk -f x", "unseen awk", "`awk -f x` is not allowed"),
        // Words that expand matter only if a command of the program is denied.
        ("ls *.rs", "fine", "`ls *.rs` is not allowed"),
        ("rmdir *", "fine", "`rmdir *` is not allowed"),
    ];
    for (line, under_deny, under_allow) in table {
        let deny = outcome(&Policy::Deny(vec!["rm *".to_owned()]), line);
        let allow = outcome(&Policy::Allow(vec!["git *".to_owned(), "find *".to_owned()]), line);
        assert!(deny == under_deny, "{line}: {deny} under a deny list");
        assert!(allow.contains(under_allow), "{line}: {allow} under an allow list");
    }
}

fn outcome(policy: &Policy, line: &str) -> String {
    match policy.check(line) {
        Ok(()) => "fine".to_owned(),
        Err(PolicyError::Denied(_)) => "denied".to_owned(),
        Err(PolicyError::Undeterminable(name)) => format!("unseen {name}"),
        Err(PolicyError::Hidden(name)) => format!("hidden {name}"),
        Err(PolicyError::Unnamed(name)) => format!("unnamed {name}"),
        Err(PolicyError::NotAllowed(command)) => format!("`{command}` is not allowed"),
        Err(PolicyError::Redirection(_)) => "redirection".to_owned(),
        Err(PolicyError::Unclear(_)) => "unclear".to_owned(),
        Err(PolicyError::Opaque(_)) => "opaque".to_owned(),
        Err(PolicyError::TooDeep) => "too deep".to_owned(),
    }
}

#[test]
fn undeterminable_command_needs_its_name_allowed() {
    let table = [
        (["python3 *", ""], "python3 -c x", "fine"),
        (["python3 *", ""], "nice python3 -c x", "fine"),
        (["* *", ""], "ls", "fine"),
        (["* *", ""], "python3 -c x", "unnamed python3"),
        (["py* *", ""], "python3 -c x", "unnamed python3"),
        (["sh *", ""], "sh x.sh", "fine"),
        (["sh *", ""], "sh -c 'rm a'", "`rm a` is not allowed"),
        (["sudo *", "git *"], "sudo git log", "fine"),
        (["sudo *", "git *"], "sudo rm a", "`rm a` is not allowed"),
        (["xargs *", "cat x"], "xargs cat", "`cat *` is not allowed"),
        (["timeout *", "git *"], "timeout -k 1 5 git log", "fine"),
        (["timeout *", "git *"], "timeout --kill-after=1 5 id", "hidden timeout"),
        (["timeout *", "git *"], "timeout * id", "hidden timeout"),
        (["exec *", "git *"], "exec -cl id", "hidden exec"),
        (["env *", "git *"], "env -S id", "hidden env"),
        (["env *", "git *"], "env git log", "fine"),
        (["xargs *", "git *"], "xargs --max-args=1 id", "hidden xargs"),
        (["find *", "git *"], "find . -exec {} +", "hidden find"),
        (["timeout 5 make", ""], "timeout 5 make", "fine"),
        (["timeout 5 make", ""], "timeout 6 make", "`make` is not allowed"),
    ];
    for (patterns, line, expected) in table {
        let policy = Policy::Allow(patterns.iter().map(|pattern| (*pattern).to_owned()).collect());
        let outcomes = outcome(&policy, line);
        assert!(outcomes == expected, "{line} with {patterns:?}: {outcomes}");
    }
}

/// Commands that are all allowed by name, so that only the arguments decide.
const BUILTINS: [&str; 33] = [
    "[ *",
    "alias *",
    "break *",
    "builtin *",
    "command *",
    "compgen *",
    "declare *",
    "echo *",
    "enable *",
    "env *",
    "exit *",
    "export *",
    "getopts *",
    "git *",
    "hash *",
    "jobs *",
    "kill *",
    "let *",
    "local *",
    "mapfile *",
    "printf *",
    "read *",
    "readarray *",
    "readonly *",
    "set *",
    "shopt *",
    "sudo *",
    "test *",
    "trap *",
    "typeset *",
    "ulimit *",
    "unset *",
    "wait *",
];

#[test]
fn builtins_that_evaluate_arguments_are_rejected() {
    let lines = [
        "test -v 'a[$(id)]'",
        "test -v \"a[\\$(id)]\"",
        "test -v a[0]",
        "test -v a*",
        "test -R 'a[$(id)]'",
        "test ! -v 'a[`id`]'",
        "test x -a -v 'a[$(id)]'",
        "test -? 'a[$(id)]'",
        "test [--0]v 'a[$(id)]'",
        "test * 'a[$(id)]'",
        "test 'a[$(id)]' -eq 0",
        "test 0 -gt 'a[$(id)]'",
        "[ -v 'a[$(id)]' ]",
        "[ 'a[$(id)]' -lt 1 ]",
        "builtin test -v 'a[$(id)]'",
        "command [ -v 'a[$(id)]' ]",
        "printf -v 'a[$(id)]' x",
        "printf -v PATH /tmp",
        "printf -vPATH /tmp",
        "printf * x",
        "printf %d 'a[$(id)]'",
        "read PATH",
        "read 'a[$(id)]'",
        "read -r -a 'a[$(id)]'",
        "readarray -C id -c 1 x",
        "mapfile 'a[$(id)]'",
        "getopts x 'a[$(id)]'",
        "let 'a[$(id)]=1'",
        "let x",
        "declare 'a[$(id)]=1'",
        "declare -i 'n=a[$(id)]'",
        "declare PATH=/tmp",
        "typeset -n a=b",
        "local 'a[$(id)]=1'",
        "export PATH=/tmp",
        "export -f x",
        "readonly 'a[$(id)]'",
        "unset 'a[$(id)]'",
        "unset PATH",
        "wait -p 'a[$(id)]' -n",
        "wait -np x",
        "alias git=id",
        "hash -p /tmp/x git",
        "hash -* git",
        "enable -f /tmp/x.so x",
        "compgen -W '$(id)'",
        "compgen -C id",
        "jobs -x id",
        "exit 'a[$(id)]'",
        "break 'a[$(id)]'",
        "kill 'a[$(id)]'",
        "ulimit -n 'a[$(id)]'",
        "set -k",
        "set -ek",
        "set -o history",
        "set -eo keyword",
        "shopt -s expand_aliases",
    ];
    for line in lines {
        let policy = Policy::Allow(BUILTINS.map(str::to_owned).to_vec());
        assert_eq!(outcome(&policy, line), "opaque", "{line} under an allow list");
        let policy = Policy::Deny(vec!["sudo *".to_owned()]);
        assert_eq!(outcome(&policy, line), "opaque", "{line} under a deny list");
    }
}

#[test]
fn arithmetic_and_assignments_are_rejected() {
    let lines = [
        "[[ -v 'a[$(id)]' ]]",
        "[[ 'a[$(id)]' -eq 0 ]]",
        "(( a['$(id)'] ))",
        "(('a[$(id)]'))",
        "echo $((a['$(id)']))",
        "echo $[a['$(id)']]",
        "echo ${a['$(id)']}",
        "echo \"${a[`id`]}\"",
        "a['$(id)']=1",
        "a['$(id)']=1 git log",
        "a+=x git log",
        "env PATH=/tmp git log",
        "env -i PATH=/tmp git log",
        "sudo PATH=/tmp git log",
        "trap '$(id)' EXIT",
        "for ((i='a[$(id)]'; ; )) ; do git log; done",
        "git log > 'a[$(id)]' {fd}> x",
    ];
    for line in lines {
        let policy = Policy::Allow(BUILTINS.map(str::to_owned).to_vec());
        assert_eq!(outcome(&policy, line), "unclear", "{line}");
    }
}

#[test]
fn plain_uses_of_builtins_are_allowed() {
    let lines = [
        "test -f Cargo.toml",
        "test -v HOME",
        "[ 3 -gt -2 ]",
        "[ -f *.rs ]",
        "[ -e src/* ]",
        "[ -n 'a[1]' ]",
        "[ a = -v ]",
        "printf '%s\\n' a[1] '$(id)'",
        "export -p",
        "declare",
        "hash -r",
        "hash git",
        "jobs -l",
        "wait",
        "wait 12",
        "set -euo pipefail",
        "set +x",
        "set -o errexit",
        "shopt -s nullglob globstar",
        "exit 3",
        "kill -9 12",
        "trap - EXIT",
        "trap 'git log' EXIT",
        "env git log",
    ];
    for line in lines {
        let policy = Policy::Allow(BUILTINS.map(str::to_owned).to_vec());
        assert_eq!(outcome(&policy, line), "fine", "{line}");
    }
}

#[test]
fn exact_pattern_allows_an_opaque_builtin() {
    let policy = Policy::Allow(vec!["export CI=1".to_owned(), "cargo *".to_owned()]);
    assert_eq!(outcome(&policy, "export CI=1; cargo test"), "fine");
    assert_eq!(outcome(&policy, "export CI=2; cargo test"), "opaque");
}

#[test]
fn trap_and_variables_cannot_hide_a_command() {
    let policy = Policy::Deny(vec!["rm *".to_owned()]);
    let outcomes =
        ["trap 'rm a' EXIT", "sudo X=1 rm a", "/usr/bin/time rm a", "/lib64/ld-linux-x86-64.so.2 /bin/rm a"]
            .map(|line| outcome(&policy, line));
    assert_eq!(outcomes, ["denied", "unclear", "unseen time", "unseen ld-linux-x86-64.so.2"]);
}

#[test]
fn words_expanded_to_commands_are_not_trusted() {
    let table = [
        ("echo sudo id | xargs env", "unseen env"),
        ("echo sudo id | xargs nice", "unseen nice"),
        ("echo 5 sudo id | xargs timeout", "unseen timeout"),
        ("echo 5 sudo id | xargs timeout 5", "unseen timeout"),
        ("echo sudo | xargs -I {} {} id", "unseen xargs"),
        ("find . -name sudo -exec {} id \\;", "unseen find"),
        ("find *", "unseen find"),
        ("timeout * id", "unseen timeout"),
        ("nice -* id", "unseen nice"),
        ("env X=1 * id", "unseen env"),
        ("eval ls *", "unclear"),
        ("eval eval ls *", "unclear"),
        ("env [ -f x ]", "fine"),
        ("find . -name '*.rs' -exec ls {} +", "fine"),
        ("find src/*.rs", "fine"),
        ("nice ls *", "fine"),
    ];
    for (line, expected) in table {
        assert_eq!(outcome(&Policy::Deny(vec!["sudo *".to_owned()]), line), expected, "{line}");
    }
}

#[test]
fn command_nesting_is_limited() {
    let deep = "nice ".repeat(100_000) + "rm a";
    assert_eq!(outcome(&Policy::Deny(vec!["rm *".to_owned()]), &deep), "too deep");
}

#[test]
fn patterns_are_words() {
    assert!(allow(&["cargo test"], "cargo test"));
    assert!(!allow(&["cargo test"], "cargo test --all"));
    assert!(allow(&["cargo test *"], "cargo test --all"));
    assert!(allow(&["cat docs/*"], "cat docs/a.md"));
    assert!(!allow(&["cat docs/*"], "cat docs/../secret"));
    assert!(!allow(&["cat docs/*"], "cat docs/.*"));
    assert!(allow(&["/opt/bin/tool"], "/opt/bin/tool"));
    assert!(!allow(&[], "ls"));
    assert!(!allow(&[""], "ls"));
}

/// Quotes words so that a shell reads them literally.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

proptest! {
    #[test]
    fn quoted_words_are_read_literally(words in prop::collection::vec("[ -~]{1,12}", 1..5), other in "[a-z]{1,8}") {
        prop_assume!(!words[0].is_empty());
        let line = format!("{}; {other}", quoted(&words));
        let read: Vec<Vec<String>> = match crate::shell::command::parse(&line) {
            Ok(commands) => commands.into_iter().map(|command| command.words.into_iter().map(|word| word.text).collect()).collect(),
            // Words that start another construct are rejected, quoted or not.
            Err(_) => return Ok(()),
        };
        prop_assert_eq!(read, vec![words, vec![other]]);
    }

    #[test]
    fn parser_never_panics(line in "\\PC{0,60}") {
        let _ = crate::shell::command::parse(&line);
    }

    /// Whatever stands before it, a command after an operator is seen, or the line is refused.
    #[test]
    fn a_denied_command_is_always_seen(
        before in "[ -~\n]{0,20}",
        operator in prop::sample::select(vec![";", "\n", "&&", "||", "|", "&"]),
        after in "[ -~\n]{0,12}",
    ) {
        let line = format!("{before}{operator}sudo {after}");
        let Ok(()) = Policy::Deny(vec!["sudo *".to_owned()]).check(&line) else { return Ok(()) };
        // It ran as a word only where quotes, a backslash, a comment or a word before it hold it.
        let held = before.contains(['\'', '"', '\\', '#', '<', '>']);
        prop_assert!(held, "{line:?}");
    }
}
