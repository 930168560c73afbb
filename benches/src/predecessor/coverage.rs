//! Which of the earlier commands that a command conflicts with it has to wait for itself.

use interval_btree::{End, Interval};
use smallvec::SmallVec;
use spanset::{Access, CompactKey, Timestamp};

use super::part::write_meets_read;

/// An earlier span that conflicts with a span of the new command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overlap<'t> {
    pub(super) interval: &'t Interval<CompactKey>,
    pub(super) access: Access,
    pub(super) at: Timestamp,
    pub(super) sequence: u64,
    pub(super) slot: usize,
}

/// Calls `keep` for the minimal set of `overlaps`, the earlier spans that conflict with `query`.
///
/// Y is left out if every key that it shares with the query is also in some later X that waits for Y:
/// the new command waits for X, or for what stands in for X in turn. X waits for Y if the two
/// conflict; a read never stands in for a read.
///
/// O(n log n) for n overlaps with a point, and for n overlaps with a range O(n log n + n * k), where k
/// is the number of pieces into which they cut it.
pub(super) fn keep_minimal<'t>(
    query: &Interval<CompactKey>,
    overlaps: &mut [Overlap<'t>],
    mut keep: impl FnMut(&Overlap<'t>),
) {
    if let [only] = overlaps {
        return keep(only);
    }
    overlaps.sort_unstable_by_key(|overlap| std::cmp::Reverse(overlap.sequence));
    if query.is_point() {
        // All that they share with the query is its one key.
        let mut latest = Latest::default();
        for command in by_command(overlaps) {
            command
                .iter()
                .filter(|part| !latest.waits_for(part))
                .for_each(&mut keep);
            command.iter().for_each(|part| latest.add(part));
        }
    } else {
        let mut pieces = Pieces::default();
        let shared = |part: &Overlap<'t>| {
            let from = part.interval.start().max(query.start());
            (End::Before(from), part.interval.end().min(query.end()))
        };
        for command in by_command(overlaps) {
            command
                .iter()
                .filter(|part| !pieces.all_wait_for(shared(part), part))
                .for_each(&mut keep);
            command
                .iter()
                .for_each(|part| pieces.add(shared(part), part));
        }
    }
}

/// The overlaps with each command: no command stands in for itself.
fn by_command<'o, 't>(overlaps: &'o [Overlap<'t>]) -> impl Iterator<Item = &'o [Overlap<'t>]> {
    overlaps.chunk_by(|one, other| one.sequence == other.sequence)
}

/// The commands seen at one key: of each access, the one that waits for most.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    lowest_write: Option<Timestamp>,
    highest_read: Option<Timestamp>,
}

impl Latest {
    /// Whether some command seen here, all of which are later, waits for `earlier`.
    fn waits_for(&self, earlier: &Overlap<'_>) -> bool {
        match earlier.access {
            Access::Read => self
                .lowest_write
                .is_some_and(|write| write_meets_read(write, earlier.at)),
            Access::Write => {
                self.lowest_write.is_some()
                    || self
                        .highest_read
                        .is_some_and(|read| write_meets_read(earlier.at, read))
            }
        }
    }

    fn add(&mut self, overlap: &Overlap<'_>) {
        let at = overlap.at;
        match overlap.access {
            Access::Read => {
                self.highest_read = Some(self.highest_read.map_or(at, |read| read.max(at)))
            }
            Access::Write => {
                self.lowest_write = Some(self.lowest_write.map_or(at, |write| write.min(at)))
            }
        }
    }
}

/// Where a piece starts or ends: a cut between keys.
type Cut<'t> = End<&'t CompactKey>;

/// The pieces into which the commands seen so far cut the query, ascending and apart.
#[derive(Debug, Default)]
struct Pieces<'t>(SmallVec<[Piece<'t>; 8]>);

#[derive(Clone, Copy, Debug)]
struct Piece<'t> {
    from: Cut<'t>,
    to: Cut<'t>,
    latest: Latest,
}

impl<'t> Pieces<'t> {
    /// The position of the first piece that ends after `cut`.
    fn first_after(&self, cut: Cut<'t>) -> usize {
        self.0.partition_point(|piece| piece.to <= cut)
    }

    /// Whether at every key between the cuts some command waits for `earlier`.
    fn all_wait_for(&self, (from, to): (Cut<'t>, Cut<'t>), earlier: &Overlap<'t>) -> bool {
        let mut reached = from;
        for piece in &self.0[self.first_after(from)..] {
            if reached >= to {
                break;
            }
            if piece.from > reached || !piece.latest.waits_for(earlier) {
                return false;
            }
            reached = piece.to;
        }
        reached >= to
    }

    /// Records at every key between the cuts that `overlap` was seen.
    fn add(&mut self, (from, to): (Cut<'t>, Cut<'t>), overlap: &Overlap<'t>) {
        self.cut(from);
        self.cut(to);
        let mut at = self.first_after(from);
        let mut reached = from;
        while reached < to {
            let next = self.0.get(at).map_or(to, |piece| piece.from.min(to));
            if reached < next {
                // Nothing was seen here before.
                self.0.insert(
                    at,
                    Piece {
                        from: reached,
                        to: next,
                        latest: Latest::default(),
                    },
                );
            }
            let piece = &mut self.0[at];
            piece.latest.add(overlap);
            reached = piece.to;
            at += 1;
        }
    }

    /// Makes sure that no piece goes across `cut`.
    fn cut(&mut self, cut: Cut<'t>) {
        let at = self.first_after(cut);
        if let Some(piece) = self.0.get_mut(at)
            && piece.from < cut
        {
            let left = Piece { to: cut, ..*piece };
            piece.from = cut;
            self.0.insert(at, left);
        }
    }
}
