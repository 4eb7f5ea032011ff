//! `rkat-mcp`: Meerkat as an MCP server, over stdio or HTTP.

fn main() -> std::process::ExitCode {
    rkat::serve_mcp()
}
