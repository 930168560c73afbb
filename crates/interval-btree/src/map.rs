//! The map itself.

mod build;
mod traits;
mod verify;

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use crate::iter::{Cursor, Iter, Range};
use crate::node::{Entry, Leaf, MAX_HEIGHT, Node, Path, min_len};
use crate::overlapping::Overlapping;
use crate::{Abbreviate, Interval, Whole};

/// An ordered map of intervals with overlap queries and O(1) snapshots ([`clone`](Clone::clone)).
///
/// An entry is an [`Interval`] and a value. Entries are sorted by interval, then by value: the same
/// interval may be stored with many values, and entries that are equal in both are one. A value may
/// leave a part of itself out of its order; that part is then what the entry maps to.
///
/// `B` is the fan-out: no node has more than `B` entries or children. It is at least 3 and at most
/// 64; anything else does not compile. Of 16, 24 and 32, measured with 16- and 24-byte keys at 16 to
/// 65,536 entries, 32 was the best for queries and changes in place from some 8,000 entries on, and for scans;
/// below, smaller nodes were better by up to a tenth, and a change after a snapshot is
/// cheaper with them (by a quarter with 16).
///
/// `A` says how keys are [abbreviated](Abbreviate) in nodes, which finds them faster; by default, they are
/// not.
///
/// Costs below count comparisons and nodes visited; *n* is the number of entries. A change also
/// copies each node on its path that a snapshot shares, once.
///
/// The order of keys and values must not change while they are in the map. If a comparison panics
/// during a change, that map may afterwards answer wrongly or panic; its snapshots are not
/// affected.
///
/// # Invariants
///
/// - *sorted*: entries are strictly ascending, from the first leaf to the last.
/// - *separated*: the bound between two children is not below the start of any entry before it,
///   and not above the start of any entry after it. It may be that of an entry that is gone.
/// - *balanced*: all leaves are at the same depth.
/// - *filled*: a node other than the root has at least a quarter of `B` parts, and two; a root that is a
///   branch has at least two. None has more than `B`.
/// - *measured*: a branch knows the greatest end in each of its children.
/// - *peaked*: a node knows, for each of its parts, which one up to it reaches furthest, the first
///   of several.
/// - *abbreviated*: a node has the words of its starts (or bounds) and of its peaks' ends, relative to its
///   prefix, and the greatest word where there are none. The prefix may be any.
/// - *counted*: the length is the number of entries.
pub struct IntervalMap<K, V, const B: usize = 32, A: Abbreviate<K> = Whole> {
    /// Absent until the first insertion; an empty leaf after the last removal.
    root: Option<Node<K, V, B, A>>,
    len: usize,
}

impl<K: Ord, V: Ord, const B: usize, A: Abbreviate<K>> IntervalMap<K, V, B, A> {
    /// Checks the invariants that are listed on the type. O(n log n).
    ///
    /// # Panics
    ///
    /// If one is broken, with its name.
    #[doc(hidden)]
    pub fn verify(&self) {
        self.verify_sorted();
        self.verify_separated();
        self.verify_balanced();
        self.verify_filled();
        self.verify_measured();
        self.verify_peaked();
        self.verify_abbreviated();
        self.verify_counted();
    }
}

impl<K, V> IntervalMap<K, V> {
    /// An empty map with the default fan-out. Allocates nothing.
    ///
    /// With another fan-out, say [`IntervalMap::<K, V, B, A>::default()`](Default::default).
    #[must_use]
    pub const fn new() -> Self {
        Self::EMPTY
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> IntervalMap<K, V, B, A> {
    const EMPTY: Self = {
        assert!(
            B >= 3,
            "below a fan-out of 3, a tree cannot be kept balanced"
        );
        assert!(B <= 64, "the greatest fan-out is 64");
        IntervalMap { root: None, len: 0 }
    };

    /// The number of entries. O(1).
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries. O(1).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all entries. O(1), apart from dropping what no snapshot shares.
    pub fn clear(&mut self) {
        *self = Self::EMPTY;
    }

    /// The first entry. O(log n), without comparisons.
    #[must_use]
    pub fn first(&self) -> Option<(&Interval<K>, &V)> {
        Some(Cursor::first(self.tree()?).entry())
    }

    /// The last entry: the one that starts last, not the one that ends last. O(log n), without
    /// comparisons.
    #[must_use]
    pub fn last(&self) -> Option<(&Interval<K>, &V)> {
        Some(Cursor::last(self.tree()?).entry())
    }

    /// All entries in order, from either end. O(log n), then O(1) a step on average.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, K, V, B, A> {
        Iter::new(self.tree(), self.len)
    }

    /// The root, if there are any entries.
    pub(crate) fn tree(&self) -> Option<&Node<K, V, B, A>> {
        self.root.as_ref().filter(|_| self.len > 0)
    }
}

/// Look-ups.
impl<K: Ord, V: Ord, const B: usize, A: Abbreviate<K>> IntervalMap<K, V, B, A> {
    /// The stored value that is equal to `value` in the order of values, at exactly this interval.
    /// O(log n).
    pub fn get(&self, interval: &Interval<K>, value: &V) -> Option<&V> {
        let probe = A::probe(interval.start());
        let (leaf, at) = locate(self.tree()?, &mut [0; MAX_HEIGHT], interval, &probe, value);
        at.ok().map(|at| &leaf.entries[at].1)
    }

