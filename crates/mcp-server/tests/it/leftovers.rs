//! However the server ends, nothing that an MCP server of its agents started is left.

#![cfg(target_os = "linux")]

use std::fs;

use meerkat_testkit::{Forks, McpClient};

use crate::support::{Place, new_session};

/// How often each ending is tried.
const TIMES: usize = 20;

/// Ends a server whose agents have a server that started programs of its own.
fn leaves_nothing(end: fn(McpClient)) {
    for _ in 0..TIMES {
        let place = Place::new();
        let forks = Forks::new(&place.beside(""));
        fs::create_dir_all(place.beside(".rkat")).unwrap();
        fs::write(place.beside(".rkat/mcp.toml"), forks.toml("forks")).unwrap();
        let mut client = place.server();
        new_session(&mut client, "say hi");
        forks.await_all();
        end(client);
        forks.assert_none_left();
    }
}

#[test]
fn a_server_whose_input_is_closed_leaves_nothing() {
    leaves_nothing(|client| assert!(client.close().success()));
}

#[test]
fn a_killed_server_leaves_nothing() {
    leaves_nothing(McpClient::kill);
}
