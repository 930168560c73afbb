//! The top level holds what everybody expects there, and nothing else.

use super::Finding;
use crate::workspace::Workspace;

const ENTRIES: [&str; 16] = [
    ".cargo",
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "benches",
    "crates",
    "fuzz",
    "proofs",
    "xtask",
];

/// Every entry of the top level is a known one.
pub(super) fn only_known_entries(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    let mut entries: Vec<&str> = workspace
        .files
        .iter()
        .filter_map(|file| file.split('/').next())
        .collect();
    entries.dedup();
    Ok(entries
        .into_iter()
        .filter(|entry| !ENTRIES.contains(entry))
        .map(|entry| Finding::new(entry, 0, "does not belong at the top level"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::planted::find;
    use super::only_known_entries;

    #[test]
    fn a_stray_file_or_folder_at_the_top_is_found_once() {
        let strays = [
            ("notes.txt", ""),
            ("scripts/a.sh", ""),
            ("scripts/b.sh", ""),
            ("xtask/notes.txt", ""),
        ];
        assert_eq!(
            find(only_known_entries, &strays),
            [
                "notes.txt: does not belong at the top level",
                "scripts: does not belong at the top level"
            ]
        );
    }
}
