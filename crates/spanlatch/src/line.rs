//! The line: everything the manager's mutex protects.

use std::task::Waker;
use std::time::{Duration, Instant};

use spanlatch_metrics::LatchMetrics;
use spanset::{Access, Declaration, Scope};

use crate::counts::Counts;
use crate::latch::{Latch, Listed, Owner, RequestId, SCOPES};
use crate::look::{Found, LatchTree, Look, Phase};
use crate::queue::Queue;
use crate::request::{Parked, Request, Wait};
use crate::slots::Slots;
use crate::spare;
use crate::wake::wake_all;

/// How many entries one stay under the mutex looks at by default beyond the request's own: enough that almost
/// every request is done in one stay, and few enough (some 5 us) to make nobody wait for long.
pub(crate) const STEPS: usize = 128;

/// How many slow waits are described in the log in one second; the others are only counted.
const DESCRIBED: usize = 10;

/// All requests in line and their latches, as of now.
///
/// Invariants (checked by [`verify`](Self::verify)):
///
/// - *ids*: a request's id names the slot that it is in and a sequence number given out before.
/// - *trees*: the trees hold exactly the writes of the requests, and their settled reads.
/// - *unsettled*: a request with reads that are not in their tree is in its scope's queue, which is in
///   sequence order.
/// - *parked*: a request that waits on one that is held is registered there, once, at its position.
/// - *earlier*: a request waits only on earlier ones.
/// - *waits*: the queue of waits has exactly the requests that wait and are not known to be slow.
#[derive(Debug)]
pub(crate) struct Line {
    next_sequence: u64,
    requests: Slots,
    scopes: [Latched; 2],
    /// How many requests wait.
    waiting: usize,
    /// Those of them whose wait is not known to be slow, oldest first.
    waits: Queue,
    /// How many entries one stay under the mutex looks at beyond the request's own.
    steps: usize,
    last_tick: Option<Instant>,
    /// How many slow waits were described since then, which is less than a second ago.
    described: usize,
    described_since: Option<Instant>,
    last_long_hold: Option<Instant>,
    shut_down: bool,
}

impl Line {
    /// Panics, naming the invariant, unless all hold. O(n²); for tests.
    pub(crate) fn verify(&self) {
        let mut trees = [[0; 2]; 2];
        let mut unsettled_reads = [0; 2];
        for request in self.requests.iter() {
            let id = request.id;
            assert!(std::ptr::eq(&self.requests[id.slot], request), "ids");
            assert!(id.sequence < self.next_sequence, "ids");
            for (index, latch) in request.latches.iter().enumerate() {
                let latched = &self.scopes[latch.scope as usize];
                let in_tree = match latch.access {
                    Access::Write => true,
                    Access::Read => index < request.settled[latch.scope as usize] as usize,
                };
                let tree = match latch.access {
                    Access::Read => &latched.reads,
                    Access::Write => &latched.writes,
                };
                let owner = Owner::new(latch, id, index);
                assert_eq!(
                    tree.get(&latch.interval, &owner).is_some(),
                    in_tree,
                    "trees"
                );
                trees[latch.scope as usize][latch.access as usize] += usize::from(in_tree);
                unsettled_reads[latch.scope as usize] += usize::from(!in_tree);
            }
        }
        for (latched, sizes) in self.scopes.iter().zip(trees) {
            latched.writes.verify();
            latched.reads.verify();
            assert_eq!(latched.writes.len(), sizes[Access::Write as usize], "trees");
            assert_eq!(latched.reads.len(), sizes[Access::Read as usize], "trees");
        }
        for (latched, scope) in self.scopes.iter().zip(SCOPES) {
            assert_eq!(
                latched.unsettled_reads, unsettled_reads[scope as usize],
                "unsettled"
            );
            let queue = Vec::from_iter(latched.unsettled.iter(&self.requests));
            assert!(
                queue.is_sorted_by_key(|&slot| self.requests[slot].id.sequence),
                "unsettled"
            );
            for request in self.requests.iter() {
                let has_unsettled = request.latches.iter().enumerate().any(|(index, latch)| {
                    (latch.scope, latch.access) == (scope, Access::Read)
                        && index >= request.settled[scope as usize] as usize
                });
                assert!(
                    !has_unsettled || queue.contains(&request.id.slot),
                    "unsettled"
                );
            }
        }
        let queued = Vec::from_iter(self.waits.iter(&self.requests));
        let mut waiting = 0;
        for request in self.requests.iter() {
            let slot = request.id.slot;
            let parked_here = request.contended.iter().flat_map(|c| &c.parked_here);
            for (position, parked) in parked_here.enumerate() {
                let wait = self.requests[parked.slot].wait().expect("parked");
                assert_eq!((wait.on, wait.position), (request.id, position), "parked");
            }
            let Some(wait) = request.wait() else { continue };
            if self.holds(wait.on) && !self.shut_down {
                let on = self.requests[wait.on.slot].contended.as_ref();
                let parked_here = &on.expect("parked").parked_here;
                assert_eq!(parked_here[wait.position].slot, slot, "parked");
            }
            assert!(wait.on.sequence < request.id.sequence, "earlier");
            assert!(wait.slow != queued.contains(&slot), "waits");
            waiting += 1;
        }
        assert_eq!(self.waiting, waiting, "waits");
    }
}

