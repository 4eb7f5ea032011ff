//! What the client does with servers that behave and with servers that do not.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod http;
#[cfg(test)]
mod loading;
#[cfg(test)]
mod support;
