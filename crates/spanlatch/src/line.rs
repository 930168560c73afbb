//! The line: everything the manager's mutex protects.

mod inspect;
mod latched;
mod pool;
mod recent;
mod waits;

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use spanlatch_metrics::LatchMetrics;
use spanset::Access;

use crate::counts::Counts;
use crate::latch::{Listed, SCOPES, Seat};
use crate::look::{Found, LatchTree, Look};
use crate::manager::Shared;
use crate::request::{Kind, Request};
use crate::slots::Slots;
use crate::spare;
use crate::wake::wake_all;
pub(crate) use inspect::Noted;
use latched::Latched;
pub(crate) use recent::RECENT;
use waits::Waits;
pub(crate) use waits::{Parking, SlowWait, Waiting};

/// How many entries one stay under the mutex looks at by default beyond the request's own: enough that almost
/// every request is done in one stay, and few enough (some 5 to 10 us) to make nobody wait for long.
pub(crate) const STEPS: usize = 128;

/// All requests in line and their latches, as of now.
///
/// Invariants (checked by [`verify`](Self::verify)):
///
/// - *ids*: a request's id names the slot that it is in and a sequence number given out before.
/// - *pools*: the pools hold exactly the writes of the requests, and their settled reads; nothing of
///   requests that only wait.
/// - *unsettled*: a request with reads that are not settled is in its scope's queue, which is in
///   sequence order.
/// - *covered*: a request with writes that are not settled has a cover in their scope, which all of them lie in.
/// - *parked*: whoever is parked on a request waits for it, and knows at which position.
/// - *earlier*: a request waits only on earlier ones.
/// - *waits*: the queue of waits has exactly the requests that wait and are not known to be slow.
#[derive(Debug)]
pub(crate) struct Line {
    next_sequence: u64,
    requests: Slots,
    scopes: [Latched; 2],
    waits: Waits,
    /// How many entries one stay under the mutex looks at beyond the request's own.
    steps: usize,
    /// How many steps all looks together have taken. For tests.
    steps_taken: u64,
    last_tick: Option<Instant>,
    last_long_hold: Option<Instant>,
    shut_down: bool,
}

impl Line {
    /// Panics, naming the invariant, unless all hold. O(n²); for tests.
    pub(crate) fn verify(&self) {
        let mut pools = [[0; 2]; 2];
        let mut unsettled = [[0; 2]; 2];
        for request in self.requests.iter() {
            let id = request.id;
            assert!(std::ptr::eq(&self.requests[id.slot], request), "ids");
            assert!(id.sequence < self.next_sequence, "ids");
            if request.kind == Kind::WaitsOnly {
                continue;
            }
            for (index, latch) in request.latches.iter().enumerate() {
                let latched = &self.scopes[latch.scope as usize];
                let settled = request.part(latch).is_settled(index);
                let pool = match latch.access {
                    Access::Read => &latched.reads,
                    Access::Write => &latched.writes,
                };
                let seat = Seat::new(id, index);
                assert_eq!(pool.contains(latch, seat), settled, "pools");
                let counted = if settled { &mut pools } else { &mut unsettled };
                counted[latch.scope as usize][latch.access as usize] += 1;
            }
        }
        for (latched, scope) in self.scopes.iter().zip(SCOPES) {
            latched.writes.tree.verify();
            latched.reads.tree.verify();
            let pooled = [latched.reads.len(), latched.writes.len()];
            assert_eq!(pooled, pools[scope as usize], "pools");
            let counted = [latched.unsettled_reads, latched.unsettled_writes];
            assert_eq!(counted, unsettled[scope as usize], "unsettled");
            let queue = Vec::from_iter(latched.unsettled.iter(&self.requests));
            assert!(
                queue.is_sorted_by_key(|&slot| self.requests[slot].id.sequence),
                "unsettled"
            );
            for request in self.requests.iter().filter(|r| r.kind == Kind::Latches) {
                let [reads, writes] = request.parts[scope as usize];
                let queued = queue.contains(&request.id.slot);
                assert_eq!(reads.unsettled, queued, "unsettled");
                let seat = Seat::new(request.id, 0);
                assert_eq!(writes.unsettled, latched.covers.contains(&seat), "covered");
                let cover = request
                    .covers
                    .iter()
                    .flat_map(|covers| &covers[scope as usize]);
                let covered = (request.latches.iter())
                    .filter(|latch| (latch.scope, latch.access) == (scope, Access::Write));
                for (latch, cover) in covered.zip(cover.cycle()) {
                    assert!(cover.start() <= latch.interval.start(), "covered");
                    assert!(cover.end() >= latch.interval.end(), "covered");
                }
            }
        }
        self.verify_waits();
    }
}

