//! Where requests are kept, by slot.

use std::ops::{Index, IndexMut};

use crate::latch::{Latch, RequestId, Seat};
use crate::request::Request;

/// How many slots are kept when nobody is in line.
const SLOTS_KEPT: usize = 1024;

/// The requests in line, by slot.
///
/// A request is in memory of its own, which the thread that made it has in its cache: what goes from
/// core to core with the mutex is one small slot, not all that a request consists of.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    sequence: u64,
    /// `None` while the slot is vacant.
    request: Option<Box<Request>>,
}

impl Slots {
    /// Gives a request its id and a slot. O(1), amortized.
    #[inline]
    pub(crate) fn insert(&mut self, sequence: u64, mut request: Box<Request>) -> &mut Request {
        let slot = match self.vacant.pop() {
            Some(slot) => slot,
            None => self.grow(),
        };
        request.id = RequestId { sequence, slot };
        let place = &mut self.slots[slot as usize];
        place.sequence = sequence;
        place.request.insert(request)
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 requests at once");
        self.slots.push(Slot {
            sequence: 0,
            request: None,
        });
        slot
    }

    /// Takes a request out. O(1), amortized.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) -> Box<Request> {
        let request = self.slots[slot as usize].request.take();
        self.vacant.push(slot);
        request.expect("only who is in line is taken out")
    }

    /// Takes out the slots themselves, to be freed elsewhere, if they are many and none is in use.
    #[inline]
    pub(crate) fn take_unneeded(&mut self) -> Option<Box<Slots>> {
        let unneeded = self.vacant.len() == self.slots.len() && self.slots.len() > SLOTS_KEPT;
        unneeded.then(|| Box::new(std::mem::take(self)))
    }

    /// Whether this request is still in line.
    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.get(id).is_some()
    }

    /// The request, if it is still in line.
    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.request
            .as_deref()
            .filter(|_| slot.sequence == id.sequence)
    }

    /// A latch that is in line.
    pub(crate) fn latch(&self, seat: &Seat) -> &Latch {
        &self[seat.request().slot].latches[seat.index()]
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.slots.iter().filter_map(|slot| slot.request.as_deref())
    }
}

impl Index<u32> for Slots {
    type Output = Request;

    fn index(&self, slot: u32) -> &Request {
        (self.slots[slot as usize].request.as_deref()).expect("only who is in line is looked up")
    }
}

impl IndexMut<u32> for Slots {
    fn index_mut(&mut self, slot: u32) -> &mut Request {
        (self.slots[slot as usize].request.as_deref_mut())
            .expect("only who is in line is looked up")
    }
}
