//! `rkat capabilities`.

use meerkat::{Backend, Config, ErrorKind, RealmManifest};
use meerkat_contracts::CapabilityReport;

use super::{check_known, open};
use crate::args::ScopeArgs;
use crate::env;
use crate::error::CliError;
use crate::out;

/// Returns the capabilities of this build for the realm's config, or for the default config if no store can be read.
pub(super) async fn capabilities(args: &ScopeArgs) -> Result<CapabilityReport, CliError> {
    check_known(args)?;
    match stored(args).await {
        Ok(Some(report)) => return Ok(report),
        Ok(None) => {}
        Err(error) => {
            out::stderr_line(&format!(
                "warning: {}; the report is for the default config",
                error.body().message
            ));
        }
    }
    Ok(meerkat::capabilities(&Config::default(), args.realm_backend.unwrap_or(Backend::Sqlite)))
}

/// Returns the report for the realm's config, or `None` if nothing is stored.
async fn stored(args: &ScopeArgs) -> Result<Option<CapabilityReport>, CliError> {
    let (scope, unnamed) = args.scope();
    // Without a state root, no store exists.
    let Ok(options) = scope.options(unnamed, &env::system_dirs(), "rkat") else { return Ok(None) };
    match RealmManifest::read(&options.state_root, &options.realm) {
        // Only a realm that does not exist is reported as invalid parameters.
        Err(error) if error.kind() == ErrorKind::InvalidParams => Ok(None),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Some(open(args)?.capabilities().await?)),
    }
}