impl Line {
    /// An empty line, where a search takes at most `steps` entries in one stay under the mutex.
    pub(crate) fn new(steps: usize) -> Self {
        Line {
            next_sequence: 0,
            requests: Slots::default(),
            scopes: SCOPES.map(|scope| Latched {
                writes: LatchTree::new(),
                reads: LatchTree::new(),
                unsettled: Queue::new(scope as usize),
                unsettled_reads: 0,
            }),
            waiting: 0,
            waits: Queue::new(SCOPES.len()),
            steps,
            last_tick: None,
            described: 0,
            described_since: None,
            last_long_hold: None,
            shut_down: false,
        }
    }
}

/// The latches of one scope.
#[derive(Debug)]
struct Latched {
    writes: LatchTree,
    /// Reads enter their tree when the first later write looks for them; where nothing is written,
    /// a read costs no insertion.
    reads: LatchTree,
    /// The requests with reads that are not in the tree yet, earliest first, and how many such reads
    /// there are.
    unsettled: Queue,
    unsettled_reads: usize,
}

impl Latched {
    /// Whether any latch overlaps this one that may conflict with it: mostly none does. O(log n).
    #[inline]
    fn may_conflict(&self, latch: &Latch) -> bool {
        self.writes.overlaps(&latch.interval)
            || latch.access == Access::Write
                && (self.unsettled_reads > 0 || self.reads.overlaps(&latch.interval))
    }

    /// Looks for earlier conflicts with one latch, from where `look` stopped, in at most `steps` steps.
    fn look(
        &mut self,
        requests: &mut Slots,
        latch: &Latch,
        sequence: u64,
        look: &mut Look,
        steps: &mut usize,
    ) -> Found {
        if look.phase == Phase::Writes {
            let found = look.search(&self.writes, latch, sequence, steps);
            if found != Found::Nothing || latch.access == Access::Read {
                return found;
            }
            look.phase = Phase::Reads;
        }
        if self.unsettled_reads > 0 && !self.settle(requests, latch.scope, sequence, steps) {
            return Found::OutOfSteps;
        }
        let found = look.search(&self.reads, latch, sequence, steps);
        if found == Found::Nothing {
            look.phase = Phase::Writes;
        }
        found
    }

    /// Puts the reads that were sequenced before `sequence` into the read tree, as far as `steps` go; says
    /// whether all are there now. Later reads stay out.
    fn settle(
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
    _slots: Option<Slots>,
}

/// A wait that is slow, with what a person needs to find out why.
#[derive(Debug)]
pub(crate) struct SlowWait {
    pub(crate) request: u64,
    pub(crate) waited: Duration,
    pub(crate) wants: Declaration,
    /// Whom it is parked on.
    pub(crate) on: u64,
    /// `None` if the request that it is parked on has just been released.
    pub(crate) head: Option<Head>,
}

/// Where a blocking chain begins.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) request: u64,
    /// `None` if it does not hold its latches: it is about to look again, or has not been polled yet.
    pub(crate) held: Option<Duration>,
    pub(crate) latches: Listed,
}

impl Line {
    /// Takes the next place in line, and begins to look for earlier conflicts. O(k log n) for k latches
    /// among n.
    pub(crate) fn sequence(&mut self, mut request: Box<Request>) -> (RequestId, Found) {
        let id = self.requests.reserve(self.next_sequence);
        self.next_sequence += 1;
        request.id = id;
        let mut found = Found::Nothing;
        let mut reads = [false; 2];
        let Request {
            latches, contended, ..
        } = &mut *request;
        for (index, latch) in latches.iter().enumerate() {
            let latched = &mut self.scopes[latch.scope as usize];
            // Looking first: the request would meet its own latch.
            if found == Found::Nothing && latched.may_conflict(latch) {
                let mut look = Look::at(index);
                let mut steps = self.steps;
                found = latched.look(
                    &mut self.requests,
                    latch,
                    id.sequence,
                    &mut look,
                    &mut steps,
                );
                if found != Found::Nothing {
                    let contended = contended.get_or_insert_default();
                    contended.look = look;
                    contended.on = found.conflict();
                }
            }
            match latch.access {
                Access::Read => {
                    reads[latch.scope as usize] = true;
                    latched.unsettled_reads += 1;
                }
                Access::Write => insert(&mut latched.writes, latch, id, index),
            }
        }
        request.held_since = match found {
            Found::Nothing => self.last_tick,
            _ => None,
        };
        self.requests.put(request);
        for (latched, reads) in self.scopes.iter_mut().zip(reads) {
            if reads {
                latched.unsettled.push(&mut self.requests, id.slot);
            }
        }
        (id, found)
    }

