//! What a command may reach.

use std::path::PathBuf;

use meerkat_process::{Confinement, Hiding, Reach};

use crate::secrets::Secrets;

/// What commands may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Everything that the user may.
    Off,
    /// They change the workspace and temporary files, read the rest but for secrets, and reach nobody.
    #[default]
    Workspace,
    /// The same, and they reach the network.
    Network,
}

/// The places that matter to a sandbox.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub(super) workspace: PathBuf,
    pub(super) temporary: PathBuf,
}

impl Sandbox {
    /// Says how a command is confined.
    pub(super) fn confinement(
        self,
        places: &Places,
        secrets: &Secrets,
        hiding: Hiding,
    ) -> Option<Confinement> {
        let reach = match self {
            Self::Off => return None,
            Self::Workspace => Reach::Nobody,
            Self::Network => Reach::Internet,
        };
        Some(Confinement {
            readable: vec![PathBuf::from("/")],
            writable: vec![places.workspace.clone(), places.temporary.clone()],
            hidden: secrets.places(&places.workspace),
            secret: (places.workspace.clone(), secrets.names().clone()),
            hiding,
            reach,
        })
    }
}
