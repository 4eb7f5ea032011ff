//! `rkat completions`.

use crate::support::Rkat;

#[test]
fn every_shell_has_completions() {
    let rkat = Rkat::new();
    let shells = [
        ("bash", "complete -F _rkat"),
        ("zsh", "#compdef rkat"),
        ("fish", "complete -c rkat"),
        ("powershell", "Register-ArgumentCompleter"),
    ];
    for (shell, marker) in shells {
        let script = rkat.args(["completions", shell]).run();
        assert!(script.text().contains(marker), "{shell}: {script}");
        assert!(script.text().contains("expected-generation"), "{shell}");
        assert_eq!(script.stderr, "", "{shell}");
    }
}
