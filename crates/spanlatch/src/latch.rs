//! A latch: one declared span, as the manager keeps it.

use std::cmp::Ordering;
use std::fmt;

use interval_btree::{End, Interval};
use spanset::{Access, CompactKey, Declaration, Key, Scope, Span, Timestamp};

/// Which request, and where it is kept.
///
/// Slots are recycled, sequence numbers are not: a slot is this request's only as long as it holds
/// this sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RequestId {
    /// The request's place in line: smaller is earlier.
    pub(crate) sequence: u64,
    /// The request's slot in the [`Line`](crate::line::Line).
    pub(crate) slot: u32,
}

/// Both scopes, in the order of their discriminants.
pub(crate) const SCOPES: [Scope; 2] = [Scope::Global, Scope::Local];

/// One declared span of a request.
#[derive(Clone, Debug)]
pub(crate) struct Latch {
    pub(crate) interval: Interval<CompactKey>,
    pub(crate) access: Access,
    pub(crate) scope: Scope,
    pub(crate) timestamp: Option<Timestamp>,
}

impl From<&Declaration> for Latch {
    #[inline]
    fn from(declaration: &Declaration) -> Self {
        Latch {
            interval: interval(declaration.span()),
            access: declaration.access(),
            scope: declaration.scope(),
            timestamp: declaration.timestamp(),
        }
    }
}

#[inline]
fn interval(span: &Span) -> Interval<CompactKey> {
    // Keys are made where they are to stay: moving one right after it was put together costs more than that.
    match span.end() {
        spanset::End::At(key) => Interval::point(CompactKey::from(key)),
        spanset::End::Before(end) => {
            let range = Interval::range(CompactKey::from(span.start()), CompactKey::from(end));
            range.expect("a span is never empty")
        }
        spanset::End::Unbounded => Interval::starting_at(CompactKey::from(span.start())),
    }
}

impl Latch {
    /// A read of all keys.
    pub(crate) fn everything(scope: Scope) -> Self {
        Latch {
            interval: Interval::starting_at(CompactKey::from(&b""[..])),
            access: Access::Read,
            scope,
            timestamp: None,
        }
    }

    /// What was declared, for people to read.
    pub(crate) fn declaration(&self) -> Declaration {
        let start = self.interval.start();
        let span = match self.interval.end() {
            End::Unbounded => Span::starting_at(start.to_key()),
            End::Before(end) => range(start.to_key(), end.to_key()),
            End::At(end) if end == start => Span::point(start.to_key()),
            End::At(end) => range(start.to_key(), [&end.to_key()[..], b"\0"].concat()),
        };
        match (self.scope, self.timestamp) {
            (Scope::Local, _) => Declaration::local(self.access, span),
            (Scope::Global, None) => Declaration::global(self.access, span),
            (Scope::Global, Some(at)) => Declaration::global_at(self.access, span, at),
        }
    }
}

fn range(start: Key, end: impl Into<Key>) -> Span {
    Span::range(start, end).expect("a latch is never empty")
}

/// A request's latches as a person wants to read them: the first few, and how many more there are.
#[derive(Debug)]
pub(crate) struct Listed {
    shown: Vec<Declaration>,
    more: usize,
}

impl Listed {
    const SHOWN: usize = 3;

    pub(crate) fn new(latches: &[Latch]) -> Self {
        let shown = Vec::from_iter(latches.iter().take(Self::SHOWN).map(Latch::declaration));
        let more = latches.len() - shown.len();
        Listed { shown, more }
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, declaration) in self.shown.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{declaration}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Whose a latch is: a request, and which of its latches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The request's place in line.
    pub(crate) sequence: u64,
    slot: u32,
    /// A request may declare one interval several times.
    index: u32,
}

impl Seat {
    #[inline]
    pub(crate) fn new(request: RequestId, index: usize) -> Self {
        Seat {
            sequence: request.sequence,
            slot: request.slot,
            index: u32::try_from(index).expect("fewer than 2^32 spans in one request"),
        }
    }

    pub(crate) fn request(self) -> RequestId {
        RequestId {
            sequence: self.sequence,
            slot: self.slot,
        }
    }

    /// Which of the request's latches this is.
    pub(crate) fn index(self) -> usize {
        self.index as usize
    }
}

/// What a tree keeps beside a latch's interval: whose it is, and as of when.
///
/// Among latches on one interval the newest request comes first: a queue of writers on one key is
/// then a chain in which each parks on the one just ahead of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) seat: Seat,
    pub(crate) timestamp: Option<Timestamp>,
}

impl Owner {
    #[inline]
    pub(crate) fn new(latch: &Latch, seat: Seat) -> Self {
        Owner {
            seat,
            timestamp: latch.timestamp,
        }
    }

    /// In order, what lies on one interval between the latches of later requests and those of this one.
    pub(crate) fn at(sequence: u64) -> Self {
        let request = RequestId { sequence, slot: 0 };
        Owner {
            seat: Seat::new(request, 0),
            timestamp: None,
        }
    }
}

impl Ord for Owner {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two) = (self.seat, other.seat);
        (two.sequence, one.index).cmp(&(one.sequence, two.index))
    }
}

impl PartialOrd for Owner {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Owner {}
