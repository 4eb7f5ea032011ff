"""A directory of skills with the quirks of real ones, each as frequent as among some 9,500 public SKILL.md files."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# Number of files with each quirk, and the number of files surveyed. One file may have several quirks.
SURVEYED = 9484
HABITS: dict[str, int] = {
    # Quirks of the file itself, not of its content.
    "link": 303,
    "no frontmatter": 147,
    "no description": 8,
    "nested": 185,
    "lower-case file": 20,
    # Quirks of the name.
    "capitals": 408,
    "bad name": 42,
    "other name": 1408,
    "taken name": 2753,
    # Quirks of the description.
    "not YAML": 68,
    "many lines": 2337,
    "markup": 77,
    "invisible": 7,
    # Quirks of the other frontmatter.
    "version": 3150,
    "author": 2584,
    "requires": 838,
    "origin": 633,
    "homepage": 389,
    "user-invocable": 74,
    "disable-model-invocation": 35,
    "argument-hint": 31,
    "license": 900,
    "tools with commas": 2783,
    "tools with spaces": 100,
    "list of tools": 37,
    "metadata": 940,
    # Quirks of the encoding.
    "CRLF": 60,
    "BOM": 2,
    "long body": 471,
    "huge body": 1,
}

BAD_NAMES = ["{n}_x", "{n} x", "suite:{n}", "{n}--x", "{n}-", "größe_{n}", "{n}.md", "{n} (beta)"]

# None of these is YAML, but in all except the last the intended meaning is clear.
NOT_YAML = [
    "description: Use when: asked",
    "description: `quoted` first",
    "description: @handle does it",
    "description: %percent",
    'description: "Quoted": and more',
    "description: [beta] does {n}",
    "description: *all* of it: now",
    "description: d\nlicense: a: b",
    "description: > not a block: at all",
    "description: d\n\ttabbed: x",
    "description: d\nbare line",
]

MANY_LINES = [
    "description: >\n  Does {n}: one line,\n  another.",
    "description: >-\n  Does {n}.\n\n  Use when asked.",
    "description: |\n  Does {n}.\n  Use when: asked.",
    "description: Does {n}\n  and says\n  when.",
    'description: "Does {n}\n  and more."',
]

MARKUP = ["description: a <b> & {n}", "description: \"Use <{n}> & 'it'\""]

LINES = {
    "version": ["version: 1.2.0", 'version: "2.0"', "version: 3"],
    "author": ["author: me", "author: {name: me, url: 'https://x.y'}", "author: Some One <one@x.y>"],
    "requires": ["requires:\n  - git", "requires: [git, jq]", "requires: git"],
    "origin": ["origin: ECC", "origin: https://x.y/z"],
    "homepage": ["homepage: https://x.y"],
    "user-invocable": ["user-invocable: false", "user-invocable: true"],
    "disable-model-invocation": ["disable-model-invocation: true"],
    "argument-hint": ["argument-hint: [file] [mode]", 'argument-hint: "<file>"'],
    "license": ["license: MIT", "license: Complete terms in LICENSE.txt"],
    "tools with commas": ["allowed-tools: Read, Bash(git:*), Grep"],
    "tools with spaces": ["allowed-tools: Read Grep"],
    "list of tools": ["allowed-tools:\n  - Read\n  - Grep", "allowed-tools: [Read, Grep]"],
    "metadata": [
        "metadata:\n  order: 3\n  on: true",
        'metadata: {"openclaw":{"emoji":"x","requires":{"bins":["git"]}}}',
        "metadata:\n  tags: [a, b]\n  nested:\n    deep: yes",
        "metadata:\n  version: 1.0\n  author: me",
    ],
}


class Survey:
    """Assigns quirks to files: exactly the surveyed share of each."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.choose = random.Random(seed)
        # A quirk that is too rare for this number of files still occurs once.
        number = {habit: max(1, round(count * files / SURVEYED)) for habit, files in HABITS.items()}
        self.having = {habit: set(self.choose.sample(range(count), n)) for habit, n in number.items()}

    def has(self, index: int, habit: str) -> bool:
        return index in self.having[habit]

    def text(self, index: int, name: str) -> str:
        """Returns a SKILL.md for the directory of this name."""
        has: Callable[[str], bool] = lambda habit: self.has(index, habit)  # noqa: E731
        body = f"# {name}\n\nDo it.\n"
        if has("long body"):
            body += "Read the file, decide what to do, and say what was done.\n" * 600
        if has("huge body"):
            body += "word " * 60_000
        if has("no frontmatter"):
            return body
        lines = [self.name(index, name), self.description(index)]
        lines += [self.choose.choice(ways) for habit, ways in LINES.items() if has(habit)]
        head = "\n".join(line for line in lines if line).replace("{n}", name)
        text = f"---\n{head}\n---\n\n{body}"
        text = text.replace("\n", "\r\n") if has("CRLF") else text
        return f"\ufeff{text}" if has("BOM") else text

    def name(self, index: int, name: str) -> str:
        if self.has(index, "capitals"):
            return f"name: {name.title()}"
        if self.has(index, "bad name"):
            return f"name: {self.choose.choice(BAD_NAMES)}"
        if self.has(index, "other name"):
            return f"name: other-{name}"
        return self.choose.choice([f"name: {name}"] * 8 + [f'name: "{name}"', f"name: '{name}'"])

    def description(self, index: int) -> str:
        if self.has(index, "no description"):
            return self.choose.choice(["", "description:", 'description: ""'])
        for habit, ways in [("not YAML", NOT_YAML), ("many lines", MANY_LINES), ("markup", MARKUP)]:
            if self.has(index, habit):
                return self.choose.choice(ways)
        if self.has(index, "invisible"):
            return "description: Does\u200b {n}."
        return self.choose.choice(["description: Does {n}, and says when to use it."] * 4 + ['description: "Does: {n}."'])


class Written(NamedTuple):
    """The files that were written."""

    skills: list[Path]
    # Skills below another skill, which are part of it.
    nested: list[Path]
    # Symlinks to the SKILL.md of another skill.
    links: list[Path]


def write_survey(root: Path, count: int, seed: int = 14) -> Written:
    """Writes `count` skills with the surveyed quirks."""
    survey = Survey(count, seed)
    written = Written([], [], [])
    for index in range(count):
        earlier = written.skills[index // 2 :] or written.skills
        taken = survey.has(index, "taken name") and earlier
        name = survey.choose.choice(earlier).parent.name if taken else f"skill-{index}"
        # Repositories place skills next to each other, in groups, or below plugins.
        place = [f"repo-{index}" if taken else f"repo-{index % 23}", *(["plugins", "a"] if index % 4 == 0 else [])]
        kind = written.skills
        if survey.has(index, "nested") and earlier:
            place, kind = [str(earlier[-1].parent.relative_to(root)), "inner"], written.nested
        directory = root.joinpath(*place, name)
        directory.mkdir(parents=True)
        file = directory / ("skill.md" if survey.has(index, "lower-case file") else "SKILL.md")
        if survey.has(index, "link") and earlier and kind is written.skills:
            os.symlink(os.path.relpath(survey.choose.choice(earlier), directory), directory / "SKILL.md")
            written.links.append(directory / "SKILL.md")
            continue
        file.write_bytes(survey.text(index, name).encode())
        if index % 11 == 0:
            (directory / "references").mkdir()
            (directory / "references" / "more.md").write_text("More.\n")
        kind.append(file)
    return written
