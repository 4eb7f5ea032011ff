//! The tools as a run calls them.

#[cfg(test)]
mod definitions;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod escapes;
#[cfg(test)]
mod files;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod patches;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod secrets;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tasks;