    /// Whether there is such an entry. O(log n).
    pub fn contains(&self, interval: &Interval<K>, value: &V) -> bool {
        self.get(interval, value).is_some()
    }

    /// The entries at this one or after it, in order, from either end. O(log n) to begin.
    pub fn iter_from(&self, interval: &Interval<K>, value: &V) -> Range<'_, K, V, B, A> {
        self.seek(interval.start(), |entry| {
            by_entry(entry, interval, value).then(Ordering::Greater)
        })
    }

    /// The entries after this one, which need not be there, in order, from either end. O(log n) to begin.
    pub fn iter_after(&self, interval: &Interval<K>, value: &V) -> Range<'_, K, V, B, A> {
        self.seek(interval.start(), |entry| {
            by_entry(entry, interval, value).then(Ordering::Less)
        })
    }

    /// The entries before this one, which need not be there, in order, from either end: the
    /// nearest is the last. O(log n) to begin.
    pub fn iter_before(&self, interval: &Interval<K>, value: &V) -> Range<'_, K, V, B, A> {
        self.seek_back(interval.start(), |entry| {
            by_entry(entry, interval, value).then(Ordering::Greater)
        })
    }

    /// The entries before this one, and this one if it is there, in order, from either end: the
    /// nearest is the last. O(log n) to begin.
    pub fn iter_through(&self, interval: &Interval<K>, value: &V) -> Range<'_, K, V, B, A> {
        self.seek_back(interval.start(), |entry| {
            by_entry(entry, interval, value).then(Ordering::Less)
        })
    }

    /// The same as [`overlapping`](Self::overlapping), continued strictly after an entry, which may
    /// be gone by now. O(log n) to begin.
    ///
    /// So one can look at some results, let others change the map, and go on.
    ///
    /// ```
    /// use interval_btree::{Interval, IntervalMap};
    ///
    /// let mut map: IntervalMap<u32, char> =
    ///     ('a'..='z').zip(0..).map(|(letter, i)| (Interval::point(i), letter)).collect();
    /// let query = Interval::range(0, 10)?;
    /// let (third, _) = map.overlapping(&query).nth(2).ok_or("there are ten")?;
    /// let third = (*third, 'c');
    /// map.remove(&third.0, &third.1);
    /// let next = map.overlapping_after(&query, (&third.0, &third.1)).next();
    /// assert_eq!(next, Some((&Interval::point(3), &'d')));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overlapping_after<'t, 'q>(
        &'t self,
        query: &'q Interval<K>,
        (interval, value): (&Interval<K>, &V),
    ) -> Overlapping<'t, 'q, K, V, B, A> {
        let Some(root) = self.tree() else {
            return Overlapping::new(None, query);
        };
        let mut path = [0; MAX_HEIGHT];
        let probe = A::probe(interval.start());
        let (leaf, at) = locate(root, &mut path, interval, &probe, value);
        let at = at.map_or_else(|at| at, |at| at + 1);
        Overlapping::at(
            Cursor {
                root,
                path,
                leaf,
                at,
            },
            query,
        )
    }
}

