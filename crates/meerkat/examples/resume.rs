//! Resumes a session whose process was killed.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::process::Command;

use meerkat::Runtime;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join("meerkat-example-resume");
    let runtime = Runtime::builder().model("offline").state_dir(&dir).build()?;
    if std::env::args().nth(1).as_deref() == Some("die") {
        let run = runtime.ask("say I was here before the crash").start().await?;
        println!("{}", run.session_id);
        run.answer().await?;
        // No cleanup: everything is stored already.
        std::process::abort();
    }
    let killed = Command::new(std::env::current_exe()?).arg("die").output()?;
    let id = String::from_utf8(killed.stdout)?.trim().parse()?;

    let answer = runtime.resume(id).prompt("say I am back").await?;
    let history = runtime.sessions().history(id, 0, None).await?;
    println!("{} after {} messages", answer.text, history.messages.len());
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
