//! Programs in the sandbox, with every profile that this system supports.
#![cfg(target_os = "linux")]

#[cfg(test)]
mod attempts;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod missing;
#[cfg(test)]
mod races;
#[cfg(test)]
mod reach;
#[cfg(test)]
mod starts;
#[cfg(test)]
mod support;
#[cfg(test)]
mod uses;
