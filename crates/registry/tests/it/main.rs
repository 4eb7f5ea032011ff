//! The registry on an in-memory bus: every rule, text, and data format that workers rely on.

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
