//! Requests a value of a type instead of text. An answer that does not match is requested again.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use meerkat::Runtime;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
enum Verdict {
    Accept,
    Reject,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Review {
    verdict: Verdict,
    /// One sentence for each bug.
    bugs: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), meerkat::Error> {
    // The offline model invents a value that matches the type.
    let runtime = Runtime::builder().model("offline").build()?;
    let review: Review = runtime.ask("review: fn half(x: i32) -> i32 { x / 2 }").output().await?;
    println!("{:?} with {} bugs", review.verdict, review.bugs.len());
    Ok(())
}
