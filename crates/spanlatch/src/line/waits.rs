//! Requests that wait: parking, poison, and what is slow.

use std::task::Waker;
use std::time::{Duration, Instant};

use spanlatch_metrics::LatchMetrics;
use spanset::Declaration;

use super::Line;
use crate::error::WaitError;
use crate::label::Label;
use crate::latch::{Listed, Owner, RequestId};
use crate::look::Found;
use crate::poison::OnPoison;
use crate::queue::{Links, Queue, WAITS};
use crate::request::{Parked, Wait};
use crate::slots::Slots;

/// How many slow waits are described in the log in one second; the others are only counted.
const DESCRIBED: usize = 10;

/// The waits in progress.
#[derive(Debug)]
pub(super) struct Waits {
    len: usize,
    /// Those that are not known to be slow, oldest first.
    queue: Queue,
    /// How many slow waits were described since then, which is less than a second ago.
    described: usize,
    described_since: Option<Instant>,
}

impl Waits {
    pub(super) fn new() -> Self {
        Waits {
            len: 0,
            queue: Queue::new(WAITS),
            described: 0,
            described_since: None,
        }
    }

    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The requests that wait and are not known to be slow, oldest first.
    pub(super) fn iter<'a>(&'a self, requests: &'a Slots) -> impl Iterator<Item = u32> + 'a {
        self.queue.iter(requests)
    }
}

/// What a request needs in order to park. It is made outside the mutex: the clock and the waker are foreign
/// code.
#[derive(Debug)]
pub(crate) struct Parking {
    pub(crate) now: Instant,
    /// Taken when the request parks; it then has one that was replaced, if any, to be dropped after unlocking.
    pub(crate) waker: Option<Waker>,
}

/// How a poll of a request ended.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// It holds its latches; since when it had been waiting, if it had.
    Ended(Option<Instant>),
    /// It has to park and was not given what it needs for that.
    MustPark,
    /// It is parked. Those whom its poison concerns are to be woken.
    Parked(Vec<Waker>),
    /// It fails.
    Failed(WaitError),
}

/// A wait that is slow, with what a person needs to find out why.
#[derive(Debug)]
pub(crate) struct SlowWait {
    pub(crate) request: u64,
    pub(crate) label: Option<Label>,
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
    pub(crate) label: Option<Label>,
    /// `None` if it does not hold its latches: it is about to look again, or has not been polled yet.
    pub(crate) held: Option<Duration>,
    pub(crate) latches: Listed,
}

impl Line {
    /// Goes on with a wait: looks for an earlier conflict and parks on it, to be woken by `waker`, or ends
    /// the wait; `None` if it has to go on in another stay. Bounded by the steps of a look, but for poison, which takes O(those parked here), once.
    pub(crate) fn wait(
        &mut self,
        slot: u32,
        waker: &Waker,
        parking: &mut Option<Parking>,
        metrics: &LatchMetrics,
    ) -> Option<Waiting> {
        // Whoever has found out that nothing is left holds its latches.
        if self.shut_down && !self.requests[slot].holds() {
            return Some(Waiting::Failed(WaitError::ShuttingDown));
        }
        Some(match self.look(slot) {
            Found::Nothing => {
                let request = &mut self.requests[slot];
                let Some((wait, links)) = request.take_wait() else {
                    return Some(Waiting::Ended(None));
                };
                // The waker has been called, or it would not be found out that nothing is left.
                self.forget_wait(links, &wait, metrics);
                Waiting::Ended(Some(wait.since))
            }
            Found::OutOfSteps => return None,
            Found::Conflict(latch) => {
                let on = latch.seat.request();
                let fails = self.requests[slot].on_poison == OnPoison::Fail;
                let poisoned = self.requests[on.slot].poisoned;
                if poisoned && fails {
                    return Some(Waiting::Failed(self.poisoned_error(&latch)));
                }
                if !self.is_parked(slot, on, waker) {
                    match parking {
                        Some(parking) => self.park(slot, on, parking),
                        None => return Some(Waiting::MustPark),
                    }
                }
                Waiting::Parked(match poisoned {
                    true => self.poison(slot),
                    false => Vec::new(),
                })
            }
        })
    }

    fn poisoned_error(&self, latch: &Owner) -> WaitError {
        let latch = self.requests.latch(&latch.seat);
        WaitError::Poisoned(Box::new(latch.declaration()))
    }

    /// Marks a request as stuck, unless it is marked; returns the wakers of those parked on it, who are to
    /// look at that.
    pub(crate) fn poison(&mut self, slot: u32) -> Vec<Waker> {
        let poisoned = std::mem::replace(&mut self.requests[slot].poisoned, true);
        if poisoned {
            return Vec::new();
        }
        self.unpark_all(slot)
    }

    /// At which position a request is parked on another that is held, if it is.
    fn position(&self, slot: u32, on: RequestId) -> Option<usize> {
        let wait = self.requests[slot].wait()?;
        wait.position.filter(|_| wait.on == on)
    }

    /// Whether a request is parked on another that is held, to be woken by `waker`.
    fn is_parked(&self, slot: u32, on: RequestId, waker: &Waker) -> bool {
        let (Some(position), Some(contended)) =
            (self.position(slot, on), &self.requests[on.slot].contended)
        else {
            return false;
        };
        contended.parked_here[position].waker.will_wake(waker)
    }

