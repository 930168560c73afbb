//! An inspection as text and as a drawing.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Inspected, Inspection, State};

/// How many entries of a list are shown before "and .. more".
const SHOWN: usize = 20;

/// How many latches of one request are shown.
const LATCHES_SHOWN: usize = 3;

impl Inspection {
    /// The picture in Graphviz's language: a box for each request, an arrow to whom it waits for. Requests
    /// that neither wait nor are waited for are left out.
    ///
    /// Show it with `dot -Tsvg`.
    pub fn graphviz(&self) -> impl fmt::Display {
        Graphviz(self)
    }

    /// By head: how many requests are in its chains.
    fn behind(&self) -> BTreeMap<u64, usize> {
        let mut behind = BTreeMap::new();
        for request in &self.requests {
            if let State::Waiting { head, .. } = request.state {
                *behind.entry(head).or_default() += 1;
            }
        }
        behind
    }
}

/// [`Inspection::graphviz`].
struct Graphviz<'a>(&'a Inspection);

impl fmt::Display for Graphviz<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "digraph latches {{")?;
        writeln!(f, "    rankdir=RL; node [shape=box, fontname=monospace];")?;
        let behind = self.0.behind();
        for request in &self.0.requests {
            let Inspected { request: id, .. } = request;
            let is_head = behind.contains_key(id);
            if let State::Waiting { on, wants, .. } = &request.state {
                let wants = wants.to_string();
                writeln!(
                    f,
                    "    {id} -> {on} [label=\"{}\"];",
                    wants.escape_default()
                )?;
            } else if !is_head {
                continue;
            }
            let text = request.to_string();
            let color = if request.poisoned { ", color=red" } else { "" };
            let style = if is_head { ", penwidth=2" } else { "" };
            writeln!(
                f,
                "    {id} [label=\"{}\"{style}{color}];",
                text.escape_default()
            )?;
        }
        writeln!(f, "}}")
    }
}

/// A line of totals; each head of a blocking chain with those behind it, most of them first; then those who hold
/// and are in nobody's way. Long lists are cut.
impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latches: usize = self
            .requests
            .iter()
            .map(|request| request.latches.len())
            .sum();
        let behind = self.behind();
        let waiting: usize = behind.values().sum();
        let holding = self.requests.len() - waiting;
        writeln!(
            f,
            "{} with {}: {holding} {}, {waiting} {}",
            count(self.requests.len(), "request"),
            count(latches, if latches == 1 { "latch" } else { "latche" }),
            if holding == 1 { "holds" } else { "hold" },
            waits(waiting),
        )?;
        let mut heads = Vec::from_iter(&behind);
        heads.sort_by_key(|&(head, behind)| (std::cmp::Reverse(behind), head));
        for &(&head, &waiting) in heads.iter().take(SHOWN) {
            match self.requests.iter().find(|request| request.request == head) {
                Some(request) => write!(f, "{request}")?,
                None => write!(f, "{head} is gone")?,
            }
            writeln!(f, "; {waiting} {} behind it", waits(waiting))?;
            let chain = self.requests.iter().filter(
                |request| matches!(request.state, State::Waiting { head: of, .. } if of == head),
            );
            for request in chain.take(SHOWN) {
                writeln!(f, "    {request}")?;
            }
            more(f, waiting, SHOWN, "    ")?;
        }
        more(f, heads.len(), SHOWN, "")?;
        let free = self.requests.iter().filter(|request| {
            matches!(request.state, State::Holding { .. }) && !behind.contains_key(&request.request)
        });
        let free = Vec::from_iter(free);
        for request in free.iter().take(SHOWN) {
            writeln!(f, "{request}")?;
        }
        more(f, free.len(), SHOWN, "")
    }
}

/// `17 "backup" holds for 3.2 s, write ["a"]`, or the same of one that waits.
impl fmt::Display for Inspected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.request)?;
        if let Some(label) = &self.label {
            write!(f, " {label:?}")?;
        }
        if self.poisoned {
            write!(f, " (poisoned)")?;
        }
        match &self.state {
            State::Holding { elapsed } => {
                write!(f, " holds")?;
                Since(*elapsed).fmt(f)?;
                for (index, latch) in self.latches.iter().take(LATCHES_SHOWN).enumerate() {
                    write!(f, "{} {latch}", if index == 0 { "" } else { "," })?;
                }
                match self.latches.len().saturating_sub(LATCHES_SHOWN) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            State::Waiting {
                elapsed,
                wants,
                on,
                conflict,
                ..
            } => {
                write!(f, " waits")?;
                Since(*elapsed).fmt(f)?;
                write!(f, " for {on}: {wants} conflicts with {conflict}")
            }
        }
    }
}

struct Since(Option<Duration>);

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(elapsed) => write!(f, " for {:.1} s,", elapsed.as_secs_f64()),
            None => Ok(()),
        }
    }
}

fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn waits(count: usize) -> &'static str {
    if count == 1 { "waits" } else { "wait" }
}

fn more(f: &mut fmt::Formatter<'_>, len: usize, shown: usize, indent: &str) -> fmt::Result {
    match len.saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(f, "{indent}and {more} more"),
    }
}
