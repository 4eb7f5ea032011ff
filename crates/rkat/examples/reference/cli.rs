//! Command-line page: the long help of every command.

use clap::Command;

pub(crate) fn page() -> String {
    let mut rkat = rkat::command().term_width(100);
    rkat.build();
    let mut page = "# `rkat` command line\n\n\
        Results are printed to stdout, everything else to stderr. Exit codes: 0 success, 1 failure, 2 budget exhausted \
        or invalid command line, 130 interrupted. The options for the realm and its instance apply to every command.\n"
        .to_owned();
    section(&mut page, &mut rkat, "rkat");
    page
}

fn section(page: &mut String, command: &mut Command, name: &str) {
    let inherits = name.contains(' ');
    let mut own = command.clone().mut_args(|arg| {
        let hidden = inherits && arg.is_global_set();
        arg.hide(hidden)
    });
    let help = own.render_long_help().to_string();
    let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n")));
    for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
        let name = format!("{name} {}", sub.get_name());
        section(page, sub, &name);
    }
}