    /// Goes on looking for an earlier conflict, from where the last look stopped, in a bounded number of
    /// steps; what that found is still the answer as long as it is in line.
    pub(crate) fn look(&mut self, id: RequestId) -> Found {
        let contended = self.requests[id.slot].contended();
        if let Some(on) = contended.on
            && self.requests.contains(on)
        {
            return Found::Conflict(on);
        }
        let mut look = std::mem::take(&mut self.requests[id.slot].contended().look);
        let found = self.look_on(id, &mut look);
        let request = &mut self.requests[id.slot];
        if found == Found::Nothing {
            request.held_since = self.last_tick;
        }
        let contended = request.contended();
        contended.look = look;
        contended.on = found.conflict();
        found
    }

    fn look_on(&mut self, id: RequestId, look: &mut Look) -> Found {
        let mut steps = self.steps;
        while let Some(latch) = self.requests[id.slot].latches.get(look.latch) {
            // A copy, since settling reads changes the requests.
            let latch = latch.clone();
            let latched = &mut self.scopes[latch.scope as usize];
            let found = latched.look(&mut self.requests, &latch, id.sequence, look, &mut steps);
            if found != Found::Nothing {
                return found;
            }
            look.latch += 1;
        }
        Found::Nothing
    }

    /// Parks `id` on `on`, which is held, until that is released. O(1).
    ///
    /// Takes the waker out of `waker` if it parks, and leaves one there that it replaced: what is in it
    /// afterwards is to be dropped after unlocking.
    pub(crate) fn park(
        &mut self,
        id: RequestId,
        on: RequestId,
        now: Instant,
        waker: &mut Option<Waker>,
    ) {
        let wait = self.requests[id.slot].contended().wait;
        let parked_here = &mut self.requests[on.slot].contended().parked_here;
        if let Some(wait) = wait
            && wait.on == on
        {
            if let Some(waker) = waker {
                std::mem::swap(waker, &mut parked_here[wait.position].waker);
            }
            return;
        }
        let position = parked_here.len();
        parked_here.extend(waker.take().map(|waker| Parked {
            slot: id.slot,
            waker,
        }));
        let wait = &mut self.requests[id.slot].contended().wait;
        if let Some(wait) = wait {
            (wait.on, wait.position) = (on, position);
            return;
        }
        *wait = Some(Wait {
            since: now,
            on,
            position,
            slow: false,
        });
        self.waiting += 1;
        self.waits.push(&mut self.requests, id.slot);
    }

    /// Whether `id` is still in line.
    pub(crate) fn holds(&self, id: RequestId) -> bool {
        self.requests.contains(id)
    }

    /// Ends the wait of a request that now holds its latches; says since when it had been waiting.
    pub(crate) fn acquired(
        &mut self,
        id: RequestId,
        now: Instant,
        metrics: &LatchMetrics,
    ) -> Option<Instant> {
        self.requests[id.slot].held_since = Some(now);
        let (wait, _) = self.end_wait(id.slot, metrics)?;
        Some(wait.since)
    }

