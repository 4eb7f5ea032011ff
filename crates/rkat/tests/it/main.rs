//! Tests of `rkat` and, in `mcp_server`, of `rkat-mcp`: output, exit codes, the protocol, and the commands in the
//! documentation. Every test runs a built binary in a separate directory.

#[cfg(test)]
mod approvals;
#[cfg(test)]
mod backups;
#[cfg(test)]
mod blobs;
#[cfg(test)]
mod capabilities;
#[cfg(test)]
mod cleanup;
#[cfg(test)]
mod completions;
#[cfg(test)]
mod config;
#[cfg(test)]
mod disks;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod logins;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod mcp_server;
#[cfg(test)]
mod oauth;
#[cfg(test)]
mod parity;
#[cfg(test)]
mod pipes;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod projects;
#[cfg(test)]
mod prompts;
#[cfg(test)]
mod providers;
#[cfg(test)]
mod realms;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod skill_serve;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod support;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(test)]
mod tools;
