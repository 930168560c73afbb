//! What a command declares, in the form in which the queue keeps it.

use interval_btree::Interval;
use smallvec::SmallVec;
use spanset::{Access, CompactKey, Declaration, Scope, Span, SpanSet, Timestamp};

/// The spans of a command that have one scope and access.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) scope: Scope,
    pub(super) access: Access,
    pub(super) parts: SmallVec<[Part; 1]>,
    /// Covers all parts, if there are several.
    pub(super) cover: Option<Box<Interval<CompactKey>>>,
    pub(super) standing: Standing,
}

/// Where the queue keeps a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nowhere yet.
    Outside,
    /// At this position of its scope's buffer of reads.
    Buffered(usize),
    /// In its tree, as the one span that covers its parts.
    Covered,
    /// In its tree, every part.
    Expanded,
}

/// One span of a command.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) interval: Interval<CompactKey>,
    pub(super) at: Timestamp,
}

/// A command's groups. On the heap, for they are moved several times under the mutex.
pub(super) type Groups = Vec<Group>;

impl Group {
    /// Sorts the declarations of a command into groups. O(n).
    pub(super) fn of_all(spans: &SpanSet) -> Groups {
        // Mostly what it touches, and the descriptor of its range.
        let mut groups = Groups::with_capacity(spans.len().min(2));
        for declaration in spans {
            let (scope, access) = (declaration.scope(), declaration.access());
            let same = |group: &Group| group.scope == scope && group.access == access;
            if let Some(group) = groups.iter_mut().find(|group| same(group)) {
                group.parts.push(declaration.into());
            } else {
                let mut parts = SmallVec::with_capacity(spans.iter_of(scope, access).count());
                parts.push(declaration.into());
                groups.push(Group {
                    scope,
                    access,
                    parts,
                    cover: None,
                    standing: Standing::Outside,
                });
            }
        }
        for group in groups.iter_mut().filter(|group| group.parts.len() > 1) {
            group.cover = cover(&group.parts).map(Box::new);
        }
        groups
    }
}

/// The smallest interval that contains all parts. O(n).
fn cover(parts: &[Part]) -> Option<Interval<CompactKey>> {
    let start = parts.iter().map(|part| part.interval.start()).min()?;
    let end = parts.iter().map(|part| part.interval.end()).max()?;
    Some(
        Interval::new(start.clone(), end.cloned())
            .expect("the lowest start is below the highest end"),
    )
}

impl From<&Declaration> for Part {
    fn from(declaration: &Declaration) -> Self {
        Self {
            interval: interval(declaration.span()),
            at: reach(declaration.access(), declaration.timestamp()),
        }
    }
}

fn interval(span: &Span) -> Interval<CompactKey> {
    let start = span.start().into();
    match span.end() {
        spanset::End::At(_) => Interval::point(start),
        spanset::End::Before(end) => {
            Interval::range(start, end.into()).expect("a span is never empty")
        }
        spanset::End::Unbounded => Interval::starting_at(start),
    }
}

/// An access as of every timestamp is as good as a write as of the lowest or a read as of the highest:
/// one rule then says which reads and writes conflict.
fn reach(access: Access, at: Option<Timestamp>) -> Timestamp {
    at.unwrap_or(match access {
        Access::Read => Timestamp::MAX,
        Access::Write => Timestamp::MIN,
    })
}

/// Whether a write and a read of one key conflict: the read sees what the write changes.
pub(super) fn write_meets_read(write: Timestamp, read: Timestamp) -> bool {
    write <= read
}