impl Line {
    /// An empty line, where a search takes at most `steps` entries in one stay under the mutex, and a `few`
    /// are kept beside each tree.
    pub(crate) fn new(steps: usize, few: usize) -> Self {
        Line {
            next_sequence: 0,
            requests: Slots::default(),
            scopes: SCOPES.map(|scope| Latched::new(scope, few)),
            waits: Waits::new(),
            steps,
            steps_taken: 0,
            last_tick: None,
            last_long_hold: None,
            shut_down: false,
        }
    }
}

/// What a request leaves behind, to be woken, logged and dropped after the mutex has been unlocked.
#[derive(Debug)]
#[must_use]
pub(crate) struct Released {
    request: Box<Request>,
    /// The waker with which it was parked on another, if it was.
    _waker: Option<Waker>,
    /// How long it was held, if that is worth a line in the log.
    long_hold: Option<Duration>,
    /// Slots that are no longer needed.
    _slots: Option<Box<Slots>>,
}

impl Line {
    /// Takes the next place in line, and begins to look for earlier conflicts. Returns the slot, and whether
    /// there are none. O(k log n) for k latches among n.
    pub(crate) fn sequence(&mut self, mut request: Box<Request>) -> (u32, bool) {
        let ready = self.look_first(&mut request) == Found::Nothing;
        (self.enter(request, ready), ready)
    }

    /// As [`sequence`](Self::sequence), but gives the request back if the look finds a conflict.
    pub(crate) fn try_sequence(
        &mut self,
        mut request: Box<Request>,
    ) -> Result<(u32, bool), Box<Request>> {
        let ready = match self.look_first(&mut request) {
            Found::Conflict(_) => return Err(request),
            Found::OutOfSteps => false,
            Found::Nothing => true,
        };
        Ok((self.enter(request, ready), ready))
    }

    /// As [`sequence`](Self::sequence), with a snapshot of the writes by scope as they were before; none
    /// if no earlier conflict was found. `None` if that takes another stay; the request is still there then.
    /// Of `stays`, the last is one without end, since others could add covers for ever.
    pub(crate) fn sequence_optimistic(
        &mut self,
        request: &mut Option<Box<Request>>,
        stays: &mut usize,
    ) -> Option<(u32, bool, Option<[LatchTree; 2]>)> {
        *stays = stays.saturating_sub(1);
        let mut steps = if *stays == 0 { usize::MAX } else { self.steps };
        for latch in request.iter().flat_map(|request| &request.latches) {
            let latched = &mut self.scopes[latch.scope as usize];
            if !latched.settle_writes(&mut self.requests, latch, self.next_sequence, &mut steps) {
                return None;
            }
        }
        let mut request = request.take()?;
        let ready = self.look_first(&mut request) == Found::Nothing;
        let writes = (!ready).then(|| {
            self.scopes.each_mut().map(|latched| {
                latched.writes.make_room(&self.requests);
                latched.writes.tree.clone()
            })
        });
        Some((self.enter(request, ready), ready, writes))
    }

