//! `rkat completions`.

use crate::support::Rkat;

#[test]
fn there_are_completions_for_every_shell() {
    let rkat = Rkat::new();
    let shells = [
        ("bash", "complete -F _rkat"),
        ("zsh", "#compdef rkat"),
        ("fish", "complete -c rkat"),
        ("powershell", "Register-ArgumentCompleter"),
    ];
    for (shell, sign) in shells {
        let script = rkat.args(["completions", shell]).run();
        assert!(script.text().contains(sign), "{shell}: {script}");
        assert!(script.text().contains("expected-generation"), "{shell}");
        assert_eq!(script.stderr, "", "{shell}");
    }
}
