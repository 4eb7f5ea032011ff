//! Delivery of change notifications: to clients of older revisions on their session, to modern ones on a separate
//! stream.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RoleServer, ServiceError, SubscriptionContext};
use tokio::time::Instant;

use super::notifier::{Interest, MAX_URI, MAX_WATCHED, Subscription};
use super::{ChangeNotification, Notifier};

/// Minimum interval between notifications of a client; repeated changes are merged in the meantime.
const INTERVAL: Duration = Duration::from_millis(200);

/// Forwards changes to a client of an older revision until it disconnects.
pub(super) async fn forward_changes(membership: Arc<Subscription>, peer: Peer<RoleServer>) {
    let mut pause = Instant::now();
    loop {
        membership.wait().await;
        tokio::time::sleep_until(pause).await;
        while let Some(notice) = membership.take() {
            let sent = match notice {
                ChangeNotification::Tools => peer.notify_tool_list_changed().await,
                ChangeNotification::Prompts => peer.notify_prompt_list_changed().await,
                ChangeNotification::Resources => peer.notify_resource_list_changed().await,
                ChangeNotification::Updated(uri) => {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
                }
            };
            if matches!(sent, Err(ServiceError::TransportClosed)) {
                return;
            }
        }
        pause = Instant::now() + INTERVAL;
    }
}

/// Returns the filter granted to a client: the one it requests, or an empty one if it requests too much.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    if is_too_much(requested) { SubscriptionFilter::default() } else { requested.clone() }
}

/// Forwards changes to a modern client until it cancels the subscription.
pub(super) async fn listen(notices: &Notifier, context: &SubscriptionContext) -> Result<(), ErrorData> {
    if is_too_much(context.requested()) {
        return Err(limit_error());
    }
    let membership = notices.join(wanted(context.accepted()));
    loop {
        let notice = tokio::select! {
            notice = membership.next() => notice,
            () = context.cancelled() => return Ok(()),
        };
        let sink = context.sink();
        let sent = match notice {
            ChangeNotification::Tools => sink.notify_tool_list_changed().await,
            ChangeNotification::Prompts => sink.notify_prompt_list_changed().await,
            ChangeNotification::Resources => sink.notify_resource_list_changed().await,
            ChangeNotification::Updated(uri) => sink.notify_resource_updated(uri).await,
        };
        if sent.is_err() {
            return Ok(());
        }
    }
}

/// Returns the error for a subscription over the limit.
pub(super) fn limit_error() -> ErrorData {
    let message = format!(
        "a client may watch at most {MAX_WATCHED} resources, with URIs of at most {MAX_URI} bytes; unsubscribe from some \
         first"
    );
    ErrorData::invalid_params(message, None)
}

fn is_too_much(filter: &SubscriptionFilter) -> bool {
    filter
        .resource_subscriptions
        .as_ref()
        .is_some_and(|uris| uris.len() > MAX_WATCHED || uris.iter().any(|uri| uri.len() > MAX_URI))
}

fn wanted(filter: &SubscriptionFilter) -> Interest {
    let kinds = [
        (ChangeNotification::Tools, filter.tools_list_changed),
        (ChangeNotification::Prompts, filter.prompts_list_changed),
        (ChangeNotification::Resources, filter.resources_list_changed),
    ];
    let kinds = kinds.into_iter().filter(|(_, requested)| *requested == Some(true)).map(|(kind, _)| kind);
    let uris = filter.resource_subscriptions.iter().flatten().cloned();
    Interest { kinds: kinds.collect(), uris: uris.collect() }
}
