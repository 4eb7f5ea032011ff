//! Config documents, as TOML or as JSON.

use meerkat::{ConfigChange, Runtime, RuntimeOptions};
use serde_json::Value;

use super::{kind_of, texts};
use crate::engine::{Target, Verdict};
use crate::mutate::Style;
use crate::random::Random;

pub(super) const TARGET: Target = Target { name: "config", style: Style::Text, corpus, run };

fn corpus() -> Vec<Vec<u8>> {
    texts(&[
        "[agent]\nmodel = \"offline\"\nmax_turns = 5\ntemperature = 0.5\n\n[retry]\nmax_retries = 2\ninitial_delay = \"1s\"\n",
        r#"{"agent":{"model":"offline","max_tokens_per_turn":100,"provider_params":{"a":[1,null]}},"budget":{"max_tokens":9,"max_duration":"2m","max_tool_calls":1}}"#,
        r#"{"tools":{"default_timeout":"30s","tool_timeouts":{"look":"1h 5m"},"max_concurrent":3},"compaction":{},"retry":{"call_timeout":"disabled","multiplier":1.5}}"#,
        r#"{"self_hosted":{"servers":{"desk":{"base_url":"http://localhost:1"}},"models":{"local":{"server":"desk","remote_model":"m"}}},"providers":{"anthropic":{"base_url":"http://localhost:1"}}}"#,
        "[provider_tools]\n[models]\nanthropic = \"x\"\n[self_hosted.servers.desk]\nbase_url = 'http://localhost'\n",
    ])
}

fn run(input: &[u8], _: &mut Random) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let read = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| kind_of(&error.to_string()))
    } else {
        toml::from_str(&text).map_err(|_| "no TOML".to_owned())
    };
    let document = match read {
        Ok(Value::Object(document)) => document,
        Ok(_) => return Ok("no document".to_owned()),
        Err(kind) => return Ok(kind),
    };
    let tokio = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    tokio.block_on(async {
        let runtime = Runtime::ephemeral(RuntimeOptions::default()).map_err(|error| error.to_string())?;
        let keys = document.keys().cloned().collect::<Vec<_>>().join(",");
        let set = match runtime.config().change(ConfigChange::Set(document), None).await {
            Ok(set) => set,
            Err(error) if error.to_string().is_empty() => {
                return Err("it is rejected without a message".to_owned());
            }
            Err(error) => return Ok(kind_of(&error.to_string())),
        };
        let got = runtime.config().get().await.map_err(|error| format!("cannot read it again: {error}"))?;
        if got != set {
            return Err(format!("reading it again yields a different config: {got:?} instead of {set:?}"));
        }
        let document =
            serde_json::to_value(&got.config).map_err(|error| format!("cannot serialize it: {error}"))?;
        let Value::Object(document) = document else {
            return Err(format!("it serializes as {document}"));
        };
        let again = runtime.config().change(ConfigChange::Set(document), None).await;
        let again = again.map_err(|error| format!("the serialized config is rejected: {error}"))?;
        if format!("{:?}", again.config) != format!("{:?}", got.config) {
            return Err(format!(
                "setting the serialized config yields a different one: {:?} instead of {:?}",
                again.config, got.config
            ));
        }
        Ok(keys)
    })
}
