//! A request in line: its latches, who is parked on it, and whom it is parked on.

use std::fmt;
use std::task::Waker;
use std::time::Instant;

use interval_btree::Interval;
use smallvec::SmallVec;
use spanset::{Access, CompactKey, SpanSet};

use crate::label::Label;
use crate::latch::{Latch, RequestId, SCOPES};
use crate::look::{Found, Look};
use crate::poison::OnPoison;
use crate::queue::{Links, QUEUES, WAITS};

/// A request that has been sequenced and not released.
///
/// One block of memory, which the thread that releases it keeps for its next request (see
/// [`spare`](crate::spare)).
#[derive(Default)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) kind: Kind,
    pub(crate) on_poison: OnPoison,
    /// Whether its holder, or somebody whom it waits for, has said to be stuck.
    pub(crate) poisoned: bool,
    /// Whether it did not wait, and was right.
    pub(crate) validated: bool,
    /// In the order in which they were declared.
    pub(crate) latches: Latches,
    /// How its latches of each scope and access are kept in line.
    pub(crate) parts: [[Part; 2]; 2],
    /// By scope, the least interval that covers all writes, if they are many.
    pub(crate) covers: Option<Box<[Option<Interval<CompactKey>>; 2]>>,
    /// Neighbours in the queues that the request is in.
    pub(crate) links: [Option<Links>; QUEUES],
    /// The last tick before this request was sequenced; if it had to wait, when that ended.
    pub(crate) held_since: Option<Instant>,
    pub(crate) label: Option<Label>,
    /// Made when the request first meets a conflict, on either side.
    pub(crate) contended: Option<Box<Contended>>,
}

/// The latches of one scope and access in a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    pub(crate) len: u32,
    /// Whether they are still to be settled: to be put where a search for any single one of them finds it.
    pub(crate) unsettled: bool,
    /// If so, those among the request's latches before this index have been settled.
    pub(crate) settled: u32,
}

impl Part {
    /// Whether all of them, if there are any, are still to be settled.
    #[inline]
    pub(crate) fn is_untouched(self) -> bool {
        self.unsettled && self.settled == 0
    }

    /// Whether the latch at `index` is where a search finds it.
    #[inline]
    pub(crate) fn is_settled(self, index: usize) -> bool {
        !self.unsettled || index < self.settled as usize
    }
}

/// Whether others can conflict with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has latches.
    #[default]
    Latches,
    /// It waits for others and is in nobody's way.
    WaitsOnly,
}

/// A request's latches; more than one are kept in a list that is recycled with the block.
pub(crate) type Latches = SmallVec<[Latch; 1]>;

/// What only those requests need that conflict with others.
#[derive(Debug, Default)]
pub(crate) struct Contended {
    /// Who is parked here, each once, in no particular order.
    pub(crate) parked_here: ParkedHere,
    /// How far the search for earlier conflicts has come.
    pub(crate) look: Look,
    /// What it found last; a conflict may be released by now.
    pub(crate) found: Found,
    /// The wait for the first earlier conflict to the last, if one has begun and not ended.
    pub(crate) wait: Option<Wait>,
}

/// A list of those parked on a request is kept with its block if it has room for no more than this.
const PARKED_KEPT: usize = 16;

/// Those who are parked on one request. Mostly it is one.
pub(crate) type ParkedHere = SmallVec<[Parked; 1]>;

/// A request parked on another.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) slot: u32,
    pub(crate) waker: Waker,
}

/// A wait in progress. It begins when a request first parks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) since: Instant,
    /// The request parked on; it may be released by now.
    pub(crate) on: RequestId,
    /// Position in `parked_here` of the request parked on, as long as that is held; `None` if that was
    /// told to wake all who are parked there.
    pub(crate) position: Option<usize>,
}

impl Request {
    /// Declares what a request that is not in line yet will touch.
    /// More than `few` writes in a scope get a cover.
    pub(crate) fn declare(&mut self, spans: &SpanSet, few: usize) {
        self.latches.reserve(spans.len());
        for declaration in spans {
            self.parts[declaration.scope() as usize][declaration.access() as usize].len += 1;
            self.latches.push(Latch::from(declaration));
        }
        if self.latches.len() > few {
            self.cover(few);
        }
    }

    /// Works out the covers.
    fn cover(&mut self, few: usize) {
        let covers = SCOPES.map(|scope| {
            let writes = (self.latches.iter())
                .filter(|latch| (latch.scope, latch.access) == (scope, Access::Write))
                .map(|latch| &latch.interval);
            if self.parts[scope as usize][Access::Write as usize].len as usize <= few {
                return None;
            }
            let start = writes.clone().map(Interval::start).min()?;
            let end = writes.map(Interval::end).max()?;
            Interval::new(start.clone(), end.cloned()).ok()
        });
        if covers.iter().any(Option::is_some) {
            self.covers = Some(Box::new(covers));
        }
    }

    /// Its side of conflicts, made if there is none yet.
    pub(crate) fn contended(&mut self) -> &mut Contended {
        self.contended.get_or_insert_default()
    }

    /// Whether this holds for any part that is not empty.
    #[inline]
    pub(crate) fn any_part(&self, holds: impl Fn(Part) -> bool) -> bool {
        let parts = self.parts.as_flattened();
        parts.iter().any(|part| part.len > 0 && holds(*part))
    }

    /// The part of its latches that this one belongs to.
    #[inline]
    pub(crate) fn part(&self, latch: &Latch) -> Part {
        self.parts[latch.scope as usize][latch.access as usize]
    }

    /// The wait, if one has begun and not ended.
    pub(crate) fn wait(&self) -> Option<&Wait> {
        self.contended.as_ref()?.wait.as_ref()
    }

    /// Whether it has found out that no earlier conflict is left.
    pub(crate) fn holds(&self) -> bool {
        (self.contended.as_ref()).is_none_or(|contended| contended.found == Found::Nothing)
    }

    /// The earlier request that it has last been found to conflict with, which may be released by now.
    pub(crate) fn waits_for(&self) -> Option<RequestId> {
        self.contended.as_ref()?.found.conflict()
    }

    /// Takes the wait out, if one has begun and not ended, with its place in the queue of waits, if it is
    /// there: that is, if it is not slow.
    #[inline]
    pub(crate) fn take_wait(&mut self) -> Option<(Wait, Option<Links>)> {
        let wait = self.contended.as_mut()?.wait.take()?;
        Some((wait, self.links[WAITS].take()))
    }

    /// Makes it as new, but for the memory that it has.
    pub(crate) fn clear(&mut self) {
        self.kind = Kind::default();
        self.on_poison = OnPoison::default();
        self.poisoned = false;
        self.validated = false;
        self.latches.clear();
        for part in self.parts.as_flattened_mut() {
            // One by one: as a whole, they would be copied with their padding, byte by byte.
            (part.len, part.settled, part.unsettled) = (0, 0, false);
        }
        self.covers = None;
        self.label = None;
        if let Some(contended) = &mut self.contended {
            contended.clear();
        }
    }
}

impl Contended {
    fn clear(&mut self) {
        // Many may have been parked here.
        if self.parked_here.capacity() > PARKED_KEPT {
            self.parked_here = ParkedHere::new();
        }
        self.parked_here.clear();
        self.look = Look::default();
        self.found = Found::default();
        self.wait = None;
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("id", &self.id)
            .field("latches", &self.latches)
            .field("contended", &self.contended)
            .finish_non_exhaustive()
    }
}
