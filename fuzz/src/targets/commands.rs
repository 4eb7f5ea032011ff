//! The commands of the offline model.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use meerkat_core::{Content, Message, Model as _, ModelRequest, Timestamp};
use meerkat_providers::OfflineModel;
use meerkat_providers::fuzzing::commands;

use super::{kind_of, streams, texts};
use crate::engine::{Target, Verdict};
use crate::mutate::Style;
use crate::random::Random;

pub(super) const TARGET: Target = Target { name: "commands", style: Style::Text, corpus, run };

fn corpus() -> Vec<Vec<u8>> {
    texts(&[
        "say hello\nthink hm\ncall look {\"x\": 1}\ncall look{}\nthen\nsay done",
        "> SAY quoted\nfail rate_limited 2\nfail nothing\nfail\nwait 10\nwait long",
        "json {\"a\": [1, 2]}\njson not json\ncall a b\ncall \ncall x [1]",
        "what tools do you have?",
        "then\nthen\nsay a\nthen\ncall x {\"a\":{\"b\":null}}\n",
    ])
}

fn run(input: &[u8], _: &mut Random) -> Verdict {
    let prompt = String::from_utf8_lossy(input).into_owned();
    let understood = commands(&prompt);
    if understood != commands(&prompt) {
        return Err("parsing twice yields different commands".to_owned());
    }
    // Waiting is covered by the tests.
    if understood.contains("Wait(") {
        return Ok("waits".to_owned());
    }
    let message = Message::User { content: Content::text(prompt), created_at: Timestamp::UNIX_EPOCH };
    let request = ModelRequest {
        system: String::new(),
        messages: vec![Arc::new(message)],
        tools: Arc::default(),
        max_tokens: 1000,
        temperature: None,
        output_schema: None,
        provider_params: None,
    };
    let model = OfflineModel::new();
    let mut response = model.generate(&request, &|_| {});
    match response.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => Err("it waits without a command to do so".to_owned()),
        Poll::Ready(Ok(answer)) => {
            let shape = streams::shape(&answer);
            streams::follow(answer)?;
            Ok(shape)
        }
        Poll::Ready(Err(error)) if error.message.is_empty() => Err(format!("{error:?} has no message")),
        Poll::Ready(Err(error)) => Ok(format!("{:?} {}", error.kind, kind_of(&error.message))),
    }
}
