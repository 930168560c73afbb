//! The latches of one scope and access.

use interval_btree::Interval;
use spanset::{Access, CompactKey, conflicts};

use super::recent::Recent;
use crate::latch::{Latch, Owner, Seat};
use crate::look::{Found, LatchTree, Look};
use crate::slots::Slots;

/// The latches of one scope and access: a few that are looked through, and a tree.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) recent: Recent,
    pub(crate) tree: LatchTree,
    /// How many latches in a row have found no room among the recent ones.
    refused: usize,
    /// How often recent ones have moved to the tree.
    moves: u64,
}

impl Pool {
    /// An empty pool with room for so many recent ones.
    pub(crate) fn new(recent: usize) -> Self {
        Pool {
            recent: Recent::new(recent),
            tree: LatchTree::default(),
            refused: 0,
            moves: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.recent.len() + self.tree.len()
    }

    /// Whether any latch overlaps, as far as a glance tells: if not, none does. O(log n).
    #[inline]
    pub(crate) fn may_overlap(&self, interval: &Interval<CompactKey>) -> bool {
        self.recent.may_overlap(interval) || self.tree.overlaps(interval)
    }

    /// Searches for a latch of a request sequenced before `sequence` that conflicts with `latch`, from where
    /// `look` stopped, in at most `steps` steps; all latches here have `access`. Of the recent ones and the
    /// tree, the newer conflict is found.
    pub(crate) fn search(
        &self,
        requests: &Slots,
        look: &mut Look,
        access: Access,
        latch: &Latch,
        sequence: u64,
        steps: &mut usize,
    ) -> Found {
        // Recent ones may have moved to the tree, behind the search.
        let before = look.resume(self.moves);
        let found = look.search(&self.tree, access, latch, sequence, steps);
        let recent = self.recent.candidates(&latch.interval).filter(|seat| {
            // In this order: a latch is in another request's memory, a seat is here.
            seat.sequence < sequence && {
                let other = requests.latch(seat);
                conflicts((latch.access, latch.timestamp), (access, other.timestamp))
                    && other.interval.overlaps(&latch.interval)
            }
        });
        let Some(recent) = recent.max_by_key(|seat| seat.sequence) else {
            return found;
        };
        match found {
            Found::Conflict(in_tree) if in_tree.seat.sequence > recent.sequence => return found,
            // It is still to be waited for.
            Found::Conflict(_) => look.go_back(before),
            Found::Nothing | Found::OutOfSteps => {}
        }
        Found::Conflict(Owner::new(requests.latch(recent), *recent))
    }

    /// Inserts one of so many latches: among the recent ones if there is room, and if they would not take it
    /// all. Says whether the recent ones turn out to be held for long, and should make room. O(log n).
    #[inline]
    pub(crate) fn insert(&mut self, latch: &Latch, seat: Seat, latches: u32) -> bool {
        if latches as usize > self.recent.capacity {
            self.insert_in_tree(latch, seat);
            return false;
        }
        if self.recent.room() > 0 {
            self.refused = 0;
            self.recent.push(&latch.interval, seat);
            return false;
        }
        self.insert_in_tree(latch, seat);
        self.refused += 1;
        self.refused >= self.recent.capacity
    }

    pub(crate) fn insert_in_tree(&mut self, latch: &Latch, seat: Seat) {
        insert(&mut self.tree, latch, seat);
    }

    /// Moves the recent ones to the tree.
    pub(crate) fn make_room(&mut self, requests: &Slots) {
        self.refused = 0;
        self.moves += 1;
        for seat in self.recent.drain() {
            insert(&mut self.tree, requests.latch(&seat), seat);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, latch: &Latch, seat: Seat) {
        if !self.recent.remove(&seat) {
            let removed = (self.tree).remove(&latch.interval, &Owner::new(latch, seat));
            debug_assert!(removed.is_some(), "a latch was gone before its release");
        }
    }

    /// For [`Line::verify`](super::Line::verify).
    pub(crate) fn contains(&self, latch: &Latch, seat: Seat) -> bool {
        let owner = Owner::new(latch, seat);
        self.recent.contains(&seat) != self.tree.contains(&latch.interval, &owner)
    }
}

fn insert(tree: &mut LatchTree, latch: &Latch, seat: Seat) {
    let displaced = tree.insert(latch.interval.clone(), Owner::new(latch, seat));
    debug_assert!(displaced.is_none(), "a latch displaced another");
}
