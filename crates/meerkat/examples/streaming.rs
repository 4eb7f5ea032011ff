//! Prints an answer while the model writes it.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use meerkat::{AgentEvent, Runtime};

#[tokio::main]
async fn main() -> Result<(), meerkat::Error> {
    let runtime = Runtime::builder().model("offline").build()?;
    let mut run = runtime.ask("say one word after the other").start().await?;
    while let Some(event) = run.events.next().await {
        match &event.payload {
            AgentEvent::TextDelta { delta } => print!("{delta}"),
            AgentEvent::RunCompleted { .. } => println!(),
            _ => {}
        }
    }
    println!("{} tokens", run.answer().await?.usage.total());
    Ok(())
}