    /// Parks a request on another that is held, until that is released. O(1).
    fn park(&mut self, slot: u32, on: RequestId, Parking { now, waker }: &mut Parking) {
        let position = self.position(slot, on);
        let parked_here = &mut self.requests[on.slot].contended().parked_here;
        if let (Some(position), Some(waker)) = (position, &mut *waker) {
            std::mem::swap(waker, &mut parked_here[position].waker);
            return;
        }
        let position = Some(parked_here.len());
        let waker = waker.take().expect("prepared to park");
        parked_here.push(Parked { slot, waker });
        let wait = &mut self.requests[slot].contended().wait;
        if let Some(wait) = wait {
            (wait.on, wait.position) = (on, position);
            return;
        }
        *wait = Some(Wait {
            since: *now,
            on,
            position,
        });
        self.waits.len += 1;
        self.waits.queue.push(&mut self.requests, slot);
    }

    /// Takes out the wakers of all who are parked on a request; they go on waiting. O(their number).
    pub(super) fn unpark_all(&mut self, slot: u32) -> Vec<Waker> {
        let Some(contended) = &mut self.requests[slot].contended else {
            return Vec::new();
        };
        let parked_here = std::mem::take(&mut contended.parked_here);
        let mut wakers = Vec::with_capacity(parked_here.len());
        for parked in parked_here {
            if let Some(wait) = &mut self.requests[parked.slot].contended().wait {
                wait.position = None;
            }
            wakers.push(parked.waker);
        }
        wakers
    }

    /// Forgets a wait that has been taken from a request, which need not be in its slot any more; returns
    /// the waker that was registered for it.
    pub(super) fn forget_wait(
        &mut self,
        links: Option<Links>,
        wait: &Wait,
        metrics: &LatchMetrics,
    ) -> Option<Waker> {
        self.waits.len -= 1;
        match links {
            Some(links) => self.waits.queue.close(&mut self.requests, links),
            None => metrics.slow.dec(),
        }
        let position = wait.position.filter(|_| self.requests.contains(wait.on))?;
        let parked_here = &mut self.requests[wait.on.slot].contended().parked_here;
        let waker = parked_here.swap_remove(position).waker;
        if let Some(moved) = parked_here.get(position).map(|parked| parked.slot) {
            let moved = self.requests[moved].contended().wait.as_mut();
            moved.expect("whoever is parked waits").position = Some(position);
        }
        Some(waker)
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
            && let Some(slot) = self.waits.queue.first()
        {
            let request = &mut self.requests[slot];
            let id = request.id;
            let wait = request.wait().expect("who is in the queue waits");
            if now.saturating_duration_since(wait.since) <= threshold {
                break;
            }
            newly_slow.push(id);
            metrics.slow.inc();
            self.waits.queue.remove(&mut self.requests, slot);
        }
        newly_slow
    }

    /// How many of `wanted` slow waits may be described now: [`DESCRIBED`] in a second.
    pub(crate) fn describable(&mut self, wanted: usize, now: Instant) -> usize {
        let second = Duration::from_secs(1);
        let waits = &mut self.waits;
        if (waits.described_since)
            .is_none_or(|since| now.saturating_duration_since(since) >= second)
        {
            waits.described_since = Some(now);
            waits.described = 0;
        }
        let allowed = wanted.min(DESCRIBED - waits.described);
        waits.described += allowed;
        allowed
    }

    /// Describes a wait, if it goes on, with the head of its blocking chain. The chain is followed for
    /// a bounded number of links.
    pub(crate) fn describe(&self, id: RequestId, now: Instant) -> Option<SlowWait> {
        let request = self.requests.get(id)?;
        let contended = request.contended.as_ref()?;
        let wait = contended.wait?;
        // None if it has found out that nothing is left, and was not polled yet.
        let wants = request.latches.get(contended.look.latch)?;
        let elapsed = |since: Instant| now.saturating_duration_since(since);
        let mut head = self.requests.get(wait.on);
        for _ in 0..self.steps {
            match head.and_then(|head| self.requests.get(head.waits_for()?)) {
                Some(on) => head = Some(on),
                None => break,
            }
        }
        Some(SlowWait {
            request: id.sequence,
            label: request.label.clone(),
            waited: elapsed(wait.since),
            wants: wants.declaration(),
            on: wait.on.sequence,
            head: head.map(|head| Head {
                request: head.id.sequence,
                label: head.label.clone(),
                held: head.held_since.map(elapsed),
                latches: Listed::new(&head.latches),
            }),
        })
    }

    /// The part of [`verify`](Line::verify) that concerns waits.
    pub(super) fn verify_waits(&self) {
        let queued = Vec::from_iter(self.waits.iter(&self.requests));
        let mut waiting = 0;
        for request in self.requests.iter() {
            let slot = request.id.slot;
            let parked_here = request.contended.iter().flat_map(|c| &c.parked_here);
            for (position, parked) in parked_here.enumerate() {
                let wait = self.requests[parked.slot].wait().expect("parked");
                let expected = (request.id, Some(position));
                assert_eq!((wait.on, wait.position), expected, "parked");
            }
            let Some(wait) = request.wait() else { continue };
            if let Some(position) = wait.position
                && let Some(on) = self.requests.get(wait.on)
            {
                let parked_here = &on.contended.as_ref().expect("parked").parked_here;
                assert_eq!(parked_here[position].slot, slot, "parked");
            }
            assert!(wait.on.sequence < request.id.sequence, "earlier");
            let links = request.links[WAITS].is_some();
            assert_eq!(links, queued.contains(&slot), "waits");
            waiting += 1;
        }
        assert_eq!(self.waits.len, waiting, "waits");
    }
}
