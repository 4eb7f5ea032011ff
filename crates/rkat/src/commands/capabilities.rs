//! `rkat capabilities`.

use meerkat::{Backend, Config, ErrorKind, RealmManifest};
use meerkat_contracts::CapabilityReport;

use crate::compose::open;
use crate::error::CliError;
use crate::out;
use crate::scope::Scope;

/// Returns the capabilities of this build for the realm's config, or for the default config if no store can be read.
pub(super) async fn capabilities(scope: &Scope) -> Result<CapabilityReport, CliError> {
    scope.check_known()?;
    match stored(scope).await {
        Ok(Some(report)) => return Ok(report),
        Ok(None) => {}
        Err(error) => {
            out::warn(format_args!("{}; the report is for the default config", error.body().message));
        }
    }
    Ok(meerkat::capabilities(&Config::default(), scope.flags.backend.unwrap_or(Backend::Sqlite)))
}

/// Returns the report for the realm's config, or `None` if nothing is stored.
async fn stored(scope: &Scope) -> Result<Option<CapabilityReport>, CliError> {
    // Without a state root, no store exists.
    let Ok(options) = scope.options() else { return Ok(None) };
    match RealmManifest::read(&options.state_root, &options.realm) {
        // Only a realm that does not exist is reported as invalid parameters.
        Err(error) if error.kind() == ErrorKind::InvalidParams => Ok(None),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Some(open(scope)?.capabilities().await?)),
    }
}
