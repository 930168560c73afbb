//! A span: a point or a range of keys.

use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;

use crate::End;
use crate::end::successor;

/// A key: any bytes, the empty string included, which is the lowest key.
///
/// `Bytes` is immutable, so that a span never aliases memory that its caller can still change, and
/// cloning one copies no bytes.
pub type Key = Bytes;

/// One key, or all keys from a start (included) up to an end (excluded) or without end.
///
/// A span is never empty and never inverted, and two spans that cover the same keys are equal:
///
/// - **ordered**: a range's start is below its end.
/// - **one form**: `[k, k\0)` covers nothing but `k` and is the point `k`.
///
/// So [`end`](Span::end) is [`End::At`] for points and for nothing else. Spans are ordered by
/// start, then by end.
///
/// ```
/// use spanset::Span;
///
/// let fruit = Span::range("apple", "melon")?;
/// assert!(fruit.overlaps(&Span::point("fig")));
/// assert!(!fruit.overlaps(&Span::point("melon")));
/// assert_eq!(fruit.to_string(), r#"["apple", "melon")"#);
/// # Ok::<(), spanset::EmptySpan>(())
/// ```
///
/// With the feature `serde` it can be read, too; what would be empty is an error then.
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "Unchecked")
)]
pub struct Span {
    start: Key,
    bound: Bound,
}

/// The end of a span, relative to its start.
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Bound {
    Point,
    Before(Key),
    Unbounded,
}

/// A span as it is read: whatever somebody wrote.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Unchecked {
    start: Key,
    bound: Bound,
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for Span {
    type Error = EmptySpan;

    fn try_from(read: Unchecked) -> Result<Self, EmptySpan> {
        match read.bound {
            Bound::Before(end) => Self::range(read.start, end),
            bound => Ok(Self {
                start: read.start,
                bound,
            }),
        }
    }
}

/// A range that would have been empty: its start is not below its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("empty span: start \"{}\" is not below end \"{}\"", start.escape_ascii(), end.escape_ascii())]
pub struct EmptySpan {
    /// The start that was given.
    pub start: Key,
    /// The end that was given.
    pub end: Key,
}

impl Span {
    /// The span of one key.
    pub fn point(key: impl Into<Key>) -> Self {
        Self {
            start: key.into(),
            bound: Bound::Point,
        }
    }

    /// The keys from `start` up to, but not including, `end`.
    ///
    /// # Errors
    ///
    /// [`EmptySpan`], which gives both keys back, unless `start < end`.
    pub fn range(start: impl Into<Key>, end: impl Into<Key>) -> Result<Self, EmptySpan> {
        let (start, end) = (start.into(), end.into());
        if start < end {
            Ok(Self::before(start, end))
        } else {
            Err(EmptySpan { start, end })
        }
    }

    /// The keys from `start` on, without end.
    pub fn starting_at(start: impl Into<Key>) -> Self {
        Self {
            start: start.into(),
            bound: Bound::Unbounded,
        }
    }

    /// All keys.
    pub fn all() -> Self {
        Self::starting_at(Key::new())
    }

    /// The range from `start` to `end`, which is known to be higher, in its one form.
    fn before(start: Key, end: Key) -> Self {
        let bound = if End::Before(&end) == End::At(&start) {
            Bound::Point
        } else {
            Bound::Before(end)
        };
        Self { start, bound }
    }

    /// The lowest key inside.
    pub fn start(&self) -> &Key {
        &self.start
    }

    /// Where the span ends: [`End::At`] its key for a point, [`End::Before`] its end for a range,
    /// [`End::Unbounded`] for a span without end.
    pub fn end(&self) -> End<'_> {
        match &self.bound {
            Bound::Point => End::At(&self.start),
            Bound::Before(end) => End::Before(end),
            Bound::Unbounded => End::Unbounded,
        }
    }

    /// Whether the span is a single key.
    pub fn is_point(&self) -> bool {
        matches!(self.bound, Bound::Point)
    }

    /// Whether some key is in both spans.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.floor() < other.end() && other.floor() < self.end()
    }

    /// Whether every key of `other` is in this span.
    pub fn contains(&self, other: &Span) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }

    /// Whether `key` is in this span.
    pub fn contains_key(&self, key: &[u8]) -> bool {
        match &self.bound {
            Bound::Point => self.start == key,
            Bound::Before(end) => self.start <= key && *end > key,
            Bound::Unbounded => self.start <= key,
        }
    }

    /// The keys that are in both spans, unless there are none.
    pub fn intersection(&self, other: &Span) -> Option<Span> {
        if !self.overlaps(other) {
            return None;
        }
        let start = (&self.start).max(&other.start).clone();
        Some(match self.end().min(other.end()) {
            // A point is all of what it shares with another span.
            End::At(_) => Span::point(start),
            End::Before(end) => Span::before(start, end.clone()),
            End::Unbounded => Span::starting_at(start),
        })
    }

    /// The end of what lies below the span.
    pub(crate) fn floor(&self) -> End<'_> {
        End::Before(&self.start)
    }

    /// Takes in the keys of `other` too, which starts neither below this span nor beyond its end.
    /// O(length of a key) where the joint end is a point's, O(1) else.
    pub(crate) fn join(&mut self, other: &Span) {
        if other.end() <= self.end() {
            return;
        }
        self.bound = match other.end() {
            End::At(key) => Bound::Before(successor(key)),
            End::Before(key) => Bound::Before(key.clone()),
            End::Unbounded => Bound::Unbounded,
        };
    }
}

impl Ord for Span {
    fn cmp(&self, other: &Self) -> Ordering {
        self.start
            .cmp(&other.start)
            .then_with(|| self.end().cmp(&other.end()))
    }
}

impl PartialOrd for Span {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `["a"]`, `["a", "c")` or `["a", ..)`, with the bytes of keys escaped as in a byte string.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[\"{}\"", self.start.escape_ascii())?;
        match &self.bound {
            Bound::Point => f.write_str("]"),
            Bound::Before(end) => write!(f, ", \"{}\")", end.escape_ascii()),
            Bound::Unbounded => f.write_str(", ..)"),
        }
    }
}

/// As [`Display`](fmt::Display).
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
