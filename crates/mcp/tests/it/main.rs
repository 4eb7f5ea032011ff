//! Tests of the client with well-behaved and misbehaving servers.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod http;
#[cfg(test)]
mod loading;
#[cfg(test)]
mod many;
#[cfg(test)]
mod support;