    /// The first, bounded look of a request that is not in line yet: all who are, are earlier.
    fn look_first(&mut self, request: &mut Request) -> Found {
        // Where nothing is in the way of a cover, nothing is in the way of what it covers.
        let free = SCOPES.map(|scope| {
            let cover = request
                .covers
                .as_ref()
                .and_then(|covers| covers[scope as usize].as_ref());
            cover.is_some_and(|cover| {
                !self.scopes[scope as usize].may_conflict(Access::Write, cover)
            })
        });
        for (index, latch) in request.latches.iter().enumerate() {
            let scope = latch.scope as usize;
            if free[scope] && latch.access == Access::Write {
                continue;
            }
            if self.scopes[scope].may_conflict(latch.access, &latch.interval) {
                return self.look_first_from(index, request);
            }
        }
        Found::Nothing
    }

    fn look_first_from(&mut self, index: usize, request: &mut Request) -> Found {
        let mut look = Look::at(index);
        let mut steps = self.steps;
        let mut found = Found::Nothing;
        for latch in &request.latches[index..] {
            let latched = &mut self.scopes[latch.scope as usize];
            let sequence = self.next_sequence;
            found = latched.look(&mut self.requests, latch, sequence, &mut look, &mut steps);
            if found != Found::Nothing {
                let contended = request.contended.get_or_insert_default();
                contended.look = look;
                contended.found = found;
                break;
            }
            look.latch += 1;
        }
        self.steps_taken += (self.steps - steps) as u64;
        found
    }

    /// Puts a request at the end of the line.
    fn enter(&mut self, request: Box<Request>, ready: bool) -> u32 {
        let request = self.requests.insert(self.next_sequence, request);
        self.next_sequence += 1;
        request.held_since = self.last_tick.filter(|_| ready);
        let slot = request.id.slot;
        if request.kind == Kind::WaitsOnly {
            return slot;
        }
        for (latched, scope) in self.scopes.iter_mut().zip(SCOPES) {
            latched.divide(request, scope);
        }
        let mut make_room = [false; 2];
        if request.any_part(|part| !part.unsettled) {
            for (index, latch) in request.latches.iter().enumerate() {
                let scope = latch.scope as usize;
                make_room[scope] |= self.scopes[scope].insert(latch, request, index);
            }
        }
        let parts = request.parts;
        for ((latched, [reads, _]), make_room) in self.scopes.iter_mut().zip(parts).zip(make_room) {
            if reads.unsettled {
                latched.unsettled.push(&mut self.requests, slot);
            }
            if make_room {
                latched.writes.make_room(&self.requests);
            }
        }
        slot
    }

    /// Goes on looking for an earlier conflict, from where the last look stopped, in a bounded number of
    /// steps; what that found is still the answer as long as it is in line.
    pub(crate) fn look(&mut self, slot: u32) -> Found {
        let found = match &self.requests[slot].contended {
            Some(contended) => contended.found,
            None => Found::Nothing,
        };
        match found {
            Found::Nothing => return Found::Nothing,
            Found::Conflict(on) if self.requests.contains(on.seat.request()) => return found,
            Found::Conflict(_) | Found::OutOfSteps => {}
        }
        let mut look = std::mem::take(&mut self.requests[slot].contended().look);
        let found = self.look_on(slot, &mut look);
        let request = &mut self.requests[slot];
        if found == Found::Nothing {
            request.held_since = self.last_tick;
        }
        let contended = request.contended();
        contended.look = look;
        contended.found = found;
        found
    }

    fn look_on(&mut self, slot: u32, look: &mut Look) -> Found {
        let mut steps = self.steps;
        let mut found = Found::Nothing;
        let sequence = self.requests[slot].id.sequence;
        while let Some(latch) = self.requests[slot].latches.get(look.latch) {
            // A copy, since settling reads changes the requests.
            let latch = latch.clone();
            let latched = &mut self.scopes[latch.scope as usize];
            found = latched.look(&mut self.requests, &latch, sequence, look, &mut steps);
            if found != Found::Nothing {
                break;
            }
            look.latch += 1;
        }
        self.steps_taken += (self.steps - steps) as u64;
        found
    }

