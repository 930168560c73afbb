//! The latches of one scope.

use spanset::{Access, Scope};

use crate::latch::{Latch, Owner, RequestId};
use crate::look::{Found, LatchTree, Look, Phase};
use crate::queue::Queue;
use crate::slots::Slots;

/// The latches of one scope.
#[derive(Debug)]
pub(crate) struct Latched {
    pub(crate) writes: LatchTree,
    /// Reads enter their tree when the first later write looks for them; where nothing is written,
    /// a read costs no insertion.
    pub(crate) reads: LatchTree,
    /// The requests with reads that are not in the tree yet, earliest first, and how many such reads
    /// there are.
    pub(crate) unsettled: Queue,
    pub(crate) unsettled_reads: usize,
}

impl Latched {
    pub(crate) fn new(scope: Scope) -> Self {
        Latched {
            writes: LatchTree::default(),
            reads: LatchTree::default(),
            unsettled: Queue::new(scope as usize),
            unsettled_reads: 0,
        }
    }

    /// How many reads there are.
    pub(crate) fn reads(&self) -> usize {
        self.reads.len() + self.unsettled_reads
    }

    /// Puts a latch in line. O(log n) for a write, O(1) for a read, which is still to be settled.
    #[inline]
    pub(crate) fn insert(&mut self, latch: &Latch, request: RequestId, index: usize) {
        match latch.access {
            Access::Read => self.unsettled_reads += 1,
            Access::Write => insert(&mut self.writes, latch, request, index),
        }
    }

    /// Takes a latch out of the line; `settled` is how many of its request's have been settled. O(log n).
    #[inline]
    pub(crate) fn remove(&mut self, latch: &Latch, request: RequestId, index: usize, settled: u32) {
        match latch.access {
            Access::Write => remove(&mut self.writes, latch, request, index),
            Access::Read if index < settled as usize => {
                remove(&mut self.reads, latch, request, index);
            }
            Access::Read => self.unsettled_reads -= 1,
        }
    }

    /// Whether any latch overlaps this one that may conflict with it: mostly none does. O(log n).
    #[inline]
    pub(crate) fn may_conflict(&self, latch: &Latch) -> bool {
        self.writes.overlaps(&latch.interval)
            || latch.access == Access::Write
                && (self.unsettled_reads > 0 || self.reads.overlaps(&latch.interval))
    }

    /// Looks for earlier conflicts with one latch, from where `look` stopped, in at most `steps` steps.
    pub(crate) fn look(
        &mut self,
        requests: &mut Slots,
        latch: &Latch,
        sequence: u64,
        look: &mut Look,
        steps: &mut usize,
    ) -> Found {
        if look.phase == Phase::Writes {
            let found = look.search(&self.writes, Access::Write, latch, sequence, steps);
            if found != Found::Nothing || latch.access == Access::Read {
                return found;
            }
            look.phase = Phase::Reads;
        }
        if self.unsettled_reads > 0 && !self.settle(requests, latch.scope, sequence, steps) {
            return Found::OutOfSteps;
        }
        let found = look.search(&self.reads, Access::Read, latch, sequence, steps);
        if found == Found::Nothing {
            look.phase = Phase::Writes;
        }
        found
    }

    /// Puts the reads that were sequenced before `sequence` into the read tree, as far as `steps` go; says
    /// whether all are there now. Later reads stay out.
    pub(crate) fn settle(
        &mut self,
        requests: &mut Slots,
        scope: Scope,
        sequence: u64,
        steps: &mut usize,
    ) -> bool {
        while let Some(slot) = self.unsettled.first() {
            let request = &mut requests[slot];
            if request.id.sequence >= sequence {
                break;
            }
            let settled = &mut request.settled[scope as usize];
            for (index, latch) in (request.latches.iter().enumerate()).skip(*settled as usize) {
                if *steps == 0 {
                    return false;
                }
                *steps -= 1;
                if (latch.scope, latch.access) == (scope, Access::Read) {
                    insert(&mut self.reads, latch, request.id, index);
                    self.unsettled_reads -= 1;
                }
                *settled = index as u32 + 1;
            }
            self.unsettled.remove(requests, slot);
        }
        true
    }
}

fn insert(tree: &mut LatchTree, latch: &Latch, request: RequestId, index: usize) {
    let displaced = tree.insert(latch.interval.clone(), Owner::new(latch, request, index));
    debug_assert!(displaced.is_none(), "a latch displaced another");
}

fn remove(tree: &mut LatchTree, latch: &Latch, request: RequestId, index: usize) {
    let removed = tree.remove(&latch.interval, &Owner::new(latch, request, index));
    debug_assert!(removed.is_some(), "a latch was gone before its release");
}
