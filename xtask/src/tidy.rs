//! `cargo xtask tidy`: what a reviewer would otherwise have to say.

mod graph;
mod links;
mod manifests;
mod sources;
mod top_level;
mod words;

#[cfg(test)]
mod planted;

use std::fmt;
use std::process::ExitCode;

use crate::workspace::Workspace;

/// A rule looks at the workspace and tells what violates it.
type Rule = fn(&Workspace) -> anyhow::Result<Vec<Finding>>;

/// All rules.
const RULES: [Rule; 9] = [
    top_level::only_known_entries,
    sources::every_file_opens_with_a_doc_line,
    sources::no_mod_rs,
    sources::no_orphans,
    manifests::members_inherit,
    manifests::dependencies_say_why,
    graph::edges_are_those_of_the_graph,
    links::relative_links_resolve,
    words::benches_keep_the_baseline_to_themselves,
];

/// Something that violates a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    file: String,
    /// Counted from 1; 0 if the whole file is meant.
    line: usize,
    message: String,
}

impl Finding {
    fn new(file: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Prints what violates a rule; fails if anything does.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    let findings = check(workspace)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files are tidy", workspace.files.len());
        Ok(ExitCode::SUCCESS)
    } else {
        eprintln!("tidy: {} to mend", findings.len());
        Ok(ExitCode::FAILURE)
    }
}

fn check(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for rule in RULES {
        findings.extend(rule(workspace)?);
    }
    findings.sort();
    Ok(findings)
}
