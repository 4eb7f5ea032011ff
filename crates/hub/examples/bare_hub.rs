//! A hub with only a few functions, for tests with third-party SDKs.
//!
//! `bare_hub ADDRESS [TOKEN]` listens until it is killed or its standard input ends, and prints its address to stderr.
//! `echo::back` returns its input, and `test::on-change` fires with the input of `test::fire`.

#[path = "../tests/it/store.rs"]
mod store;

use std::process::ExitCode;
use std::sync::Arc;

use meerkat_hub::{Access, Hub, HubOptions, LocalFunction, LocalTriggerType, bind};
use serde_json::Value;
use store::MemoryStore;
use tokio::io::AsyncReadExt as _;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| meerkat_hub::DEFAULT_ADDRESS.to_owned());
    match run(&address, arguments.next()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(address: &str, token: Option<String>) -> Result<(), meerkat_hub::HubError> {
    let mut options = HubOptions::new(Arc::new(MemoryStore::default()));
    options.log = Some(Arc::new(|text: &str| print_line(text)));
    let hub = Hub::new(options);
    hub.register(LocalFunction::new("echo::back", |call| async move { Ok(call.data) }))?;
    let (id, description) = ("test::on-change".to_owned(), "Fires when test::fire is called.".to_owned());
    hub.register_trigger_type(LocalTriggerType { id, description, host: None })?;
    let firing = hub.clone();
    hub.register(LocalFunction::new("test::fire", move |call| {
        firing.fire("test::on-change", &call.data);
        async { Ok(Value::Null) }
    }))?;
    let access = Access { token, ..Access::default() };
    let listener = bind(address, &access)?;
    let local = listener.local_addr().map_or_else(|_| address.to_owned(), |local| local.to_string());
    print_line(&format!("bare_hub: listening on ws://{local}"));
    hub.serve(listener, access, async {
        // The parent process has exited, or has closed stdin to stop the hub.
        let _ = tokio::io::stdin().read(&mut [0]).await;
    })
    .await;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "it is a program")]
fn print_line(text: &str) {
    eprintln!("{text}");
}
