//! `rkat session`.

use meerkat::operations::{self, Archive, Interrupt, Operation, Read};
use meerkat::{ArchivedFilter, Clock as _, Error, Message, Runtime, SessionId, SessionQuery, SystemClock};
use meerkat_contracts::{ReadReply, SessionRequest};
use serde::Serialize;

use super::{call, former_realms, list_sessions, pairs, print_json, print_reply, warn_unreadable};
use crate::args::SessionCommand;
use crate::compose::open_known;
use crate::env;
use crate::error::CliError;
use crate::locate::Locator;
use crate::out;
use crate::render;
use crate::scope::Scope;

pub(super) async fn session(scope: &Scope, command: SessionCommand) -> Result<(), CliError> {
    match command {
        SessionCommand::List { limit, offset, labels, archived, json } => {
            let labels = pairs(&labels)?;
            let runtime = open_known(scope)?;
            former_realms::print_notice(scope);
            let archived = if archived { ArchivedFilter::Included } else { ArchivedFilter::Hidden };
            let query = SessionQuery { labels, archived, offset, limit: Some(limit) };
            list(&runtime, query, json).await?;
        }
        SessionCommand::Show { id, json } => {
            let (runtime, id) = find(scope, &id).await?;
            show(&runtime, id, json).await?;
        }
        SessionCommand::Delete { id, json } => {
            let (runtime, id) = find(scope, &id).await?;
            let done = on_session::<Archive>(&runtime, id).await?;
            print_reply(&done, &format!("archived {id}"), json);
        }
        SessionCommand::Interrupt { id, json } => {
            let (runtime, id) = find(scope, &id).await?;
            let done = on_session::<Interrupt>(&runtime, id).await?;
            print_reply(&done, &format!("interrupted {id}"), json);
        }
    }
    Ok(())
}

/// Finds a session, and opens the realm that its locator names, or the one of the command line.
async fn find(scope: &Scope, text: &str) -> Result<(Runtime, SessionId), CliError> {
    let locator = Locator::parse(text);
    if locator.realm.is_none() {
        former_realms::print_notice(scope);
    }
    let runtime = open_known(&scope.with_realm(locator.realm.as_deref()))?;
    let id = locator.find(&runtime).await?;
    Ok((runtime, id))
}

/// Calls an operation on a session. Its errors name the session.
async fn on_session<O>(runtime: &Runtime, id: SessionId) -> Result<O::Output, Error>
where
    O: Operation<Input = SessionRequest>,
{
    let done = call::<O>(runtime, SessionRequest { session_id: id }).await;
    let reference = runtime.reference(id);
    done.map_err(|source| Error::InSession { id, reference, source: Box::new(source) })
}

async fn list(runtime: &Runtime, query: SessionQuery, json: bool) -> Result<(), CliError> {
    if json {
        let (reply, unreadable) = operations::list_sessions(runtime, query).await?;
        unreadable.iter().for_each(warn_unreadable);
        print_json(&reply);
        return Ok(());
    }
    let views = list_sessions(runtime, query).await?;
    if views.is_empty() {
        out::stderr_line(&format!("no sessions in realm `{}`", runtime.realm().id()));
    } else {
        out::print(&render::sessions(&views, SystemClock.now().as_second(), env::page()));
    }
    Ok(())
}

/// A session and its messages, which are not truncated.
#[derive(Serialize)]
struct Transcript {
    #[serde(flatten)]
    session: ReadReply,
    messages: Vec<Message>,
}

async fn show(runtime: &Runtime, id: SessionId, json: bool) -> Result<(), CliError> {
    let sessions = runtime.sessions();
    if json {
        let session = on_session::<Read>(runtime, id).await?;
        let messages = sessions.history(id, 0, None).await?.messages;
        print_json(&Transcript { session, messages });
        return Ok(());
    }
    let view = sessions.read(id).await?;
    let history = sessions.history(id, 0, None).await?;
    out::print(&render::sessions(&[view], SystemClock.now().as_second(), env::page()));
    for message in &history.messages {
        out::print(&format!("\n{}", render::message(message)));
    }
    let pending = sessions.pending_calls(id).await?;
    for call in pending.calls {
        out::line(&format!("\nwaiting for the result of {} (`{}`)", call.name, call.id));
    }
    for awaited in pending.approvals {
        let (call, end) = (awaited.call, awaited.expires_at);
        out::line(&format!("\nawaiting approval of {} (`{}`) until {end}", call.name, call.id));
    }
    Ok(())
}
