//! What an inspection notes under the mutex.

use std::time::Instant;

use super::Line;
use crate::label::Label;
use crate::latch::{Latch, RequestId, SCOPES};
use crate::look::LatchTree;

/// All latches as of one moment: by scope, the writes and the reads.
pub(crate) type Noted = [[LatchTree; 2]; 2];

/// What the trees do not know of a request.
#[derive(Debug)]
pub(crate) struct Details {
    pub(crate) label: Option<Label>,
    pub(crate) poisoned: bool,
    pub(crate) held_since: Option<Instant>,
    pub(crate) waits_since: Option<Instant>,
}

impl Line {
    /// A snapshot of all latches, O(1); `None` if more reads are still to be put into their trees than one
    /// stay under the mutex allows: ask again.
    pub(crate) fn note(&mut self) -> Option<Noted> {
        let mut steps = self.steps;
        let sequence = self.next_sequence;
        let requests = &mut self.requests;
        let settled = (self.scopes.iter_mut().zip(SCOPES)).all(|(latched, scope)| {
            latched.settle(requests, scope, sequence, &mut steps)
                && latched.settle_writes(requests, &Latch::everything(scope), sequence, &mut steps)
        });
        settled.then(|| {
            self.scopes.each_mut().map(|latched| {
                [&mut latched.writes, &mut latched.reads].map(|pool| {
                    pool.make_room(&self.requests);
                    pool.tree.clone()
                })
            })
        })
    }

    /// Of each of these requests, if it is still in line, what the trees do not know.
    pub(crate) fn details(&self, requests: &[RequestId]) -> Vec<Option<Details>> {
        let details = |&id| {
            let request = self.requests.get(id)?;
            Some(Details {
                label: request.label.clone(),
                poisoned: request.poisoned,
                held_since: request.held_since,
                waits_since: request.wait().map(|wait| wait.since),
            })
        };
        requests.iter().map(details).collect()
    }
}
