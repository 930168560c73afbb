//! Rust files: each says what it is, is named by its noun, and is part of something.

use std::collections::BTreeSet;

use super::Finding;
use crate::workspace::Workspace;

/// Every Rust file opens with a one-line `//!` that says what it is.
pub(super) fn every_file_opens_with_a_doc_line(
    workspace: &Workspace,
) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in workspace.files_with("rs") {
        let text = workspace.text(file)?;
        let doc = text.lines().next().and_then(|l| l.strip_prefix("//! "));
        if doc.is_none_or(|doc| doc.trim().is_empty()) {
            findings.push(Finding::new(
                file,
                1,
                "does not open with a line `//! ..` that says what it is",
            ));
        }
    }
    Ok(findings)
}

/// A module with children is `foo.rs` beside `foo/`, so that every tab of an editor has a name.
pub(super) fn no_mod_rs(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    Ok(workspace
        .files_with("rs")
        .filter(|file| file.rsplit('/').next() == Some("mod.rs"))
        .map(|file| {
            Finding::new(
                file,
                0,
                "is named mod.rs; name it after the module, beside its folder",
            )
        })
        .collect())
}

/// The targets of the fuzzer's package, which is no member of the workspace.
const FUZZ_TARGETS: &str = "fuzz/fuzz_targets/";

/// Every Rust file is reached from a target of a package by `mod` items.
///
/// The items are found by line, which formatted code allows. A `mod` within an inline module is
/// not followed; there is none.
pub(super) fn no_orphans(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    let files: BTreeSet<&str> = workspace.files_with("rs").collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut to_read: Vec<(String, String)> = Vec::new();
    for package in workspace.packages() {
        for target in &package.targets {
            let file = workspace.relative(target.src_path.as_std_path())?;
            to_read.push((folder(&file).to_owned(), file));
        }
    }
    let fuzzed = files.iter().filter(|file| file.starts_with(FUZZ_TARGETS));
    to_read.extend(fuzzed.map(|file| (folder(file).to_owned(), (*file).to_owned())));
    while let Some((children, file)) = to_read.pop() {
        if !files.contains(file.as_str()) || !reached.insert(file.clone()) {
            continue;
        }
        let mut path = None;
        for line in workspace.text(&file)?.lines() {
            let line = line.trim();
            if let Some(attribute) = line.strip_prefix("#[path = \"") {
                path = attribute.strip_suffix("\"]").map(str::to_owned);
            } else if let Some(name) = module(line) {
                // `#[path]` is relative to the file, and so are the children of what it names.
                let child = match path.take() {
                    Some(path) => join(folder(&file), &path),
                    None => join(&children, &format!("{name}.rs")),
                };
                let grandchildren = match child.strip_suffix("/mod.rs") {
                    Some(folder) => folder,
                    None => child.trim_end_matches(".rs"),
                };
                to_read.push((grandchildren.to_owned(), child.clone()));
            }
        }
    }
    Ok(files
        .into_iter()
        .filter(|&file| !reached.contains(file))
        .map(|file| Finding::new(file, 0, "is not reached by any `mod` or target"))
        .collect())
}

/// The name in `mod name;`, whatever its visibility.
fn module(line: &str) -> Option<&str> {
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    item.strip_prefix("mod ")?.strip_suffix(';')
}

fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, file: &str) -> String {
    if folder.is_empty() {
        file.to_owned()
    } else {
        format!("{folder}/{file}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::find;
    use super::{every_file_opens_with_a_doc_line, module, no_mod_rs, no_orphans};

    #[test]
    fn a_file_without_a_doc_line_is_found() {
        let says = "does not open with a line `//! ..` that says what it is";
        for text in [
            "fn set() {}\n",
            "",
            "\n//! Late.\n",
            "//!\n",
            "/// A set.\n",
        ] {
            assert_eq!(
                find(
                    every_file_opens_with_a_doc_line,
                    &[("crates/spanset/src/set.rs", text)]
                ),
                [format!("crates/spanset/src/set.rs:1: {says}")],
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_mod_rs_is_found() {
        assert_eq!(
            find(
                no_mod_rs,
                &[("crates/spanset/src/deep/mod.rs", "//! Deep.\n")]
            ),
            [
                "crates/spanset/src/deep/mod.rs: is named mod.rs; name it after the module, beside its folder"
            ]
        );
    }

    #[test]
    fn a_file_that_nothing_mentions_is_found() {
        let orphans = [
            ("crates/spanset/src/lost.rs", "//! Lost.\nmod child;\n"),
            (
                "crates/spanset/src/lost/child.rs",
                "//! A child of the lost.\n",
            ),
            // Mentioned, but in a comment; and as a child of another module.
            (
                "crates/spanset/src/set.rs",
                "//! A set.\n// mod tests;\nmod span;\n",
            ),
            ("crates/spanset/src/set/tests.rs", "//! Tests of sets.\n"),
        ];
        assert_eq!(
            find(no_orphans, &orphans),
            [
                "crates/spanset/src/lost.rs: is not reached by any `mod` or target",
                "crates/spanset/src/lost/child.rs: is not reached by any `mod` or target",
                "crates/spanset/src/set/tests.rs: is not reached by any `mod` or target",
            ]
        );
    }

    #[test]
    fn the_targets_of_the_fuzzer_are_targets() {
        let planted = [
            ("fuzz/fuzz_targets/tree.rs", "//! A target.\n"),
            ("fuzz/src/lost.rs", "//! Lost.\n"),
        ];
        assert_eq!(
            find(no_orphans, &planted),
            ["fuzz/src/lost.rs: is not reached by any `mod` or target"]
        );
    }

    #[test]
    fn a_module_is_known_whatever_its_visibility() {
        for line in [
            "mod a;",
            "pub mod a;",
            "pub(crate) mod a;",
            "pub(in crate::b) mod a;",
        ] {
            assert_eq!(module(line), Some("a"), "{line}");
        }
        for line in ["mod a {", "model a;", "pub use a;", "publish;", "// mod a;"] {
            assert_eq!(module(line), None, "{line}");
        }
    }
}
