//! Integration tests of the library: servers in this process. `rkat` has those of its binary.

#[cfg(test)]
mod limits;
