//! Multi-round requests: the server returns questions, and the client repeats the request with answers.

use std::collections::BTreeMap;

use meerkat_mcp_server::protocol::Request;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ElicitResult, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, InputRequest, InputRequiredResult, InputResponses, PromptMessage, Role,
};
use serde_json::{Value, json};

use crate::content::text;
use crate::questions::{elicitation, sampling};

/// Questions of a tool, by round, and whether it carries state between rounds.
struct Script {
    rounds: Vec<Vec<(&'static str, Value)>>,
    state: bool,
}

pub(crate) fn call(call: &CallToolRequestParams, request: &Request) -> Result<CallToolResponse, ErrorData> {
    let script = script(&call.name, request);
    match play(&script, call.request_state.as_deref(), call.input_responses.as_ref(), request)? {
        Step::Ask(questions) => Ok(questions.into()),
        Step::Done(answers) => Ok(text(format!("state-ok {}", json!(answers))).into()),
    }
}

pub(crate) fn prompt(
    get: &GetPromptRequestParams,
    request: &Request,
) -> Result<GetPromptResponse, ErrorData> {
    let question = ask("What should it be about?", "context");
    let script = Script { rounds: vec![vec![("user_context", question)]], state: false };
    match play(&script, get.request_state.as_deref(), get.input_responses.as_ref(), request)? {
        Step::Ask(questions) => Ok(questions.into()),
        Step::Done(answers) => {
            let message = PromptMessage::new_text(Role::User, format!("About {}", json!(answers)));
            Ok(GetPromptResult::new(vec![message]).into())
        }
    }
}

enum Step {
    Ask(InputRequiredResult),
    Done(BTreeMap<String, Value>),
}

/// Accepts the answers of the previous round and asks the next questions.
fn play(
    script: &Script,
    state: Option<&str>,
    responses: Option<&InputResponses>,
    request: &Request,
) -> Result<Step, ErrorData> {
    let mut answers: BTreeMap<String, Value> = match state {
        Some(sealed) => request.open(sealed)?,
        None => BTreeMap::new(),
    };
    for (key, question) in script.rounds.iter().flatten() {
        let answer = responses.and_then(|responses| responses.get(*key));
        if let Some(answer) = answer.filter(|answer| fits(question, answer)) {
            answers.insert((*key).to_owned(), answer.clone());
        }
    }
    let open = script.rounds.iter().find(|round| round.iter().any(|(key, _)| !answers.contains_key(*key)));
    let Some(round) = open else { return Ok(Step::Done(answers)) };
    let mut questions = BTreeMap::new();
    for (key, question) in round {
        questions.insert((*key).to_owned(), input(question.clone())?);
    }
    let state = if script.state { Some(request.seal(&answers)?) } else { None };
    Ok(Step::Ask(InputRequiredResult::new(Some(questions), state)))
}

/// Returns `true` if an answer matches the question; an incomplete form is requested again.
fn fits(question: &Value, answer: &Value) -> bool {
    if question["method"] != "elicitation/create" {
        return answer.is_object();
    }
    let Ok(form) = serde_json::from_value::<ElicitResult>(answer.clone()) else { return false };
    let content = form.content.unwrap_or_default();
    let required = question["params"]["requestedSchema"]["required"].as_array();
    let is_present =
        |name: &Value| content.get(name.as_str().unwrap_or_default()).is_some_and(|value| !value.is_null());
    answer["action"] != "accept" || required.is_none_or(|names| names.iter().all(is_present))
}

pub(crate) fn input(question: Value) -> Result<InputRequest, ErrorData> {
    serde_json::from_value(question).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

pub(crate) fn ask(message: &str, field: &str) -> Value {
    elicitation(message, json!({ field: { "type": "string" } }), &[field])
}

fn script(name: &str, request: &Request) -> Script {
    let roots = || json!({ "method": "roots/list", "params": {} });
    let confirm = || elicitation("Continue?", json!({ "ok": { "type": "boolean" } }), &["ok"]);
    let once = |questions: Vec<(&'static str, Value)>| vec![questions];
    let (rounds, state) = match name {
        "test_input_required_result_sampling" => {
            (once(vec![("capital_question", sampling("What is the capital of France?", 100))]), false)
        }
        "test_input_required_result_list_roots" => (once(vec![("client_roots", roots())]), false),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            (once(vec![("confirm", confirm())]), true)
        }
        "test_input_required_result_multiple_inputs" => {
            let name = ask("What is your name?", "name");
            let greeting = sampling("Generate a greeting", 50);
            (once(vec![("user_name", name), ("greeting", greeting), ("client_roots", roots())]), true)
        }
        "test_input_required_result_multi_round" => {
            let first = ask("Step 1: What is your name?", "name");
            let second = ask("Step 2: What is your favorite color?", "color");
            (vec![vec![("step1", first)], vec![("step2", second)]], true)
        }
        "test_input_required_result_capabilities" => (once(possible(request)), false),
        _ => (once(vec![("user_name", ask("What is your name?", "name"))]), false),
    };
    Script { rounds, state }
}

/// Returns only questions that the client can answer.
fn possible(request: &Request) -> Vec<(&'static str, Value)> {
    let client = request.client();
    let mut questions = Vec::new();
    if client.elicitation.is_some() {
        questions.push(("user_name", ask("What is your name?", "name")));
    }
    if client.sampling.is_some() {
        questions.push(("greeting", sampling("Generate a greeting", 50)));
    }
    if client.roots.is_some() {
        questions.push(("client_roots", json!({ "method": "roots/list", "params": {} })));
    }
    questions
}
