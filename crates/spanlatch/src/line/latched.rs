//! The latches of one scope.

use spanset::{Access, Scope};

use super::pool::Pool;
use crate::latch::{Latch, Owner};
use crate::look::{Found, Look, Phase};
use crate::queue::Queue;
use crate::request::Request;
use crate::slots::Slots;

/// The latches of one scope.
#[derive(Debug)]
pub(crate) struct Latched {
    pub(crate) writes: Pool,
    pub(crate) reads: Pool,
    /// Requests whose reads have found no room among the recent ones, earliest first. Their reads enter
    /// the tree when the first later write looks for them; where nothing is written, none does.
    pub(crate) unsettled: Queue,
    /// How many such reads there are.
    pub(crate) unsettled_reads: usize,
}

impl Latched {
    /// No latches yet, and room for so many recent ones of each access.
    pub(crate) fn new(scope: Scope, recent: usize) -> Self {
        Latched {
            writes: Pool::new(recent),
            reads: Pool::new(recent),
            unsettled: Queue::new(scope as usize),
            unsettled_reads: 0,
        }
    }

    /// How many reads there are.
    pub(crate) fn reads(&self) -> usize {
        self.reads.len() + self.unsettled_reads
    }

    /// Puts a latch of a request in line. O(log n) for a write, O(1) for a read.
    #[inline]
    pub(crate) fn insert(&mut self, latch: &Latch, request: &Request, index: usize) {
        let owner = Owner::new(latch, request.id, index);
        match latch.access {
            Access::Write => {
                let latches = request.latches.len();
                self.writes.insert(latch.interval.clone(), owner, latches);
            }
            Access::Read if request.recent[latch.scope as usize] => {
                self.reads.recent.push(latch.interval.clone(), owner);
            }
            Access::Read => self.unsettled_reads += 1,
        }
    }

    /// Takes a latch of a request out of the line. O(log n).
    #[inline]
    pub(crate) fn remove(&mut self, latch: &Latch, request: &Request, index: usize) {
        let owner = Owner::new(latch, request.id, index);
        match latch.access {
            Access::Write => self.writes.remove(&latch.interval, &owner),
            Access::Read if request.is_settled(latch.scope, index) => {
                self.reads.remove(&latch.interval, &owner);
            }
            Access::Read => self.unsettled_reads -= 1,
        }
    }

    /// Whether any latch overlaps this one that may conflict with it, as far as a glance tells: mostly
    /// none does. O(log n).
    #[inline]
    pub(crate) fn may_conflict(&self, latch: &Latch) -> bool {
        self.writes.may_overlap(&latch.interval)
            || latch.access == Access::Write
                && (self.unsettled_reads > 0 || self.reads.may_overlap(&latch.interval))
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
            let found = (self.writes).search(look, Access::Write, latch, sequence, steps);
            if found != Found::Nothing || latch.access == Access::Read {
                return found;
            }
            look.phase = Phase::Reads;
        }
        if self.unsettled_reads > 0 && !self.settle(requests, latch.scope, sequence, steps) {
            return Found::OutOfSteps;
        }
        let found = (self.reads).search(look, Access::Read, latch, sequence, steps);
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
                    let owner = Owner::new(latch, request.id, index);
                    self.reads.insert_in_tree(latch.interval.clone(), owner);
                    self.unsettled_reads -= 1;
                }
                *settled = index as u32 + 1;
            }
            self.unsettled.remove(requests, slot);
        }
        true
    }
}
