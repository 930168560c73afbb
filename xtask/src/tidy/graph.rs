//! The graph of our crates: who may know of whom.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::workspace::Workspace;

/// Each package with those of ours that it stands on, for whatever purpose; exactly those.
const GRAPH: [(&str, &[&str]); 10] = [
    ("interval-btree", &[]),
    ("spanset", &[]),
    ("spanlatch-metrics", &[]),
    (
        "spanlatch",
        &["interval-btree", "spanlatch-metrics", "spanset"],
    ),
    (
        "spanlatch-replica",
        &[
            "interval-btree",
            "spanlatch",
            "spanlatch-metrics",
            "spanset",
        ],
    ),
    (
        "spanlatch-replica-raft",
        &[
            "spanlatch",
            "spanlatch-metrics",
            "spanlatch-replica",
            "spanset",
        ],
    ),
    (
        "spanlatch-kv",
        &[
            "spanlatch",
            "spanlatch-metrics",
            "spanlatch-replica",
            "spanset",
        ],
    ),
    (
        "spanlatch-benches",
        &[
            "interval-btree",
            "spanlatch",
            "spanlatch-kv",
            "spanlatch-metrics",
            "spanlatch-replica",
            "spanlatch-replica-raft",
            "spanset",
        ],
    ),
    (
        "spanlatch-proofs",
        &[
            "interval-btree",
            "spanlatch",
            "spanlatch-kv",
            "spanlatch-metrics",
            "spanlatch-replica",
            "spanlatch-replica-raft",
            "spanset",
        ],
    ),
    ("xtask", &[]),
];

/// The dependencies between our packages are those of the graph, each of which is there.
pub(super) fn edges_are_those_of_the_graph(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    let graph = BTreeMap::from(GRAPH);
    let packages = workspace.packages();
    let ours: BTreeSet<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in &packages {
        let file = workspace.relative(package.manifest_path.as_std_path())?;
        let name = package.name.as_str();
        let Some(&expected) = graph.get(name) else {
            findings.push(Finding::new(
                file,
                0,
                format!("{name} is not in the graph of our crates"),
            ));
            continue;
        };
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let actual: BTreeSet<&str> = package
            .dependencies
            .iter()
            .map(|dependency| dependency.name.as_str())
            .filter(|dependency| ours.contains(dependency))
            .collect();
        for stranger in actual.difference(&expected) {
            let message = format!("{name} must not know of {stranger}");
            findings.push(Finding::new(&file, 0, message));
        }
        for missing in expected.difference(&actual) {
            let message = format!("{name} does not stand on {missing}, as the graph says");
            findings.push(Finding::new(&file, 0, message));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::planted::{INTERVAL_BTREE, find};
    use super::edges_are_those_of_the_graph;

    const FILE: &str = "crates/interval-btree/Cargo.toml";

    #[test]
    fn an_edge_that_is_not_in_the_graph_is_found_whatever_its_kind() {
        for table in [
            "dependencies",
            "dev-dependencies",
            "build-dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let manifest = format!("{INTERVAL_BTREE}\n[{table}]\nspanset.workspace = true\n");
            assert_eq!(
                find(edges_are_those_of_the_graph, &[(FILE, &manifest)]),
                [format!("{FILE}: interval-btree must not know of spanset")],
                "{table}"
            );
        }
    }

    #[test]
    fn an_edge_of_the_graph_that_is_missing_is_found() {
        let manifest = INTERVAL_BTREE.replace("interval-btree", "spanlatch");
        let planted = [
            ("crates/spanlatch/Cargo.toml", manifest.as_str()),
            ("crates/spanlatch/src/lib.rs", "//! Latches.\n"),
        ];
        let found = find(edges_are_those_of_the_graph, &planted);
        assert_eq!(
            found,
            ["interval-btree", "spanlatch-metrics", "spanset"].map(|leaf| format!(
                "crates/spanlatch/Cargo.toml: spanlatch does not stand on {leaf}, as the graph says"
            ))
        );
    }

    #[test]
    fn a_package_that_the_graph_does_not_know_is_found() {
        let manifest = INTERVAL_BTREE.replace("interval-btree", "utils");
        let planted = [
            ("crates/utils/Cargo.toml", manifest.as_str()),
            ("crates/utils/src/lib.rs", "//! Whatever.\n"),
        ];
        assert_eq!(
            find(edges_are_those_of_the_graph, &planted),
            ["crates/utils/Cargo.toml: utils is not in the graph of our crates"]
        );
    }
}
