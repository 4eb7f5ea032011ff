use serde_json::json;

use super::*;

fn read(text: &str) -> Document<'_> {
    Document::read(text).unwrap()
}

fn strings(name: &str, description: &str) -> (String, String) {
    (name.to_owned(), description.to_owned())
}

#[test]
fn common_styles_are_accepted() {
    for (text, name, description) in [
        ("---\nname: pdf\ndescription: Reads PDFs.\n---\nBody", "pdf", "Reads PDFs."),
        ("\u{feff}---\r\nname: pdf\r\ndescription: Reads PDFs.\r\n---\r\nBody", "pdf", "Reads PDFs."),
        ("\n\n---\nname: pdf\ndescription: x\n---", "pdf", "x"),
        ("---\nname: pdf\ndescription: Use when: the user asks\n---\n", "pdf", "Use when: the user asks"),
        ("---\nname: pdf\ndescription: >-\n  one\n  two\n---\n", "pdf", "one two"),
        ("---\nname: pdf\ndescription: |\n  one\n  two\n---\n", "pdf", "one\ntwo"),
        ("---\nname: pdf\ndescription: one\n  two\n---\n", "pdf", "one two"),
        ("---\nname: \"My PDF\"\ndescription: 'it''s'\n---\n", "My PDF", "it's"),
        ("---\nname: 2048\ndescription: 1.0\n---\n", "2048", "1.0"),
        ("---\n{name: pdf, description: flow}\n---\n", "pdf", "flow"),
        ("---\nname: pdf\ndescription: `code` first\n---\n", "pdf", "`code` first"),
        (
            "---\nname: pdf\ndescription: \"one: two\n  three\": four\n---\n",
            "pdf",
            "\"one: two three\": four",
        ),
        ("---\nname: pdf\ndescription: >\n  Use when: a\n  b\nlicense: a: b\n---\n", "pdf", "Use when: a b"),
        ("---\nname: pdf\ndescription: a\n...\nBody", "pdf", "a"),
        ("---\nname: pdf\nname: other\ndescription: a\n---\n", "pdf", "a"),
    ] {
        let document = read(text);
        assert_eq!((document.name, document.description), strings(name, description), "{text:?}");
    }
}

#[test]
fn unknown_keys_are_preserved() {
    let text =
        "---\nname: a\ndescription: b\nversion: 1.2\nmetadata: {k: [1, true, null]}\nx.y:\n  - z\n---\n";
    let fields = json!({
        "name": "a", "description": "b", "version": 1.2, "metadata": {"k": [1, true, null]}, "x.y": ["z"],
    });
    assert_eq!(Value::Object(read(text).fields), fields);
}

#[test]
fn allowed_tools_accept_commas_spaces_and_yaml() {
    for written in [
        "Read, Bash(git add *), Grep",
        "Read Bash(git add *) Grep",
        "[Read, \"Bash(git add *)\", Grep]",
        "\n  - Read\n  - Bash(git add *)\n  - Grep",
    ] {
        let text = format!("---\nname: a\ndescription: b\nallowed-tools: {written}\n---\n");
        assert_eq!(read(&text).traits.allowed_tools, ["Read", "Bash(git add *)", "Grep"], "{written}");
    }
}

#[test]
fn frontmatter_sets_allowed_invocations() {
    for (written, invocation) in [
        ("", Invocation::Anyone),
        ("disable-model-invocation: true\n", Invocation::User),
        ("user-invocable: false\n", Invocation::Model),
        ("user-invocable: \"no\"\ndisable-model-invocation: yes\n", Invocation::Neither),
    ] {
        let text = format!("---\nname: a\ndescription: b\n{written}argument-hint: [file] [mode]\n---\n");
        assert_eq!(read(&text).traits.invocation, invocation, "{written}");
    }
}

#[test]
fn errors_have_a_line_and_a_fix() {
    for (text, message) in [
        (
            "",
            "line 1: the file is empty; start the file with a line `---`, then `name:` and `description:`, then a line `---`",
        ),
        (
            "# Hi\n",
            "line 1: the frontmatter is missing; start the file with a line `---`, then `name:` and `description:`, then a line `---`",
        ),
        ("\n---\nname: a\n", "line 2: the frontmatter is not closed; add a line `---` below `description:`"),
        (
            "---\nname: a\n---\n",
            "line 1: `description` is missing; add a line `description:` that says when to use it",
        ),
        (
            "---\nname: a\ndescription: \"\"\n---\n",
            "line 3: `description` is empty; add a line `description:` that says when to use it",
        ),
        (
            "---\ndescription: a\n---\n",
            "line 1: `name` is missing; add a line `name:` with the name of the directory",
        ),
        (
            "---\nname: ../a\ndescription: a\n---\n",
            "line 2: the name has a `.` or `..` path segment; use letters, digits, and hyphens",
        ),
        (
            "---\n- a\n---\n",
            "line 1: the frontmatter has no `key: value` lines; start the file with a line `---`, then `name:` and `description:`, then a line `---`",
        ),
    ] {
        assert_eq!(Document::read(text).unwrap_err().to_string(), message, "{text:?}");
    }
}

#[test]
fn body_follows_the_frontmatter() {
    assert_eq!(read("---\nname: a\ndescription: b\n---\n\n# Title\n---\nmore").body, "\n# Title\n---\nmore");
}
