//! No process started by an agent's MCP server survives the server, however it exits.

#![cfg(target_os = "linux")]

use std::fs;

use meerkat_testkit::{ForkingServer, McpClient};

use super::support::{TestEnv, new_session};

/// Number of times each way of exiting is tested.
const REPEATS: usize = 20;

/// Stops a server whose agents use an MCP server with child processes, and checks that none survives.
fn assert_no_leftovers(end: fn(McpClient)) {
    for _ in 0..REPEATS {
        let env = TestEnv::new();
        let forks = ForkingServer::new(&env.path(""));
        fs::create_dir_all(env.path(".rkat")).unwrap();
        fs::write(env.path(".rkat/mcp.toml"), forks.toml("forks")).unwrap();
        let mut client = env.server();
        new_session(&mut client, "say hi");
        forks.await_all();
        end(client);
        forks.assert_none_left();
    }
}

#[test]
fn closed_server_leaves_no_processes() {
    assert_no_leftovers(|client| assert!(client.close().success()));
}

#[test]
fn killed_server_leaves_no_processes() {
    assert_no_leftovers(McpClient::kill);
}