/// Overlap queries and seeks by key.
impl<K: Ord, V, const B: usize, A: Abbreviate<K>> IntervalMap<K, V, B, A> {
    /// The first entry, in order, that overlaps `query`. O(log n), down one path.
    pub fn first_overlap(&self, query: &Interval<K>) -> Option<(&Interval<K>, &V)> {
        let mut node = self.tree()?;
        let start = query.start();
        let probe = A::probe(start);
        loop {
            match node {
                Node::Branch(branch) => {
                    node = &branch.children[branch.first_past(start, &probe)?];
                }
                Node::Leaf(leaf) => {
                    let (interval, value) = &leaf.entries[leaf.first_past(start, &probe)?];
                    return query.reaches(interval.start()).then_some((interval, value));
                }
            }
        }
    }

    /// Whether any entry overlaps `query`. O(log n).
    pub fn overlaps(&self, query: &Interval<K>) -> bool {
        self.first_overlap(query).is_some()
    }

    /// The entries that overlap `query`, in order, found as they are asked for. Allocates nothing.
    ///
    /// O(log n) to begin. An entry that does not overlap is looked at only if it lies in the same
    /// leaf as one that may, and subtrees that end too early are passed by: O(log n) for each
    /// result at worst, O(1) on average where results are neighbours.
    ///
    /// ```
    /// use interval_btree::{Interval, IntervalMap};
    ///
    /// let mut map = IntervalMap::new();
    /// map.insert(Interval::range("a", "m")?, 1);
    /// map.insert(Interval::point("b"), 2);
    /// map.insert(Interval::starting_at("x"), 3);
    /// let found: Vec<_> = map.overlapping(&Interval::range("c", "z")?).map(|(_, v)| *v).collect();
    /// assert_eq!(found, [1, 3]);
    /// # Ok::<(), interval_btree::EmptyInterval<&str>>(())
    /// ```
    pub fn overlapping<'t, 'q>(
        &'t self,
        query: &'q Interval<K>,
    ) -> Overlapping<'t, 'q, K, V, B, A> {
        Overlapping::new(self.tree(), query)
    }

    /// The entries whose *start* lies in a range of keys, in order, from either end. O(log n) to
    /// begin.
    pub fn starting_in<R: RangeBounds<K>>(&self, starts: R) -> Range<'_, K, V, B, A> {
        let from = match starts.start_bound() {
            Bound::Unbounded => self.iter().range,
            Bound::Included(key) => self.seek_start(key, Ordering::Greater),
            Bound::Excluded(key) => self.seek_start(key, Ordering::Less),
        };
        let to = match starts.end_bound() {
            Bound::Unbounded => self.iter().range,
            Bound::Included(key) => self.seek_start_back(key, Ordering::Less),
            Bound::Excluded(key) => self.seek_start_back(key, Ordering::Greater),
        };
        from.intersection(to)
    }

    fn seek_start(&self, key: &K, ties: Ordering) -> Range<'_, K, V, B, A> {
        self.seek(key, |entry| entry.0.start().cmp(key).then(ties))
    }

    fn seek_start_back(&self, key: &K, ties: Ordering) -> Range<'_, K, V, B, A> {
        self.seek_back(key, |entry| entry.0.start().cmp(key).then(ties))
    }

    /// The entries after a place (see [`Node::locate`]) that falls between entries.
    fn seek(&self, start: &K, order: impl Fn(&Entry<K, V>) -> Ordering) -> Range<'_, K, V, B, A> {
        let Some(root) = self.tree() else {
            return Range::EMPTY;
        };
        let mut path = [0; MAX_HEIGHT];
        let (leaf, at) = root.locate(&mut path, start, &A::probe(start), order);
        let cursor = Cursor {
            root,
            path,
            leaf,
            at: at.unwrap_or_else(|at| at),
        };
        Range::between(cursor.normalized(), Some(Cursor::last(root)))
    }

    /// The entries before a place (see [`Node::locate`]) that falls between entries.
    fn seek_back(
        &self,
        start: &K,
        order: impl Fn(&Entry<K, V>) -> Ordering,
    ) -> Range<'_, K, V, B, A> {
        let Some(root) = self.tree() else {
            return Range::EMPTY;
        };
        let mut path = [0; MAX_HEIGHT];
        let (leaf, at) = root.locate(&mut path, start, &A::probe(start), order);
        let cursor = Cursor {
            root,
            path,
            leaf,
            at: at.unwrap_or_else(|at| at),
        };
        Range::between(Some(Cursor::first(root)), cursor.back())
    }
}

