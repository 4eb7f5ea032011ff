//! Asks a question. Uses the model of the first API key that is set, or the offline model without one.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it is a program: it prints, and reads its keys"
)]

#[tokio::main]
async fn main() -> Result<(), meerkat::Error> {
    let runtime = meerkat::Runtime::builder().secrets(|name| std::env::var(name).ok()).build()?;
    let answer = runtime.ask("say hello").await?;
    println!("{}: {}", answer.model, answer.text);
    Ok(())
}
