//! Intervals that are never empty.

use std::cmp::Ordering;
use std::fmt;

use crate::End;

/// A set of keys without gaps that has a first key: a point, a range, or everything from a key on.
///
/// An interval is never empty. Keys are taken to be dense, as strings are: the tree does not know
/// that no integer lies between 1 and 2, so `[1, 2)` and the point 1 are different intervals, which
/// overlap.
///
/// Intervals are ordered by start, then by [end](End).
///
/// ```
/// use interval_btree::Interval;
///
/// let morning = Interval::range(8, 12)?;
/// let noon = Interval::point(12);
/// let evening = Interval::starting_at(18);
/// assert!(!morning.overlaps(&noon));
/// assert!(morning < noon && evening.contains(&23));
/// assert!(Interval::range(12, 8).is_err());
/// # Ok::<(), interval_btree::EmptyInterval<i32>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interval<K> {
    start: K,
    tail: Tail<K>,
}

/// How an interval goes on after its start. A point does not store its key twice, and is never
/// spelled `Through(start)`, so that equal intervals have one form.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Tail<K> {
    Point,
    Before(K),
    Through(K),
    Unbounded,
}

/// The interval would contain nothing: its end is not above its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("no key lies between the start {start:?} and the end {end:?}")]
pub struct EmptyInterval<K> {
    /// The start that was asked for.
    pub start: K,
    /// The end that was asked for.
    pub end: End<K>,
}

impl<K> Interval<K> {
    /// The interval that contains `at` and nothing else.
    #[inline]
    pub const fn point(at: K) -> Self {
        Interval {
            start: at,
            tail: Tail::Point,
        }
    }

    /// The interval `[start, ..)`: `start` and everything above it.
    #[inline]
    pub const fn starting_at(start: K) -> Self {
        Interval {
            start,
            tail: Tail::Unbounded,
        }
    }

    /// The first key of the interval.
    #[inline]
    pub const fn start(&self) -> &K {
        &self.start
    }

    /// Where the interval ends. A point ends at its key.
    #[inline]
    pub const fn end(&self) -> End<&K> {
        match &self.tail {
            Tail::Point => End::At(&self.start),
            Tail::Before(end) => End::Before(end),
            Tail::Through(end) => End::At(end),
            Tail::Unbounded => End::Unbounded,
        }
    }

    /// Whether the interval contains one key only, as far as one can tell without knowing which
    /// keys there are.
    #[inline]
    pub const fn is_point(&self) -> bool {
        matches!(self.tail, Tail::Point)
    }
}

impl<K: Ord> Interval<K> {
    /// The half-open interval `[start, end)`.
    ///
    /// # Errors
    ///
    /// Unless `start < end`; the error hands both back.
    pub fn range(start: K, end: K) -> Result<Self, EmptyInterval<K>> {
        Self::new(start, End::Before(end))
    }

    /// The interval from `start` to an end of any kind.
    ///
    /// # Errors
    ///
    /// Unless the end is past `start`; the error hands both back.
    pub fn new(start: K, end: End<K>) -> Result<Self, EmptyInterval<K>> {
        let tail = match end {
            End::Before(end) if start < end => Tail::Before(end),
            End::At(end) => match start.cmp(&end) {
                Ordering::Less => Tail::Through(end),
                Ordering::Equal => Tail::Point,
                Ordering::Greater => {
                    return Err(EmptyInterval {
                        start,
                        end: End::At(end),
                    });
                }
            },
            End::Unbounded => Tail::Unbounded,
            end @ End::Before(_) => return Err(EmptyInterval { start, end }),
        };
        Ok(Interval { start, tail })
    }

    /// Whether some key lies in both.
    ///
    /// ```text
    /// [a, b)   [b, c)    no: b belongs to the second alone
    /// [a, b)   [b]       no
    /// [b]      [b, c)    yes
    /// [a, c)   [b, ..)   yes
    /// ```
    #[inline]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.reaches(&other.start) && other.reaches(&self.start)
    }

    /// Whether `key` lies in the interval.
    #[inline]
    pub fn contains(&self, key: &K) -> bool {
        self.start <= *key && self.reaches(key)
    }

    /// Whether the interval's end is past `key`: an interval that starts at `key` and this one
    /// overlap iff this one does not start above what that one covers.
    #[inline]
    pub(crate) fn reaches(&self, key: &K) -> bool {
        match &self.tail {
            Tail::Point => *key <= self.start,
            Tail::Before(end) => key < end,
            Tail::Through(end) => key <= end,
            Tail::Unbounded => true,
        }
    }
}

impl<K: Ord> Ord for Interval<K> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match self.start.cmp(&other.start) {
            Ordering::Equal => match (&self.tail, &other.tail) {
                (Tail::Point, Tail::Point) => Ordering::Equal,
                (Tail::Before(a), Tail::Before(b)) => a.cmp(b),
                _ => self.end().cmp(&other.end()),
            },
            unequal => unequal,
        }
    }
}

impl<K: Ord> PartialOrd for Interval<K> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `[a]`, `[a, b)`, `[a, b]` or `[a, ..)`.
impl<K: fmt::Debug> fmt::Debug for Interval<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { start, tail } = self;
        match tail {
            Tail::Point => write!(f, "[{start:?}]"),
            Tail::Before(end) => write!(f, "[{start:?}, {end:?})"),
            Tail::Through(end) => write!(f, "[{start:?}, {end:?}]"),
            Tail::Unbounded => write!(f, "[{start:?}, ..)"),
        }
    }
}
