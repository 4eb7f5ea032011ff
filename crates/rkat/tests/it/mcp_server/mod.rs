//! Tests of `rkat-mcp`, one module per subject. Every test starts the built binary.

mod approvals;
mod bad_input;
mod batches;
mod crowds;
mod damage;
mod examples;
mod http;
mod http_access;
mod lifetime;
mod orphans;
mod pages;
mod pressure;
mod processes;
mod protocol;
mod realms;
mod registry;
mod resources;
mod servers;
mod sessions;
mod settings;
mod skills;
mod streams;
mod support;
mod tasks;
mod web;
mod wrong_types;
