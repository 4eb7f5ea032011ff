//! Integration tests of `rkat-mcp`: one binary, one module per subject. Every test talks to a real process.

#[cfg(test)]
mod approvals;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod crowds;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod http;
#[cfg(test)]
mod http_access;
#[cfg(test)]
mod lifetime;
#[cfg(test)]
mod orphans;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod pressure;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod realms;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod resources;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod web;
#[cfg(test)]
mod wrong_types;
