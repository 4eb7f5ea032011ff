"""A directory of skills in all common styles, identical each time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

# Styles of names; `{n}` is the name of the directory.
NAMES: list[str] = [
    *["name: {n}"] * 12,
    'name: "{n}"',
    "name: '{n}'",
    "name:   {n}  ",
    "name: {N}",
    "name: other-{n}",
    "name: {n}-",
    "name: -{n}",
    "name: {n}--x",
    "name: {n}_x",
    "name: {n} x",
    "name: suite:{n}",
    "name: größe-{n}",
    "name: 技能",
    "name:",
    "name: 12",
    "name: true",
    "name: [{n}]",
    "name: &a {n}",
    "name: !x {n}",
    "name: " + "long-" * 20 + "{n}",
    "# name: {n}",
    "Name: {n}",
    "name: {n} # the name",
    "name: {n}\nname: {n}",
]

DESCRIPTIONS: list[str] = [
    *["description: Does {n}, and says when to use it."] * 12,
    "description: >\n  One line,\n  another.",
    "description: >-\n  One line,\n  another.",
    "description: |\n  One.\n  Two.",
    "description: One\n  two\n  three.",
    'description: "Say: \\"hi\\" & <go>"',
    "description: 'It''s: fine'",
    "description: Use when: asked",
    "description: a <b> & c",
    "description: a\u200bb",
    "description: Größe, 技能 and émoji 🦡",
    "description: a --- b",
    "description: |\n  before\n  ---\n  after",
    "description:",
    'description: ""',
    "description: '   '",
    "description: {text: d}",
    "description: [d]",
    "description: *a",
    "description: `quoted`",
    "description: @handle",
    "description: %percent",
    "description: - item",
    "description:\n  - item",
    "description:\n  text: d",
    "description: " + "word " * 300,
    "description: " + "x" * 1024,
    "description: " + "x" * 1025,
    "description: d # a comment",
    "description: d\n# a comment\n",
    "description:\td",
    "description: d\tand a tab",
    "description: null",
    "description: 3",
    "",
]

EXTRAS: list[str] = [
    *[""] * 12,
    "license: MIT",
    "license: Complete terms in LICENSE.txt",
    "compatibility: Needs git",
    "compatibility: " + "y" * 501,
    "compatibility:\n  - git",
    "metadata:\n  author: me\n  version: \"1.0\"",
    "metadata:\n  order: 3\n  on: true",
    "metadata:\n  nested:\n    deep: yes",
    'metadata: {"a":{"b":["c"]}}',
    "metadata: {}",
    "metadata:",
    "metadata: text",
    "allowed-tools: Read, Bash(git:*)",
    "allowed-tools: Read Grep",
    "allowed-tools:\n  - Read\n  - Grep",
    "allowed-tools: [Read, Grep]",
    'allowed-tools: "Read"',
    "version: 1.2.0\nauthor: me\nhomepage: https://x.y",
    "user-invocable: false",
    "disable-model-invocation: true",
    "argument-hint: \"[file]\"",
    "requires:\n  - git",
    "tags: [a, b]",
    "license: MIT\nlicense: MIT",
    "x: &a 1\ny: *a",
    "<<: {a: 1}",
    "? complex\n: key",
    "bare line",
    "  indented: 1",
]

BODIES: list[str] = [
    *["# {n}\n\nDo it.\n"] * 6,
    "",
    "line\n" * 600,
    "---\n\nA rule above.\n",
    "<!-- hidden -->\n# {n}\n",
    "Use $ARGUMENTS and `scripts/run.sh`.\n",
]

# Combinations of the parts; any but the plain form is rare.
FRAMES: list[Callable[[str, str], str]] = [
    *[lambda head, body: f"---\n{head}\n---\n{body}"] * 14,
    lambda head, body: f"---\n{head}\n---\n\n{body}",
    lambda head, body: f"---\r\n{head}\r\n---\r\n{body}".replace("\r\n", "\n").replace("\n", "\r\n"),
    lambda head, body: f"\ufeff---\n{head}\n---\n{body}",
    lambda head, body: f"--- \n{head}\n--- \n{body}",
    lambda head, body: f"\n---\n{head}\n---\n{body}",
    lambda head, body: f"---\n{head}\n{body}",
    lambda head, body: f"{head}\n---\n{body}",
    lambda head, body: f"---\n\n{head}\n\n---\n{body}",
    lambda head, body: f"---\n{head}\n...\n{body}",
    lambda head, body: f"----\n{head}\n----\n{body}",
    lambda _, body: body,
    lambda _, __: "",
    lambda _, __: "../../shared/skill/SKILL.md",
]


def write_tree(root: Path, count: int, seed: int = 6) -> list[Path]:
    """Writes `count` skills; returns their directories."""
    choose = random.Random(seed)
    directories = []
    for index in range(count):
        name = f"skill-{index}"
        # A name that several directories have, in separate groups.
        if index % 9 == 0:
            name = f"common-{index % 40}"
        group = f"group-{index}" if index % 9 == 0 else f"group-{index % 5}" if index % 7 == 0 else ""
        directory = root / group / name
        directory.mkdir(parents=True)
        parts = [choose.choice(NAMES), choose.choice(DESCRIPTIONS), choose.choice(EXTRAS)]
        if choose.random() < 0.1:
            choose.shuffle(parts)
        head = "\n".join(part for part in parts if part)
        body = choose.choice(BODIES)
        fill = lambda text: text.replace("{n}", name).replace("{N}", name.upper())  # noqa: E731
        text = choose.choice(FRAMES)(fill(head), fill(body))
        file = directory / ("skill.md" if index % 97 == 0 else "SKILL.md")
        file.write_bytes(text.encode())
        if index % 11 == 0:
            (directory / "references").mkdir()
            (directory / "references" / "more.md").write_text("More.\n")
        if index % 13 == 0:
            nested = directory / "nested" / "inner"
            nested.mkdir(parents=True)
            (nested / "SKILL.md").write_text("---\nname: inner\ndescription: d\n---\n")
        directories.append(directory)
    # Symlinks to directories, and one that forms a cycle.
    os.symlink(directories[1], root / "linked")
    os.symlink(root, root / "circle")
    return directories
