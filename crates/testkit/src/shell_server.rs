//! An MCP server with one tool in a few lines of shell, for tests of code that starts servers.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Script of the server; it appends a line to `started` in its working directory each time it starts.
const SCRIPT: &str = r#"
echo $$ >> started
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"greet","description":"Greets the caller, in the words of the server.","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) result='{"content":[{"type":"text","text":"hello from the server"}]}' ;;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id"; continue ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// The server's script in a test directory.
#[derive(Debug)]
pub struct ShellServer {
    dir: PathBuf,
}

impl ShellServer {
    /// The script, for servers that do more.
    pub(crate) const SCRIPT: &str = SCRIPT;

    /// Writes the script into a directory.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        std::fs::write(dir.join("server.sh"), SCRIPT).expect("the script can be written");
        Self { dir: dir.to_owned() }
    }

    /// Returns its entry, under this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Value {
        let script = self.dir.join("server.sh");
        json!({ "name": name, "command": "/bin/sh", "args": [script], "env": { "PATH": "/usr/bin:/bin" } })
    }

    /// Returns its entry for an MCP config file.
    #[must_use]
    pub fn toml(&self, name: &str) -> String {
        let script = self.dir.join("server.sh");
        format!(
            "[[servers]]\nname = \"{name}\"\ncommand = \"/bin/sh\"\nargs = [{script:?}]\nenv = {{ PATH = \"/usr/bin:/bin\" }}\n"
        )
    }

    /// Returns how many times a server was started in a directory.
    #[must_use]
    pub fn starts_in(dir: &Path) -> usize {
        std::fs::read_to_string(dir.join("started")).map_or(0, |text| text.lines().count())
    }
}
