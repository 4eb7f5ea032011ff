//! Where the prompt comes from.

use insta::assert_snapshot;

use crate::support::Rkat;

#[test]
fn a_prompt_is_read_from_stdin_when_there_is_none_or_a_dash() {
    let rkat = Rkat::new();
    for args in [&["run", "-q"][..], &["run", "-q", "-"]] {
        assert_eq!(rkat.args(args.iter().copied()).stdin("say from stdin\n").run().text(), "from stdin\n");
    }
}

#[test]
fn stdin_stands_before_the_prompt_when_asked() {
    let rkat = Rkat::new();
    let done = rkat.args(["run", "-q", "--stdin", "say done"]).stdin("some notes\n").run();
    assert_eq!(done.text(), "done\n");
    assert_snapshot!(rkat.args(["session", "show", "last"]).run(), @r"
    SESSION                               CHANGED   STATE  MESSAGES  TOKENS  MODEL    LABELS
    [uuid]  just now  idle   2         73      offline

    user    <stdin>
            some notes
            </stdin>

            say done

    agent   done
    --- stderr
    --- exit 0
    ");
}

#[test]
fn a_prompt_in_the_arguments_never_waits_for_stdin() {
    let done = Rkat::new().args(["run", "-q", "say done"]).open_stdin().run();
    assert_eq!(done.text(), "done\n");
}

#[test]
fn an_empty_prompt_is_refused() {
    assert_snapshot!(Rkat::new().args(["run", "-"]).stdin("").run(), @r"
    --- stderr
    error: `prompt` is empty and there are no `tool_results` or `approvals` [INVALID_PARAMS]
    --- exit 2
    ");
}
