//! A small tidy workspace in a temporary folder, with files planted in it.

use std::path::Path;

use tempfile::TempDir;

use super::{Finding, Rule, check};
use crate::workspace::Workspace;

const TIDY: [(&str, &str); 8] = [
    (".gitignore", "/target\n"),
    (
        "Cargo.toml",
        r#"[workspace]
resolver = "3"
members = ["crates/*"]

[workspace.package]
version = "0.1.0"
edition = "2024"
rust-version = "1.89"
license = "MIT"
authors = ["somebody"]

[workspace.dependencies]
# Ours.
interval-btree = { path = "crates/interval-btree", version = "0.1.0" }
spanset = { path = "crates/spanset", version = "0.1.0" }

# Everybody else's.
bytes = "1" # cheap to share
serde = { version = "1", features = ["derive"] } # data

[workspace.lints.rust]
missing_docs = "warn"
"#,
    ),
    (
        "README.md",
        "# A heading\n\n[source](crates/spanset/src/lib.rs) [above](#a-heading) [far](https://example.org)\n",
    ),
    ("crates/interval-btree/Cargo.toml", INTERVAL_BTREE),
    ("crates/interval-btree/src/lib.rs", "//! A tree.\n"),
    ("crates/spanset/Cargo.toml", SPANSET),
    (
        "crates/spanset/src/lib.rs",
        "//! Spans.\n\nmod span;\npub(crate) mod set;\n",
    ),
    (
        "crates/spanset/src/span.rs",
        "//! A span.\n#[cfg(test)]\nmod tests;\n",
    ),
];

const MORE: [(&str, &str); 4] = [
    ("crates/spanset/src/span/tests.rs", "//! Tests of spans.\n"),
    ("crates/spanset/src/set.rs", "//! A set.\n"),
    (
        "crates/spanset/tests/it/main.rs",
        "//! Tests.\n#[path = \"odd.rs\"]\nmod even;\nmod stories;\n",
    ),
    ("crates/spanset/tests/it/odd.rs", "//! Odd.\n"),
];

pub(super) const INTERVAL_BTREE: &str = r#"[package]
name = "interval-btree"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
authors.workspace = true

[lints]
workspace = true
"#;

const SPANSET: &str = r#"[package]
name = "spanset"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
authors.workspace = true

[lints]
workspace = true

[dependencies]
bytes.workspace = true
"#;

/// A tidy workspace plus the files given, which replace those of the same name.
pub(super) fn plant(files: &[(&str, &str)]) -> (TempDir, Workspace) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let stories = ("crates/spanset/tests/it/stories.rs", "//! Stories.\n");
    let write = |&(file, text): &(&str, &str)| {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    TIDY.iter().chain(&MORE).chain([&stories]).for_each(write);
    files.iter().for_each(write);
    let workspace = Workspace::load(dir.path()).expect("a sound workspace");
    (dir, workspace)
}

/// What the rule finds once `files` are planted.
pub(super) fn find(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let (_dir, workspace) = plant(files);
    let findings = rule(&workspace).expect("the rule can be checked");
    findings.iter().map(Finding::to_string).collect()
}

#[test]
fn a_tidy_workspace_has_no_findings() {
    let (_dir, workspace) = plant(&[]);
    assert_eq!(check(&workspace).expect("all rules can be checked"), []);
}

#[test]
fn ignored_files_are_not_looked_at() {
    let (_dir, workspace) = plant(&[("target/debug/built.rs", "not a doc line\n")]);
    assert_eq!(check(&workspace).expect("all rules can be checked"), []);
}

#[test]
fn findings_of_all_rules_come_sorted_by_file_and_line() {
    let (_dir, workspace) = plant(&[
        ("README.md", "[b](b.md)\n\n[a](a.md)\n"),
        ("crates/spanset/src/set.rs", "fn set() {}\n"),
    ]);
    let findings = check(&workspace).expect("all rules can be checked");
    let places: Vec<_> = findings.iter().map(|f| (f.file.as_str(), f.line)).collect();
    assert_eq!(
        places,
        [
            ("README.md", 1),
            ("README.md", 3),
            ("crates/spanset/src/set.rs", 1)
        ]
    );
}
