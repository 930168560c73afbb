//! Words: what the latch manager is compared with is the benches' business.

use super::Finding;
use crate::workspace::Workspace;

/// The word, in either number.
const WORD: &str = "predecessor";

/// Who may say it: the benches, whose baseline it is; the documents for people; the tree, where the word
/// means the entry before another; and this rule.
const MAY: [&str; 7] = [
    "benches/",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "crates/interval-btree/",
    "xtask/src/tidy/words.rs",
];

/// No code outside `benches` mentions what the latch manager is compared with.
pub(super) fn benches_keep_the_baseline_to_themselves(
    workspace: &Workspace,
) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in workspace.files_with("rs").chain(
        ["md", "toml", "txt"]
            .iter()
            .flat_map(|extension| workspace.files_with(extension)),
    ) {
        if MAY.iter().any(|may| file.starts_with(may)) {
            continue;
        }
        for (number, line) in (1..).zip(workspace.text(file)?.lines()) {
            if line.to_lowercase().contains(WORD) {
                let message = format!("mentions the {WORD}, which only benches know");
                findings.push(Finding::new(file, number, message));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::planted::find;
    use super::benches_keep_the_baseline_to_themselves;

    #[test]
    fn the_word_is_found_in_code_manifests_and_crate_documents_and_nowhere_else() {
        let planted = [
            (
                "crates/spanset/src/set.rs",
                "//! A set.\n\n// As the Predecessors did.\n",
            ),
            ("crates/spanset/README.md", "# Unlike its predecessor\n"),
            ("benches/src/predecessor.rs", "//! The predecessor.\n"),
            ("README.md", "Faster than its predecessor.\n"),
            (
                "crates/interval-btree/src/lib.rs",
                "//! The predecessor of an entry.\n",
            ),
        ];
        let says = "mentions the predecessor, which only benches know";
        assert_eq!(
            find(benches_keep_the_baseline_to_themselves, &planted),
            [
                format!("crates/spanset/src/set.rs:3: {says}"),
                format!("crates/spanset/README.md:1: {says}"),
            ]
        );
    }
}
