//! Manifests: the root states each fact once, with its reason, and members inherit it.

use anyhow::Context;
use toml::{Table, Value};

use super::Finding;
use crate::workspace::Workspace;

const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "authors"];

const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Members take their package fields, lints and dependencies from the workspace.
pub(super) fn members_inherit(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in workspace.packages() {
        let file = workspace.relative(package.manifest_path.as_std_path())?;
        let manifest: Table = workspace
            .text(&file)?
            .parse()
            .with_context(|| format!("cannot parse {file}"))?;
        let mut says = |what: String| {
            findings.push(Finding::new(&file, 0, format!("does not inherit {what}")));
        };
        for field in INHERITED {
            if !inherits(manifest.get("package").and_then(|p| p.get(field))) {
                says(format!("package.{field}"));
            }
        }
        if !inherits(manifest.get("lints")) {
            says("lints".to_owned());
        }
        for (section, dependencies) in dependency_tables(&manifest) {
            for (name, value) in dependencies {
                if !inherits(Some(value)) {
                    says(format!("{section}.{name}"));
                }
            }
        }
    }
    Ok(findings)
}

fn inherits(value: Option<&Value>) -> bool {
    value.and_then(|v| v.get("workspace")) == Some(&Value::Boolean(true))
}

/// The tables of dependencies, those of single targets included.
fn dependency_tables(manifest: &Table) -> Vec<(&'static str, &Table)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values);
    [manifest]
        .into_iter()
        .chain(targets.filter_map(Value::as_table))
        .flat_map(|table| {
            DEPENDENCIES
                .iter()
                .filter_map(|&section| Some((section, table.get(section)?.as_table()?)))
        })
        .collect()
}

/// Each dependency of the root manifest is one line, in alphabetical order within its block, and
/// says why it is there; our own crates need no reason.
pub(super) fn dependencies_say_why(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    const FILE: &str = "Cargo.toml";
    let mut findings = Vec::new();
    let mut inside = false;
    let mut before = String::new();
    for (number, line) in (1..).zip(workspace.text(FILE)?.lines()) {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
            continue;
        }
        if !inside || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once(" = ") else {
            if !line.is_empty() {
                findings.push(Finding::new(
                    FILE,
                    number,
                    "is not a dependency on one line",
                ));
            }
            before.clear();
            continue;
        };
        let why = value.rsplit_once(" # ").map_or("", |(_, why)| why.trim());
        if why.is_empty() && !value.contains("path = ") {
            findings.push(Finding::new(
                FILE,
                number,
                format!("does not say why {name} is there"),
            ));
        }
        if *name < *before {
            findings.push(Finding::new(
                FILE,
                number,
                format!("{name} is not in alphabetical order"),
            ));
        }
        name.clone_into(&mut before);
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::planted::{INTERVAL_BTREE, find};
    use super::{INHERITED, dependencies_say_why, members_inherit};

    const FILE: &str = "crates/interval-btree/Cargo.toml";

    #[test]
    fn a_package_field_that_is_not_inherited_is_found() {
        for (field, own) in
            INHERITED
                .iter()
                .zip(["\"0.2.0\"", "\"2021\"", "\"1.85\"", "\"Unlicense\"", "[]"])
        {
            let inherited = format!("\n{field}.workspace = true");
            let manifest = INTERVAL_BTREE.replace(&inherited, &format!("\n{field} = {own}"));
            assert_eq!(
                find(members_inherit, &[(FILE, &manifest)]),
                [format!("{FILE}: does not inherit package.{field}")]
            );
        }
    }

    #[test]
    fn lints_that_are_not_inherited_are_found() {
        let manifest = INTERVAL_BTREE.replace("[lints]\nworkspace = true\n", "");
        assert_eq!(
            find(members_inherit, &[(FILE, &manifest)]),
            [format!("{FILE}: does not inherit lints")]
        );
    }

    #[test]
    fn a_dependency_that_is_not_inherited_is_found_in_every_table() {
        let manifest = format!(
            "{INTERVAL_BTREE}\n[dependencies]\nserde.workspace = true\nbytes = \"1\"\n\
             [dev-dependencies]\nlibc = {{ version = \"0.2\" }}\n\
             [target.'cfg(unix)'.build-dependencies]\ncc = \"1\"\n"
        );
        assert_eq!(
            find(members_inherit, &[(FILE, &manifest)]),
            [
                format!("{FILE}: does not inherit dependencies.bytes"),
                format!("{FILE}: does not inherit dev-dependencies.libc"),
                format!("{FILE}: does not inherit build-dependencies.cc"),
            ]
        );
    }

    /// What is found in a root manifest with these lines as the dependencies that aren't ours.
    fn find_in_root(lines: &str) -> Vec<String> {
        let root = format!(
            "[workspace]\nresolver = \"3\"\n[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             rust-version = \"1.89\"\nlicense = \"MIT\"\nauthors = []\n[workspace.dependencies]\n\
             # Ours.\nspanset = {{ path = \"crates/spanset\" }}\n\n# Others.\n{lines}\n\
             [workspace.lints.rust]\nmissing_docs = \"warn\"\n"
        );
        let root = root.replace("resolver", "members = [\"crates/*\"]\nresolver");
        find(dependencies_say_why, &[("Cargo.toml", &root)])
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        assert_eq!(
            find_in_root("bytes = \"1\" # shared\nlog = \"0.4\"\nserde = { version = \"1\" } # \n"),
            [
                "Cargo.toml:16: does not say why log is there",
                "Cargo.toml:17: does not say why serde is there",
            ]
        );
    }

    #[test]
    fn a_dependency_out_of_order_is_found() {
        assert_eq!(
            find_in_root("log = \"0.4\" # why\nbytes = \"1\" # why"),
            ["Cargo.toml:16: bytes is not in alphabetical order"]
        );
    }

    #[test]
    fn a_dependency_over_several_lines_is_found() {
        let found = find_in_root("bytes = { version = \"1\", features = [ # why\n\"serde\",\n] }");
        assert_eq!(
            found,
            [
                "Cargo.toml:16: is not a dependency on one line",
                "Cargo.toml:17: is not a dependency on one line",
            ]
        );
    }
}
