//! Tests of the guarantees for skill authors and callers.

#[cfg(test)]
mod blocking;
#[cfg(test)]
mod catalog;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod ignored;
#[cfg(test)]
mod install;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod rescan;
#[cfg(test)]
mod skill_tool;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod views;
#[cfg(test)]
mod watching;
