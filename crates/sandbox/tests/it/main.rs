//! Programs in the sandbox, with every profile that this system supports.
#![cfg(target_os = "linux")]

mod attempts;
mod lives;
mod missing;
mod reach;
mod starts;
mod support;
mod uses;
