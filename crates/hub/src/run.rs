//! Runs functions of this process: those of the embedder, and those of the hub that need more than the core's state.

use std::sync::{OnceLock, Weak};

use serde_json::Value;

use crate::channels::Channels;
use crate::core::Run;
use crate::error::CallError;
use crate::guarded::{Connections, Guarded};
use crate::local::{Handler, Invocation, run_handler};
use crate::state::{Changed, ReservedScopes, State, check_scope};

/// The hub's services for functions of this process, which do not keep the hub alive.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) connections: Weak<dyn Connections>,
    pub(crate) state: State,
    pub(crate) channels: Channels,
    pub(crate) reserved_scopes: OnceLock<ReservedScopes>,
}

impl Services {
    /// Runs a function; also returns the change of the state that it made.
    pub(crate) async fn run(
        &self,
        run: Run,
        handler: Option<Handler>,
    ) -> Result<(Value, Option<Changed>), CallError> {
        let Run { function_id, data, caller, guarded, .. } = run;
        let data: Value = serde_json::from_str(&data).unwrap_or_default();
        let guarded =
            guarded.map(|(peer, grant)| Guarded::new(peer, caller, &grant, self.connections.clone()));
        if let Some(handler) = handler {
            let caller = caller.map(|id| id.to_string());
            let invocation = Invocation { function_id, data, caller, guarded };
            return run_handler(handler, invocation).await.map(|value| (value, None));
        }
        if function_id == "engine::channels::create" {
            return self.channels.create(&data).map(|value| (value, None));
        }
        if guarded.is_some() {
            check_scope(&function_id, &data, self.reserved_scopes.get()).await?;
        }
        self.state.run(&function_id, data).await
    }
}
