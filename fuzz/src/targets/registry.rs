//! Registrations of workers, and the URIs by which they are read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meerkat_core::{BoxFuture, Clock, Timestamp};
use meerkat_registry::{Bus, BusError, Options, Registry, Reply, description, functions, parse, title};
use serde_json::{Value, json};

use super::{kind_of, texts};
use crate::engine::{Target, Verdict};
use crate::mutate::Style;
use crate::random::Random;

pub(super) const TARGET: Target = Target { name: "registry", style: Style::Text, corpus, run };

fn corpus() -> Vec<Vec<u8>> {
    texts(&[
        r##"{"id":"demo","skill":"# Demo\n\nA demo.\n"}"##,
        r#"{"name":"greet","description":"Greet.","arguments":[{"name":"to","required":true},{"name":"cc","description":null}],"function_id":"demo::greet"}"#,
        r#"{"uri":"iii://demo/demo::guide"}"#,
        r#"{"uri":"iii://skills"}"#,
        r#"{"name":"greet","arguments":{"to":"Ada"}}"#,
        "iii://demo/demo::guide",
        "iii://a/b/c",
        "# One\n\nThe first\n  paragraph, which goes on.\n\n## Two\n#three\n",
        "[]",
        "null",
    ])
}

/// Every function call is answered or rejected with a message, and registered entries can be read again. A URI is
/// parsed and built again, and an error names it; a title and a description are parts of their text.
fn run(input: &[u8], _: &mut Random) -> Verdict {
    let text = String::from_utf8_lossy(input);
    if let Err(error) = parse(&text)
        && !error.to_string().ends_with(&meerkat_core::excerpt(&text))
    {
        return Err(format!("{error} does not contain the URI"));
    }
    if title(&text).is_some_and(|title| title.trim() != title || !text.contains(title)) {
        return Err("the title is not in the text".to_owned());
    }
    if let Some(long) = description(&text).filter(|found| found.is_empty() || found.chars().count() > 143) {
        return Err(format!("a description is empty or too long: {long:?}"));
    }
    let Ok(data) = serde_json::from_str::<Value>(&text) else { return Ok("text".to_owned()) };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return Err("cannot build a runtime".to_owned());
    };
    runtime.block_on(all_functions(&data))
}

async fn all_functions(data: &Value) -> Verdict {
    let registry = Registry::new(Arc::new(Values::default()), Arc::new(Stopped), Options::default());
    let mut seen = String::new();
    for function in functions() {
        match registry.call(function.id, data.clone()).await {
            Ok(answer) if !answer.is_object() => return Err(format!("{} returned {answer}", function.id)),
            Ok(_) => seen.push('+'),
            Err(error) if error.to_string().is_empty() => {
                return Err(format!("{} failed without a message", function.id));
            }
            Err(error) => {
                seen = format!("{seen}{}", kind_of(&error.to_string()).chars().take(8).collect::<String>())
            }
        }
    }
    // Register the id again after the removal; a list of the fields is also accepted, and has no names.
    let registered = registry.call("skills::register", data.clone()).await.is_ok();
    if let Some(id) = data["id"].as_str().filter(|_| registered) {
        let uri = format!("iii://{id}");
        let read = registry.read(&uri).await;
        let same = read.as_ref().is_ok_and(|(_, text)| Some(text.as_str()) == data["skill"].as_str());
        if !same && uri != "iii://skills" {
            return Err(format!("{uri} reads as {read:?}"));
        }
    }
    Ok(seen)
}

/// In-memory values, and functions that return their input.
#[derive(Default)]
struct Values(Mutex<BTreeMap<(String, String), Value>>);

impl Values {
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut BTreeMap<(String, String), Value>) -> T,
    ) -> Reply<'_, T> {
        let done = work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(async { Ok::<T, BusError>(done) })
    }
}

impl Bus for Values {
    fn call<'a>(&'a self, _: &'a str, data: Value, _: Duration) -> Reply<'a, Value> {
        Box::pin(async move { Ok(json!({ "content": data.to_string() })) })
    }

    fn send(&self, _: &str, _: Value) {}

    fn get<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>> {
        self.with(|values| values.get(&(scope.to_owned(), key.to_owned())).cloned())
    }

    fn set<'a>(&'a self, scope: &'a str, key: &'a str, value: Value) -> Reply<'a, ()> {
        self.with(|values| drop(values.insert((scope.to_owned(), key.to_owned()), value)))
    }

    fn delete<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>> {
        self.with(|values| values.remove(&(scope.to_owned(), key.to_owned())))
    }

    fn list<'a>(&'a self, scope: &'a str) -> Reply<'a, Vec<Value>> {
        self.with(|values| values.iter().filter(|((of, _), _)| of == scope).map(|(_, v)| v.clone()).collect())
    }
}

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
