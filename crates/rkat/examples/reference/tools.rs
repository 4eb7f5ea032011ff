//! Page of the MCP server's tools, which are the operations of the facade.

use serde_json::Value;

use crate::fields::rows;
use crate::table;

pub(crate) fn page() -> String {
    let tools = meerkat_mcp_server::tools_list();
    let mut page = "# Tools\n\n\
        `rkat-mcp` provides these tools. A result is one text block with a JSON object, and the same object as \
        structured content. In a request, an omitted field and a `null` field mean the same. \
        [errors.md](errors.md) lists the errors of a failed call.\n\n"
        .to_owned();
    for tool in &tools {
        page.push_str(&format!("- [`{0}`](#{0}): {1}.\n", text(&tool["name"]), lower(text(&tool["title"]))));
    }
    for tool in &tools {
        page.push_str(&section(tool));
    }
    page
}

fn section(tool: &Value) -> String {
    let hints = tool["annotations"].as_object().into_iter().flatten();
    let hints: Vec<_> = hints
        .filter(|(_, value)| value.is_boolean())
        .map(|(name, value)| format!("`{name}: {value}`"))
        .collect();
    let fields = |schema: &Value, none: &str| match rows(schema) {
        rows if rows.is_empty() => format!("{none}\n"),
        rows => table(&["Field", "Type", "Required", "Meaning"], &rows),
    };
    let output = fields(&tool["outputSchema"], "Nothing.").replace("| Required |", "| Always present |");
    format!(
        "\n## {}\n\n{}\n\nAnnotations: {}.\n\n### Input\n\n{}\n### Output\n\n{output}",
        text(&tool["name"]),
        text(&tool["description"]),
        hints.join(", "),
        fields(&tool["inputSchema"], "Nothing."),
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}
