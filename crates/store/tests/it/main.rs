//! Integration tests of the store: one binary, with one module per subject.

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod agreement;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod backups;
#[cfg(test)]
mod conformance;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod processes;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod realms;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
mod support;
