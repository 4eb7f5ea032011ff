//! Directories of skills for tests: small ones with given skills, and large generated ones in all common styles.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use meerkat_skills::{Catalog, Limits, Policy, Roots, Snapshot, standard_roots};
use tempfile::TempDir;

/// An empty project and an empty home directory.
pub(crate) struct World {
    dir: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("project")).unwrap();
        fs::create_dir_all(dir.path().join("home")).unwrap();
        Self { dir }
    }

    /// Returns the canonical path of a file in the world.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(relative)
    }

    /// Writes a file and its parent directories.
    pub(crate) fn write(&self, relative: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a plain skill into a directory of skills, and returns the directory of the skill.
    pub(crate) fn skill(&self, root: &str, name: &str, description: &str) -> PathBuf {
        let text = skill_text(name, description);
        self.write(&format!("{root}/{name}/SKILL.md"), text).parent().unwrap().to_owned()
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots { project: Some(self.path("project")), home: Some(self.path("home")), ..Roots::default() }
    }

    pub(crate) fn catalog(&self) -> Catalog {
        Catalog::new(standard_roots(&self.roots(), Limits::default()), Policy::default())
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.catalog().snapshot()
    }
}

pub(crate) fn skill_text(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n# {name}\n\nDo it.\n")
}

/// Returns the names of the active skills.
pub(crate) fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot.active().map(|skill| skill.name.clone()).collect()
}

/// Expected result of loading a generated skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Loads,
    Skipped,
}

/// Function that returns the text of a file for the directory `name`.
type Style = fn(&str) -> String;

/// The styles of real files, and the number of files with each style per ten thousand, about as in public skills.
pub(crate) const STYLES: [(&str, usize, Fate, Style); 24] = [
    ("plain", 1470, Fate::Loads, |n| format!("---\nname: {n}\ndescription: Does {n}.\n---\n# {n}\n")),
    ("extra keys", 1600, Fate::Loads, |n| {
        format!(
            "---\nname: {n}\ndescription: d\nversion: 1.2.0\nauthor: me\nhomepage: https://x.y\n---\nBody\n"
        )
    }),
    ("folded", 1100, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: >\n  One line,\n  another.\n---\nBody\n")
    }),
    ("literal", 800, Fate::Loads, |n| format!("---\nname: {n}\ndescription: |\n  One.\n  Two.\n---\nBody\n")),
    ("plain over lines", 560, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: One\n  two.\n---\nBody\n")
    }),
    ("quoted", 700, Fate::Loads, |n| {
        format!("---\nname: \"{n}\"\ndescription: \"Say: \\\"hi\\\"\"\n---\nBody\n")
    }),
    ("unquoted colon", 72, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: Use when: asked\n---\nBody\n")
    }),
    ("crlf", 63, Fate::Loads, |n| format!("---\r\nname: {n}\r\ndescription: d\r\n---\r\nBody\r\n")),
    ("byte order mark", 2, Fate::Loads, |n| format!("\u{feff}---\nname: {n}\ndescription: d\n---\nBody\n")),
    ("angle brackets", 81, Fate::Loads, |n| format!("---\nname: {n}\ndescription: a <b> & c\n---\nBody\n")),
    ("comma tools", 800, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: d\nallowed-tools: Read, Bash(git:*)\n---\nBody\n")
    }),
    ("list of tools", 20, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: d\nallowed-tools:\n  - Read\n  - Grep\n---\nBody\n")
    }),
    ("flow list", 19, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: d\nallowed-tools: [Read]\n---\nBody\n")
    }),
    ("flow map", 300, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: d\nmetadata: {{\"a\":{{\"b\":[\"c\"]}}}}\n---\nBody\n")
    }),
    ("metadata numbers", 690, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: d\nmetadata:\n  order: 3\n  on: true\n---\nBody\n")
    }),
    ("capitals", 430, Fate::Loads, |n| {
        format!("---\nname: {}\ndescription: d\n---\nBody\n", n.to_uppercase())
    }),
    ("other name", 500, Fate::Loads, |n| format!("---\nname: other-{n}\ndescription: d\n---\nBody\n")),
    ("invisible", 7, Fate::Loads, |n| format!("---\nname: {n}\ndescription: a\u{200b}b\n---\nBody\n")),
    ("long body", 497, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: d\n---\n{}", "line\n".repeat(600))
    }),
    ("three hyphens inside", 30, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: a --- b\n---\nBody\n")
    }),
    ("duplicate key", 15, Fate::Loads, |n| {
        format!("---\nname: {n}\ndescription: d\ndescription: e\n---\nBody\n")
    }),
    ("no frontmatter", 155, Fate::Skipped, |n| format!("# {n}\n\nJust text.\n")),
    ("no description", 9, Fate::Skipped, |n| format!("---\nname: {n}\n---\nBody\n")),
    ("link as a text", 80, Fate::Skipped, |n| format!("../../shared/{n}/SKILL.md")),
];

/// Returns the style of file `index`. The styles have realistic frequencies and are evenly distributed.
fn style_for(index: usize) -> (&'static str, usize, Fate, Style) {
    const STEP: usize = 7919;
    let total: usize = STYLES.iter().map(|(_, share, ..)| share).sum();
    let mut position = index * STEP % total;
    for style in STYLES {
        if position < style.1 {
            return style;
        }
        position -= style.1;
    }
    STYLES[0]
}

/// Writes `count` skills in all styles, some of them in nested directories, and returns the number of directories with
/// each fate.
pub(crate) fn generate(root: &Path, count: usize) -> (usize, usize) {
    let mut fates = (0, 0);
    for index in 0..count {
        let (_, _, fate, style) = style_for(index);
        let name = format!("skill-{index}");
        let dir = if index % 7 == 0 { format!("group-{}/{name}", index % 5) } else { name.clone() };
        let dir = root.join(dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("SKILL.md"), style(&name)).unwrap();
        if index % 11 == 0 {
            fs::create_dir_all(dir.join("references")).unwrap();
            fs::write(dir.join("references/more.md"), "More.\n").unwrap();
        }
        match fate {
            Fate::Loads => fates.0 += 1,
            Fate::Skipped => fates.1 += 1,
        }
    }
    fates
}