    /// Takes `id` and all its latches out of the line, whether it held or still waited.
    /// O(k log n) for its k latches, whoever is parked on it.
    pub(crate) fn release(
        &mut self,
        id: RequestId,
        long_hold: Duration,
        metrics: &LatchMetrics,
    ) -> Released {
        let waited = self.end_wait(id.slot, metrics);
        for latched in &mut self.scopes {
            latched.unsettled.remove(&mut self.requests, id.slot);
        }
        let request = self.requests.remove(id.slot);
        for (index, latch) in request.latches.iter().enumerate() {
            let latched = &mut self.scopes[latch.scope as usize];
            match latch.access {
                Access::Write => remove(&mut latched.writes, latch, id, index),
                Access::Read if index < request.settled[latch.scope as usize] as usize => {
                    remove(&mut latched.reads, latch, id, index);
                }
                Access::Read => latched.unsettled_reads -= 1,
            }
        }
        let long_hold = match waited {
            Some(_) => None,
            None => self.long_hold(request.held_since, long_hold),
        };
        Released {
            request,
            _waker: waited.and_then(|(_, waker)| waker),
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

    /// Forgets that `slot` waits; returns the wait, and the waker that was registered for it.
    #[inline]
    fn end_wait(&mut self, slot: u32, metrics: &LatchMetrics) -> Option<(Wait, Option<Waker>)> {
        let wait = self.requests[slot].contended.as_mut()?.wait.take()?;
        Some((wait, self.forget_wait(slot, &wait, metrics)))
    }

    fn forget_wait(&mut self, slot: u32, wait: &Wait, metrics: &LatchMetrics) -> Option<Waker> {
        self.waiting -= 1;
        self.waits.remove(&mut self.requests, slot);
        if wait.slow {
            metrics.slow.dec();
        }
        let mut waker = None;
        if self.holds(wait.on) && !self.shut_down {
            let parked_here = &mut self.requests[wait.on.slot].contended().parked_here;
            waker = Some(parked_here.swap_remove(wait.position).waker);
            if let Some(moved) = parked_here.get(wait.position).map(|parked| parked.slot) {
                let moved = self.requests[moved].contended().wait.as_mut();
                moved.expect("whoever is parked waits").position = wait.position;
            }
        }
        waker
    }

    /// Refuses new requests from now on; returns the wakers of all that wait. O(requests).
    pub(crate) fn shut_down(&mut self) -> Vec<Waker> {
        self.shut_down = true;
        self.requests
            .iter_mut()
            .filter_map(|request| request.contended.as_mut())
            .flat_map(|contended| std::mem::take(&mut contended.parked_here))
            .map(|parked| parked.waker)
            .collect()
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    pub(crate) fn counts(&self) -> Counts {
        let [global, local] = &self.scopes;
        Counts {
            global_reads: global.reads.len() + global.unsettled_reads,
            global_writes: global.writes.len(),
            local_reads: local.reads.len() + local.unsettled_reads,
            local_writes: local.writes.len(),
            requests: self.requests.len(),
            waiting: self.waiting,
        }
    }

    /// Notes the time, and counts waits that have become slow, a bounded number of them; returns the
    /// requests that were counted.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        threshold: Duration,
        metrics: &LatchMetrics,
    ) -> Vec<RequestId> {
        self.last_tick = self.last_tick.max(Some(now));
        let mut newly_slow = Vec::new();
        while newly_slow.len() < self.steps
            && let Some(slot) = self.waits.first()
        {
            let request = &mut self.requests[slot];
            let id = request.id;
            let wait = (request.contended().wait.as_mut()).expect("who is in the queue waits");
            if now.saturating_duration_since(wait.since) <= threshold {
                break;
            }
            wait.slow = true;
            newly_slow.push(id);
            metrics.slow.inc();
            self.waits.remove(&mut self.requests, slot);
        }
        newly_slow
    }

    /// How many of `wanted` slow waits may be described now: [`DESCRIBED`] in a second.
    pub(crate) fn describable(&mut self, wanted: usize, now: Instant) -> usize {
        let second = Duration::from_secs(1);
        if (self.described_since).is_none_or(|since| now.saturating_duration_since(since) >= second)
        {
            self.described_since = Some(now);
            self.described = 0;
        }
        let allowed = wanted.min(DESCRIBED - self.described);
        self.described += allowed;
        allowed
    }

    /// Describes a wait, if it goes on, with the head of its blocking chain. The chain is followed for
    /// a bounded number of links.
    pub(crate) fn describe(&self, id: RequestId, now: Instant) -> Option<SlowWait> {
        let request = self.requests.get(id)?;
        let contended = request.contended.as_ref()?;
        let wait = contended.wait?;
        let elapsed = |since: Instant| now.saturating_duration_since(since);
        let mut head = self.requests.get(wait.on);
        for _ in 0..self.steps {
            match head.and_then(|head| self.requests.get(head.wait()?.on)) {
                Some(on) => head = Some(on),
                None => break,
            }
        }
        Some(SlowWait {
            request: id.sequence,
            waited: elapsed(wait.since),
            wants: request.latches[contended.look.latch].declaration(),
            on: wait.on.sequence,
            head: head.map(|head| Head {
                request: head.id.sequence,
                held: head.held_since.map(elapsed),
                latches: Listed::new(&head.latches),
            }),
        })
    }
}

impl Released {
    /// Logs a long hold, and wakes those who were parked on the request.
    pub(crate) fn settle_up(mut self) {
        let contended = self.request.contended.as_mut();
        let parked_here = contended
            .filter(|contended| !contended.parked_here.is_empty())
            .map(|contended| std::mem::take(&mut contended.parked_here));
        if let Some(held) = self.long_hold {
            self.log(held);
        }
        spare::give(self.request);
        if let Some(parked_here) = parked_here {
            wake_all(parked_here.into_iter().map(|parked| parked.waker));
        }
    }

    #[cold]
    fn log(&self, held: Duration) {
        tracing::warn!(
            request = self.request.id.sequence,
            ?held,
            latches = %Listed::new(&self.request.latches),
            "latches were held for long"
        );
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
