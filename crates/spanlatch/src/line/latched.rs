//! The latches of one scope.

use interval_btree::Interval;
use spanset::{Access, CompactKey, Scope};

use super::pool::Pool;
use super::recent::Recent;
use crate::latch::{Latch, Seat};
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
    /// Intervals that cover all writes of requests with many. The writes enter the tree when the first later
    /// request looks for latches in that interval; where none does, none does.
    pub(crate) covers: Recent,
    /// How many such writes there are.
    pub(crate) unsettled_writes: usize,
}

impl Latched {
    /// No latches yet, and room for so many recent ones of each access.
    pub(crate) fn new(scope: Scope, recent: usize) -> Self {
        Latched {
            writes: Pool::new(recent),
            reads: Pool::new(recent),
            unsettled: Queue::new(scope as usize),
            unsettled_reads: 0,
            covers: Recent::new(recent),
            unsettled_writes: 0,
        }
    }

    /// How many reads and writes there are.
    pub(crate) fn counts(&self) -> [usize; 2] {
        let reads = self.reads.len() + self.unsettled_reads;
        let writes = self.writes.len() + self.unsettled_writes;
        [reads, writes]
    }

    /// Decides how the latches that a request has in this scope will be kept.
    #[inline]
    pub(crate) fn divide(&mut self, request: &mut Request, scope: Scope) {
        let [reads, writes] = &mut request.parts[scope as usize];
        if reads.len as usize > self.reads.recent.room() {
            reads.unsettled = true;
            self.unsettled_reads += reads.len as usize;
        }
        if let Some(covers) = &request.covers
            && let Some(cover) = &covers[scope as usize]
            && self.covers.room() > 0
        {
            writes.unsettled = true;
            self.unsettled_writes += writes.len as usize;
            self.covers.push(cover, Seat::new(request.id, 0));
        }
    }

    /// Puts a latch of a request in line; says whether the recent writes should make room. O(log n) for a
    /// write, O(1) for a read.
    #[inline]
    pub(crate) fn insert(&mut self, latch: &Latch, request: &Request, index: usize) -> bool {
        let part = request.part(latch);
        match (latch.access, part.unsettled) {
            // They have been counted.
            (_, true) => {}
            (Access::Read, false) => {
                let seat = Seat::new(request.id, index);
                self.reads.recent.push(&latch.interval, seat);
            }
            (Access::Write, false) => {
                let seat = Seat::new(request.id, index);
                return self.writes.insert(latch, seat, part.len);
            }
        }
        false
    }

    /// Takes a latch of a request out of the line. O(log n).
    #[inline]
    pub(crate) fn remove(&mut self, latch: &Latch, request: &Request, index: usize) {
        let part = request.part(latch);
        if part.is_untouched() {
            return;
        }
        match (latch.access, part.is_settled(index)) {
            (Access::Read, false) => self.unsettled_reads -= 1,
            (Access::Write, false) => self.unsettled_writes -= 1,
            (Access::Read, true) => self.reads.remove(latch, Seat::new(request.id, index)),
            (Access::Write, true) => self.writes.remove(latch, Seat::new(request.id, index)),
        }
    }

    /// Takes what stands for many latches of a request out of the line, if it is there.
    #[inline]
    pub(crate) fn uncover(&mut self, request: &Request, scope: Scope) {
        let [reads, writes] = request.parts[scope as usize];
        if reads.is_untouched() {
            self.unsettled_reads -= reads.len as usize;
        }
        if writes.is_untouched() {
            self.unsettled_writes -= writes.len as usize;
        }
        if writes.unsettled {
            self.covers.remove(&Seat::new(request.id, 0));
        }
    }

    /// Whether any latch overlaps an interval that may conflict with a latch there, as far as a glance tells:
    /// mostly none does. O(log n).
    #[inline]
    pub(crate) fn may_conflict(&self, access: Access, interval: &Interval<CompactKey>) -> bool {
        self.writes.may_overlap(interval)
            || self.covers.may_overlap(interval)
            || access == Access::Write
                && (self.unsettled_reads > 0 || self.reads.may_overlap(interval))
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
            if !self.settle_writes(requests, latch, sequence, steps) {
                return Found::OutOfSteps;
            }
            let found = (self.writes).search(requests, look, Access::Write, latch, sequence, steps);
            if found != Found::Nothing || latch.access == Access::Read {
                return found;
            }
            look.phase = Phase::Reads;
        }
        if self.unsettled_reads > 0 && !self.settle(requests, latch.scope, sequence, steps) {
            return Found::OutOfSteps;
        }
        let found = (self.reads).search(requests, look, Access::Read, latch, sequence, steps);
        if found == Found::Nothing {
            look.phase = Phase::Writes;
        }
        found
    }

    /// Puts the reads that were sequenced before `sequence` into their tree, as far as `steps` go; says
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
            let before = self.reads.len();
            let done = settle_part(request, (scope, Access::Read), &mut self.reads, steps);
            self.unsettled_reads -= self.reads.len() - before;
            if !done {
                return false;
            }
            self.unsettled.remove(requests, slot);
        }
        true
    }

    /// Puts the writes that were sequenced before `sequence` and whose cover overlaps `latch` into their tree,
    /// as far as `steps` go; says whether all are there now.
    pub(crate) fn settle_writes(
        &mut self,
        requests: &mut Slots,
        latch: &Latch,
        sequence: u64,
        steps: &mut usize,
    ) -> bool {
        loop {
            let cover = self.covers.candidates(&latch.interval).find(|seat| {
                let covers = requests[seat.request().slot].covers.iter();
                let mut covers = covers.flat_map(|covers| &covers[latch.scope as usize]);
                seat.sequence < sequence && covers.any(|cover| cover.overlaps(&latch.interval))
            });
            let Some(&cover) = cover else {
                return true;
            };
            let request = &mut requests[cover.request().slot];
            let before = self.writes.len();
            let done = settle_part(
                request,
                (latch.scope, Access::Write),
                &mut self.writes,
                steps,
            );
            self.unsettled_writes -= self.writes.len() - before;
            if !done {
                return false;
            }
            self.covers.remove(&cover);
        }
    }
}

/// How many steps it takes to put one latch into a tree.
const SETTLING: usize = 4;

/// Puts one part of a request's latches into the tree of `pool`, as far as `steps` go; says whether all are there
/// now.
fn settle_part(
    request: &mut Request,
    (scope, access): (Scope, Access),
    pool: &mut Pool,
    steps: &mut usize,
) -> bool {
    let part = &mut request.parts[scope as usize][access as usize];
    for (index, latch) in (request.latches.iter().enumerate()).skip(part.settled as usize) {
        if *steps == 0 {
            return false;
        }
        if (latch.scope, latch.access) == (scope, access) {
            *steps = steps.saturating_sub(SETTLING);
            pool.insert_in_tree(latch, Seat::new(request.id, index));
        } else {
            *steps -= 1;
        }
        part.settled = index as u32 + 1;
    }
    part.unsettled = false;
    true
}
