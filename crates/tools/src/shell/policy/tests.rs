use proptest::prelude::*;

use super::*;

fn allow(patterns: &[&str], line: &str) -> bool {
    Policy::Allow(patterns.iter().map(|pattern| (*pattern).to_owned()).collect()).check(line).is_ok()
}

fn deny(patterns: &[&str], line: &str) -> bool {
    Policy::Deny(patterns.iter().map(|pattern| (*pattern).to_owned()).collect()).check(line).is_ok()
}

#[test]
fn every_command_of_a_line_must_be_allowed() {
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
fn a_denied_command_cannot_be_disguised() {
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

/// Writes words so that a shell reads them as they are.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

proptest! {
    #[test]
    fn quoted_words_are_read_as_they_are(words in prop::collection::vec("[ -~]{1,12}", 1..5), other in "[a-z]{1,8}") {
        prop_assume!(!words[0].is_empty());
        let line = format!("{}; {other}", quoted(&words));
        let read: Vec<Vec<String>> = match crate::shell::command::parse(&line) {
            Ok(commands) => commands.into_iter().map(|command| command.words.into_iter().map(|word| word.text).collect()).collect(),
            // Words that begin something else are not judged, quoted or not.
            Err(_) => return Ok(()),
        };
        prop_assert_eq!(read, vec![words, vec![other]]);
    }

    #[test]
    fn nothing_makes_the_reader_fail(line in "\\PC{0,60}") {
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
