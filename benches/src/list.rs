//! What `--list` prints: published rows, and what runs for each.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use regex::Regex;

use crate::metric::Metric;
use crate::name::RowName;
use crate::suite::{Choice, Row, published_rows, rows};

/// Keeps the rows that somebody asked for: by their number of nodes, and by the name under which they run.
pub fn chosen(
    choice: &Choice,
    cores: usize,
    nodes: Option<usize>,
    filter: Option<&Regex>,
) -> Result<Vec<Row>> {
    let mut rows = rows(choice, cores, nodes)?;
    rows.retain(|row| filter.is_none_or(|filter| filter.is_match(&row.name)));
    Ok(rows)
}

/// A line for each published row of a choice whose own name, or the name under which it runs, matches:
/// its suite, its name, what it runs as with this many cores, and the published change of throughput.
///
/// # Errors
///
/// If nothing matches, or the published table is malformed.
pub fn list(
    choice: &Choice,
    cores: usize,
    nodes: Option<usize>,
    filter: Option<&Regex>,
) -> Result<String> {
    let matches = |name: &str| filter.is_none_or(|filter| filter.is_match(name));
    let mut text = String::new();
    for published in published_rows(choice, nodes)? {
        let name = published.name.to_string();
        let here = RowName {
            cores,
            ..published.name
        }
        .to_string();
        if !matches(&name) && !matches(&here) {
            continue;
        }
        let suite = published.suite.to_string();
        let change = published
            .figure(Metric::OpsPerSec)
            .map(|figure| figure.delta())
            .unwrap_or_default();
        let _ = writeln!(text, "{suite:<13}  {name:<38}  {change:>8}  runs as {here}");
    }
    if let Choice::Own(_) = choice {
        for row in chosen(choice, cores, nodes, filter)? {
            let _ = writeln!(text, "{}", row.name);
        }
    }
    if text.is_empty() {
        bail!(nothing_matches(choice, nodes, filter));
    }
    Ok(text)
}

/// What to say if nothing is left over.
pub fn nothing_matches(choice: &Choice, nodes: Option<usize>, filter: Option<&Regex>) -> String {
    let mut text = format!("no row of {choice}");
    if let Some(nodes) = nodes {
        let _ = write!(text, " has nodes={nodes}");
    }
    if let Some(filter) = filter {
        let and = if nodes.is_some() { " and" } else { "" };
        let _ = write!(text, "{and} matches {:?}", filter.as_str());
    }
    text
}
