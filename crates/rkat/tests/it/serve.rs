//! `rkat serve`: an MCP server over HTTP, until a signal ends it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Rkat;

#[test]
#[cfg(unix)]
fn a_realm_is_served_until_a_signal() {
    let rkat = Rkat::new();
    let session = rkat.session("say hello");
    let mut command = rkat.command(Path::new(env!("CARGO_BIN_EXE_rkat")));
    let mut child = command
        .args(["serve", "--no-hub", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once("listening on http://").unwrap().1.strip_suffix("/mcp").unwrap();
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{{"_meta":{meta}}}}}"#);
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.0\r\nhost: {address}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: resources/list\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(&format!("meerkat://session/{session}")), "{answer}");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_address_that_others_can_reach_needs_a_token() {
    let rkat = Rkat::new();
    let done = rkat.args(["serve", "--listen", "0.0.0.0:0"]).run();
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("needs a token"), "{}", done.stderr);
    assert!(done.stderr.trim_end().ends_with("[INVALID_PARAMS]"), "{}", done.stderr);
}

#[test]
fn an_address_or_a_token_file_that_is_none_exits_as_documented() {
    let rkat = Rkat::new();
    for arguments in [["--listen", "nowhere"], ["--token-file", "no-such-file"]] {
        let done = rkat.args(["serve", arguments[0], arguments[1]]).run();
        assert_eq!(done.code, Some(2), "{arguments:?}: {}", done.stderr);
        assert!(done.stderr.contains("[INVALID_PARAMS]"), "{arguments:?}: {}", done.stderr);
    }
}
