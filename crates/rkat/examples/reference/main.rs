//! Writes the reference pages from the code: `cargo run -p rkat --example reference -- docs/reference`.
//!
//! The same code produces the same pages, regardless of the machine and its environment.

mod cli;
mod config;
mod environment;
mod errors;
mod fields;
mod tools;

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).map(PathBuf::from).ok_or("missing argument: output directory")?;
    std::fs::create_dir_all(&dir)?;
    let pages = [
        ("cli.md", cli::page()),
        ("config.md", config::page()?),
        ("environment.md", environment::page()),
        ("errors.md", errors::page()?),
        ("tools.md", tools::page()),
    ];
    for (name, text) in pages {
        let header = "<!-- Generated from the code by `cargo xtask docs`; do not edit. -->";
        std::fs::write(dir.join(name), format!("{header}\n\n{}\n", text.trim_end()))?;
    }
    Ok(())
}

/// Renders a table.
fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let headings: Vec<_> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let rule = vec!["---".to_owned(); headings.len()];
    [&headings, &rule].into_iter().chain(rows).map(|cells| line(cells)).collect()
}
