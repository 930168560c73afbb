//! Build steps that share a file tree: each declares the folders that it reads and writes, and
//! those that do not touch each other's run at the same time.
//!
//! No database in sight: a key is a path, and a folder is the range of all paths that begin with its
//! name.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::thread;

use spanlatch::Manager;
use spanset::{EmptySpan, Span, SpanSet};

/// Everything below `folder`, and nothing beside it: `0` is the character after `/`.
fn below(folder: &str) -> Result<Span, EmptySpan> {
    Span::range(format!("{folder}/"), format!("{folder}0"))
}

struct Step {
    name: &'static str,
    reads: &'static [&'static str],
    writes: &'static [&'static str],
}

const STEPS: [Step; 5] = [
    Step {
        name: "generate",
        reads: &["schema"],
        writes: &["src/generated"],
    },
    Step {
        name: "format",
        reads: &[],
        writes: &["src"],
    },
    Step {
        name: "compile",
        reads: &["src"],
        writes: &["out/bin"],
    },
    Step {
        name: "document",
        reads: &["src"],
        writes: &["out/doc"],
    },
    Step {
        name: "package",
        reads: &["out"],
        writes: &["dist"],
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let manager = Manager::new();
    thread::scope(|scope| {
        for step in STEPS {
            let mut paths = SpanSet::new();
            for folder in step.reads {
                paths.read(below(folder)?);
            }
            for folder in step.writes {
                paths.write(below(folder)?);
            }
            // The steps take their places here, in the order of the list; the threads only wait.
            let mut pending = manager.sequence(&paths)?;
            let place = if pending.is_ready() {
                "at once"
            } else {
                "after those ahead of it"
            };
            println!("{:<9} goes {place}", step.name);
            scope.spawn(move || {
                let guard = pending.wait().expect("nobody shuts down");
                println!("{:<9} works", step.name);
                drop(guard);
            });
        }
        Ok(())
    })
}
