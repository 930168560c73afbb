//! What happened to requests that ran at once, and whether it may happen.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::declared::{Declared, conflict};

/// One request, afterwards. Times are ticks of one counter.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its place in line; a request that only waits does not know it.
    pub sequence: Option<u64>,
    /// What it was granted, if it was.
    pub wanted: Vec<Declared>,
    /// What others had to wait for.
    pub latches: Vec<Declared>,
    /// Before it was sequenced, and after.
    pub sequenced: (u64, u64),
    /// After it was granted, if it was.
    pub granted: Option<u64>,
    /// Before it left the line: before its release began, or its cancellation, or a wait that may have ended in one.
    pub left: u64,
}

/// Collects events, and is the clock that they are timed by.
#[derive(Debug, Default)]
pub struct History {
    clock: AtomicU64,
    events: Mutex<Vec<Event>>,
}

/// What a history consisted of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// All requests.
    pub requests: u64,
    /// Those that were granted.
    pub granted: u64,
    /// Pairs of a granted request and an earlier one that it conflicts with, which was still in line when it was sequenced.
    pub waits: u64,
}

impl Checked {
    /// Adds what another history consisted of.
    pub fn add(&mut self, other: Checked) {
        self.requests += other.requests;
        self.granted += other.granted;
        self.waits += other.waits;
    }
}

impl Event {
    /// Whether this one is known to be behind another one in line.
    fn is_behind(&self, other: &Event) -> bool {
        match (self.sequence, other.sequence) {
            (Some(own), Some(other)) => own > other,
            _ => other.sequenced.1 < self.sequenced.0,
        }
    }
}

impl History {
    /// The next tick. Sequentially consistent, so that the ticks of two threads order what they did.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// How many ticks there have been.
    pub fn ticks(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Adds an event. Each request adds its own, when it has left.
    pub fn record(&self, event: Event) {
        self.events.lock().expect("no panic in between").push(event);
    }

    /// Takes all events out and checks them. O(n (log n + c)) for n of them, of which at most c were in line at once.
    ///
    /// # Errors
    ///
    /// What must not have happened.
    pub fn check(&self) -> Result<Checked, String> {
        let mut events = std::mem::take(&mut *self.events.lock().expect("no panic in between"));
        in_order_of_the_calls(&mut events)?;
        one_after_the_other(&mut events)
    }
}

/// If the sequencing of one returned before that of another was called, it is ahead of it in line.
fn in_order_of_the_calls(events: &mut [Event]) -> Result<(), String> {
    events.sort_unstable_by_key(|event| event.sequence);
    let mut last: Option<&Event> = None;
    for event in events.iter().filter(|event| event.sequence.is_some()) {
        if let Some(last) = last
            && last.sequenced.0 > event.sequenced.1
        {
            return Err(format!(
                "sequenced against the order of the calls: {event:?} and {last:?}"
            ));
        }
        match last {
            Some(last) if last.sequence == event.sequence => {
                return Err(format!("two with one number: {event:?} and {last:?}"));
            }
            Some(last) if last.sequenced.0 > event.sequenced.0 => {}
            _ => last = Some(event),
        }
    }
    Ok(())
}

/// When a request was granted, every earlier one that it conflicts with had left.
fn one_after_the_other(events: &mut [Event]) -> Result<Checked, String> {
    let mut checked = Checked {
        requests: events.len() as u64,
        ..Checked::default()
    };
    let mut granted = Vec::from_iter(events.iter().filter(|event| event.granted.is_some()));
    granted.sort_unstable_by_key(|event| event.granted);
    let mut called = Vec::from_iter(&*events);
    called.sort_unstable_by_key(|event| event.sequenced.0);
    let mut called = called.into_iter().peekable();
    // Those that may have been in line at some time since the earliest `sequenced` of what is yet to be granted.
    let mut in_line: Vec<&Event> = Vec::new();
    for event in granted {
        let now = event.granted.expect("chosen among the granted");
        checked.granted += 1;
        while let Some(&next) = called.peek()
            && next.sequenced.0 < now
        {
            in_line.push(next);
            called.next();
        }
        for other in &in_line {
            if !event.is_behind(other) || !conflict(&event.wanted, &other.latches) {
                continue;
            }
            if other.left > now {
                return Err(format!("held {event:?} while {other:?} was in line"));
            }
            checked.waits += u64::from(other.left > event.sequenced.1);
        }
        in_line.retain(|other| other.left > now);
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::{Event, History};
    use crate::declared::Declared;

    const WRITE: Declared = Declared {
        local: false,
        write: true,
        first: 1,
        last: 1,
        at: None,
    };

    fn event(sequence: u64, sequenced: (u64, u64), granted: u64, left: u64) -> Event {
        Event {
            sequence: Some(sequence),
            wanted: vec![WRITE],
            latches: vec![WRITE],
            sequenced,
            granted: Some(granted),
            left,
        }
    }

    fn check(events: impl IntoIterator<Item = Event>) -> Result<u64, String> {
        let history = History::default();
        events.into_iter().for_each(|event| history.record(event));
        history.check().map(|checked| checked.waits)
    }

    #[test]
    fn holding_one_after_the_other_is_as_it_should_be() {
        assert_eq!(
            check([event(0, (0, 1), 2, 6), event(1, (3, 4), 7, 8)]),
            Ok(1)
        );
    }

    #[test]
    fn two_that_conflict_and_hold_at_once_are_found() {
        let error = check([event(0, (0, 1), 2, 8), event(1, (3, 4), 6, 7)]).unwrap_err();
        assert!(error.starts_with("held "), "{error}");
    }

    #[test]
    fn one_that_overtakes_an_earlier_one_is_found() {
        let error = check([event(0, (0, 1), 7, 8), event(1, (3, 4), 5, 6)]).unwrap_err();
        assert!(error.starts_with("held "), "{error}");
    }

    #[test]
    fn numbers_that_contradict_the_calls_are_found() {
        let error = check([event(1, (0, 1), 2, 3), event(0, (4, 5), 6, 7)]).unwrap_err();
        assert!(error.starts_with("sequenced against"), "{error}");
    }
}
