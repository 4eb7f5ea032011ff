//! Resources that a command can access.

use std::path::PathBuf;

use meerkat_process::{NetworkAccess, SandboxSpec, SecretMasking};

use crate::secrets::Secrets;

/// Sandbox mode of commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// No restrictions beyond the user's own.
    Off,
    /// Commands can modify the workspace and temporary files, read everything except secrets, and have no network
    /// access.
    #[default]
    Workspace,
    /// The same, with network access.
    Network,
}

/// The paths that a sandbox needs.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub(super) workspace: PathBuf,
    pub(super) temporary: PathBuf,
}

impl Sandbox {
    /// Returns the sandbox of a command.
    pub(super) fn confinement(
        self,
        places: &Places,
        secrets: &Secrets,
        hiding: SecretMasking,
    ) -> Option<SandboxSpec> {
        let reach = match self {
            Self::Off => return None,
            Self::Workspace => NetworkAccess::Nobody,
            Self::Network => NetworkAccess::Internet,
        };
        Some(SandboxSpec {
            readable: vec![PathBuf::from("/")],
            writable: vec![places.workspace.clone(), places.temporary.clone()],
            hidden: secrets.existing_paths(&places.workspace),
            secret: (places.workspace.clone(), secrets.names().clone()),
            hiding,
            reach,
        })
    }
}
