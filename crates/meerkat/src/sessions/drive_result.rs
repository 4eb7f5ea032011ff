//! Result of driving a run, before it is turned into an outcome for the caller.

use meerkat_core::run::RunReport;

use crate::Error;

/// Result of driving a run.
pub(super) enum DriveResult {
    /// The run ended with a report.
    Ended(RunReport),
    /// The run failed before anything was durable.
    Rejected(Error),
    /// The run stopped midway because it could not be stored.
    NotPersisted(Error),
}