    /// Takes a request and all its latches out of the line, whether it held or still waited.
    /// O(k log n) for its k latches, whoever is parked on it.
    pub(crate) fn release(
        &mut self,
        slot: u32,
        long_hold: Duration,
        metrics: &LatchMetrics,
    ) -> Released {
        let mut request = self.requests.remove(slot);
        let waited = request.take_wait();
        let waker =
            (waited.as_ref()).and_then(|(wait, links)| self.forget_wait(*links, wait, metrics));
        for (latched, links) in self.scopes.iter_mut().zip(&mut request.links) {
            if let Some(links) = links.take() {
                latched.unsettled.close(&mut self.requests, links);
            }
        }
        if request.kind == Kind::Latches {
            if request.any_part(|part| !part.is_untouched()) {
                for (index, latch) in request.latches.iter().enumerate() {
                    self.scopes[latch.scope as usize].remove(latch, &request, index);
                }
            }
            for (latched, scope) in self.scopes.iter_mut().zip(SCOPES) {
                latched.uncover(&request, scope);
            }
        }
        let long_hold = match (waited.is_some(), request.kind) {
            (false, Kind::Latches) => self.long_hold(request.held_since, long_hold),
            _ => None,
        };
        Released {
            request,
            _waker: waker,
            long_hold,
            _slots: self.requests.take_unneeded(),
        }
    }

    /// How long a request was held, if for longer than `threshold` by the times of the ticks, and none
    /// was logged within a second.
    fn long_hold(&mut self, since: Option<Instant>, threshold: Duration) -> Option<Duration> {
        let now = self.last_tick?;
        let held = now.saturating_duration_since(since?);
        let quiet = self
            .last_long_hold
            .is_none_or(|last| now.saturating_duration_since(last) >= Duration::from_secs(1));
        if held <= threshold || !quiet {
            return None;
        }
        self.last_long_hold = Some(now);
        Some(held)
    }

    /// The number that the next request will have.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// How many latches all looks together have taken a step for.
    pub(crate) fn steps_taken(&self) -> u64 {
        self.steps_taken
    }

    /// Whether a request has found out that no earlier conflict is left.
    pub(crate) fn holds(&self, slot: u32) -> bool {
        self.requests[slot].holds()
    }

    /// Takes note that a request that did not wait was right not to.
    pub(crate) fn validated(&mut self, slot: u32) {
        let request = &mut self.requests[slot];
        request.validated = true;
        request.held_since = self.last_tick;
        request.contended().found = Found::Nothing;
    }

    /// A request's place in sequence order.
    pub(crate) fn sequence_of(&self, slot: u32) -> u64 {
        self.requests[slot].id.sequence
    }

    /// Refuses new requests from now on; returns the wakers of all that wait. O(requests).
    pub(crate) fn shut_down(&mut self) -> Vec<Waker> {
        self.shut_down = true;
        let slots = Vec::from_iter(self.requests.iter().map(|request| request.id.slot));
        let parked = slots.into_iter().flat_map(|slot| self.unpark_all(slot));
        parked.collect()
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    pub(crate) fn counts(&self) -> Counts {
        let [global, local] = self.scopes.each_ref().map(Latched::counts);
        let ([global_reads, global_writes], [local_reads, local_writes]) = (global, local);
        Counts {
            global_reads,
            global_writes,
            local_reads,
            local_writes,
            requests: self.requests.len(),
            waiting: self.waits.len(),
        }
    }
}

impl Released {
    /// Wakes those who were parked on the request, logs a long hold, and keeps the block.
    #[inline]
    pub(crate) fn settle_up(mut self, shared: Arc<Shared>) {
        // First of all: what follows runs foreign code, which may panic.
        if let Some(contended) = &mut self.request.contended
            && !contended.parked_here.is_empty()
        {
            wake_all(contended.parked_here.drain(..).map(|parked| parked.waker));
        }
        if let Some(held) = self.long_hold
            && !std::thread::panicking()
        {
            self.log(held);
        }
        spare::give(self.request, shared);
    }

    #[cold]
    fn log(&self, held: Duration) {
        tracing::warn!(
            request = self.request.id.sequence,
            label = self.request.label.as_ref().map(tracing::field::display),
            ?held,
            latches = %Listed::new(&self.request.latches),
            "latches were held for long"
        );
    }
}
