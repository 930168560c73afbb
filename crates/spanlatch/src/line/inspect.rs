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
    pub(crate) validated: bool,
}

impl Line {
    /// A snapshot in which all latches are that were sequenced before `sequence`, O(1); `None` if more of
    /// them are still to be put into their trees than one stay under the mutex allows: ask again.
    pub(crate) fn note(&mut self, sequence: u64) -> Option<Noted> {
        let mut steps = self.steps;
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
                validated: request.validated,
            })
        };
        requests.iter().map(details).collect()
    }
}
