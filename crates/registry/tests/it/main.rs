//! The registry over a bus in memory: every rule, text and shape that programs rely on.

#[cfg(test)]
mod api;
#[cfg(test)]
mod authors;
#[cfg(test)]
mod notices;
#[cfg(test)]
mod prompts;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod support;
