//! Functions of this process: each call runs in a separate task.

use std::sync::Weak;

use serde_json::Value;

use crate::channels::Channels;
use crate::core::Run;
use crate::error::CallError;
use crate::guarded::Guarded;
use crate::hub::{ReservedScopes, Shared};
use crate::local::{Handler, Invocation, run_handler};
use crate::state::{Changed, State, check_scope};

/// The hub's services that a call needs, without keeping the hub alive.
struct Runner {
    hub: Weak<Shared>,
    state: State,
    channels: Channels,
    reserved: Option<ReservedScopes>,
}

impl Shared {
    /// Starts a function of this process; the core is notified when it ends.
    pub(crate) fn start(&self, run: Run, handler: Option<Handler>) {
        let runner = Runner {
            hub: self.queues.hub(),
            state: self.state.clone(),
            channels: self.channels.clone(),
            reserved: self.reserved_scopes.get().cloned(),
        };
        tokio::spawn(async move {
            let id = run.id;
            let outcome = runner.run(run, handler).await;
            let Some(hub) = runner.hub.upgrade() else { return };
            let (result, changed) = match outcome {
                Ok((value, changed)) => (Ok((!value.is_null()).then(|| value.to_string())), changed),
                Err(error) => (Err(error), None),
            };
            hub.act(|core| core.finish(id, result));
            if let Some(changed) = changed {
                hub.notify_state_change(&changed);
            }
        });
    }
}

impl Runner {
    async fn run(&self, run: Run, handler: Option<Handler>) -> Result<(Value, Option<Changed>), CallError> {
        let Run { function_id, data, caller, guarded, .. } = run;
        let data: Value = serde_json::from_str(&data).unwrap_or_default();
        let guarded = guarded.map(|(peer, grant)| Guarded::new(peer, caller, &grant, self.hub.clone()));
        if let Some(handler) = handler {
            let caller = caller.map(|id| id.to_string());
            let invocation = Invocation { function_id, data, caller, guarded };
            return run_handler(handler, invocation).await.map(|value| (value, None));
        }
        if function_id == "engine::channels::create" {
            return self.channels.create(&data).map(|value| (value, None));
        }
        if guarded.is_some() {
            check_scope(&function_id, &data, self.reserved.as_ref()).await?;
        }
        self.state.run(&function_id, data).await
    }
}
