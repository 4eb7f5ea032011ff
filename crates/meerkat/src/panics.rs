//! Containment of panics in code of the embedder: models, tools, listeners, and hooks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs a future. A panic ends it, and is returned as the reason.
pub async fn contain<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    std::future::poll_fn(move |context| {
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)))
            .map_or_else(|panic| Poll::Ready(Err(reason(&*panic))), |poll| poll.map(Ok))
    })
    .await
}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.map_or_else(|| "panicked".to_owned(), |text| format!("panicked: {text}"))
}
