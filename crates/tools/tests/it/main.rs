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
mod ignored;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod odd_files;
#[cfg(test)]
mod patches;
#[cfg(test)]
mod redacted;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod secrets;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tasks;