/// Changes.
impl<K: Ord + Clone, V: Ord + Clone, const B: usize, A: Abbreviate<K>> IntervalMap<K, V, B, A> {
    /// Inserts an entry. If there is one already with an equal interval and a value that is equal
    /// in the order of values, its value is replaced and returned, and its interval stays. O(log n).
    pub fn insert(&mut self, interval: Interval<K>, value: V) -> Option<V> {
        let root = self.root.get_or_insert_with(Node::empty);
        let start = A::probe(interval.start());
        let mut path = [0; MAX_HEIGHT];
        let (leaf, at) = locate(root, &mut path, &interval, &start, &value);
        let at = match at {
            Ok(at) => {
                let entry = &mut root.leaf_mut(&path, |_, _| {}).entries[at];
                return Some(std::mem::replace(&mut entry.1, value));
            }
            Err(at) => at,
        };
        self.len += 1;
        if leaf.entries.len() == B {
            root.insert_splitting(&path, at, (interval, value));
            return None;
        }
        let words = leaf.words(&start, &interval);
        let end = interval.end();
        let leaf = match leaf.ends_before(end, words[1]) {
            true => root.leaf_mut(&path, |branch, child| branch.raise(child, end)),
            false => root.leaf_mut(&path, |_, _| {}),
        };
        leaf.insert(at, words, (interval, value));
        None
    }

    /// Removes the entry at exactly this interval whose value is equal to `value` in the order of
    /// values, and returns the value that was stored. O(log n).
    pub fn remove(&mut self, interval: &Interval<K>, value: &V) -> Option<V> {
        let mut path = [0; MAX_HEIGHT];
        let probe = A::probe(interval.start());
        let (leaf, at) = locate(self.tree()?, &mut path, interval, &probe, value);
        let at = at.ok()?;
        // Most removals concern nothing above the leaf.
        let is_root = matches!(self.root, Some(Node::Leaf(_)));
        if is_root || leaf.entries.len() > min_len(B) && !leaf.is_furthest(at) {
            self.len -= 1;
            let leaf = self.root.as_mut()?.leaf_mut(&path, |_, _| {});
            return Some(leaf.remove(at).1);
        }
        Some(self.remove_at(&path, at)?.1)
    }

    /// Removes the first entry and returns it. O(log n).
    pub fn pop_first(&mut self) -> Option<(Interval<K>, V)> {
        let Cursor { path, at, .. } = Cursor::first(self.tree()?);
        self.remove_at(&path, at)
    }

    /// Removes the last entry and returns it. O(log n).
    pub fn pop_last(&mut self) -> Option<(Interval<K>, V)> {
        let Cursor { path, at, .. } = Cursor::last(self.tree()?);
        self.remove_at(&path, at)
    }

    /// Keeps the entries for which `keep` holds, asked in order. O(n).
    pub fn retain(&mut self, mut keep: impl FnMut(&Interval<K>, &V) -> bool) {
        let old = std::mem::take(self);
        *self = Self::from_sorted(
            old.into_iter()
                .filter(|(interval, value)| keep(interval, value))
                .collect(),
        );
    }

    /// Removes the entry at a place that `locate` found.
    fn remove_at(&mut self, path: &Path, at: usize) -> Option<Entry<K, V>> {
        let root = self.root.as_mut()?;
        self.len -= 1;
        let (entry, _) = root.remove(path, at);
        if let Node::Branch(branch) = root
            && let [only] = branch.children.as_slice()
        {
            *root = only.clone();
        }
        Some(entry)
    }
}

/// Looks for an entry from the root down.
fn locate<'a, K: Ord, V: Ord, const B: usize, A: Abbreviate<K>>(
    root: &'a Node<K, V, B, A>,
    path: &mut [u8; MAX_HEIGHT],
    interval: &Interval<K>,
    probe: &A::Probe<'_>,
    value: &V,
) -> (&'a Leaf<K, V, B, A>, Result<usize, usize>) {
    root.locate(path, interval.start(), probe, |entry| {
        by_entry(entry, interval, value)
    })
}

fn by_entry<K: Ord, V: Ord>(entry: &Entry<K, V>, interval: &Interval<K>, value: &V) -> Ordering {
    entry.0.cmp(interval).then_with(|| entry.1.cmp(value))
}
