//! Random requests against a naive model that knows exactly whom each must wait for.

use std::task::Poll;

use proptest::prelude::*;
use spanlatch::{Guard, Manager};
use spanset::{Span, SpanSet};

use crate::notation::at;
use crate::wake::Task;

/// A declaration over keys 0..8, in the plainest form: bounds inclusive, no types of the crate.
#[derive(Clone, Copy, Debug)]
struct Declared {
    local: bool,
    write: bool,
    first: u8,
    last: u8,
    at: Option<u64>,
}

impl Declared {
    /// The conflict table, row by row.
    fn conflicts(self, held: Declared) -> bool {
        let overlap = self.first <= held.last && held.first <= self.last;
        let same_scope = self.local == held.local;
        let waits = match (self.write, held.write, self.at, held.at) {
            (false, false, _, _) => false,
            (true, true, _, _) => true,
            (_, _, None, _) | (_, _, _, None) => true,
            (false, true, Some(read), Some(written)) => written <= read,
            (true, false, Some(written), Some(read)) => read >= written,
        };
        overlap && same_scope && waits
    }

    fn declare(self, set: &mut SpanSet) {
        let span = if self.first == self.last {
            Span::point(vec![self.first])
        } else {
            Span::range(vec![self.first], vec![self.last + 1]).unwrap()
        };
        match (self.local, self.write, self.at) {
            (false, false, None) => set.read(span),
            (false, false, Some(wall)) => set.read_at(span, at(wall)),
            (false, true, None) => set.write(span),
            (false, true, Some(wall)) => set.write_at(span, at(wall)),
            (true, false, _) => set.read_local(span),
            (true, true, _) => set.write_local(span),
        }
    }
}

fn declared() -> impl Strategy<Value = Declared> {
    let at = prop_oneof![1 => Just(None), 2 => (1..5u64).prop_map(Some)];
    (prop::bool::weighted(0.2), any::<bool>(), 0..8u8, 0..3u8, at).prop_map(
        |(local, write, first, length, at)| Declared {
            local,
            write,
            first,
            last: (first + length).min(7),
            at: at.filter(|_| !local),
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Sequence(Vec<Declared>),
    /// Polls one of the waiting requests.
    Poll(prop::sample::Index),
    /// Drops one request, waiting or holding.
    Drop(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec(declared(), 0..7).prop_map(Step::Sequence),
        3 => any::<prop::sample::Index>().prop_map(Step::Poll),
        2 => any::<prop::sample::Index>().prop_map(Step::Drop),
    ]
}

/// A request that is still in line, in sequence order.
struct InLine {
    declared: Vec<Declared>,
    state: State,
}

enum State {
    /// With the wake-ups it had when it was last polled, if it was and had to wait.
    Waiting(Task, Option<usize>),
    Holding(#[expect(dead_code, reason = "held for its drop")] Guard),
}

/// Whether the request at `position` must wait: iff an earlier one in line conflicts with it.
fn must_wait(line: &[InLine], position: usize) -> bool {
    line[..position]
        .iter()
        .any(|earlier| conflict(&line[position], earlier))
}

fn conflict(waiting: &InLine, held: &InLine) -> bool {
    let mut pairs = waiting
        .declared
        .iter()
        .flat_map(|&w| held.declared.iter().map(move |&h| (w, h)));
    pairs.any(|(waiting, held)| waiting.conflicts(held))
}

/// Checks every request in line against the model.
fn check(manager: &Manager, line: &mut [InLine]) {
    manager.verify();
    let latches: usize = line.iter().map(|request| request.declared.len()).sum();
    assert_eq!(manager.counts().latches(), latches);
    assert_eq!(manager.counts().requests, line.len());
    for position in 0..line.len() {
        let must_wait = must_wait(line, position);
        match &mut line[position].state {
            State::Holding(_) => assert!(!must_wait, "two hold what conflicts"),
            State::Waiting(task, polled) => {
                if let (false, Some(wakes)) = (must_wait, *polled) {
                    assert!(task.wakes.count() > wakes, "a wake-up was lost");
                }
            }
        }
    }
}

/// Asking whether a request is ready must not change whether it is woken, so it is asked in half of
/// the cases only.
fn check_readiness(line: &mut [InLine]) {
    for position in 0..line.len() {
        let must_wait = must_wait(line, position);
        if let State::Waiting(task, _) = &mut line[position].state {
            assert_eq!(
                task.pending.is_ready(),
                !must_wait,
                "waits for exactly its conflicts"
            );
        }
    }
}

fn take_step(manager: &Manager, line: &mut Vec<InLine>, step: Step) {
    match step {
        Step::Sequence(declared) => {
            let mut set = SpanSet::new();
            for declared in &declared {
                declared.declare(&mut set);
            }
            let task = Task::new(manager.sequence(&set).unwrap());
            line.push(InLine {
                declared,
                state: State::Waiting(task, None),
            });
        }
        Step::Poll(index) => {
            let waits = |request: &&mut InLine| matches!(request.state, State::Waiting(..));
            let waiting = Vec::from_iter(line.iter_mut().filter(waits).map(|_| ()));
            if waiting.is_empty() {
                return;
            }
            let chosen = index.index(waiting.len());
            let position = (0..line.len())
                .filter(|&position| matches!(line[position].state, State::Waiting(..)))
                .nth(chosen)
                .unwrap();
            let must_wait = must_wait(line, position);
            let State::Waiting(task, polled) = &mut line[position].state else {
                unreachable!("chosen among the waiting");
            };
            match task.poll() {
                Poll::Ready(guard) => {
                    assert!(!must_wait, "granted too early");
                    line[position].state = State::Holding(guard);
                }
                Poll::Pending => {
                    assert!(must_wait, "a false wait");
                    *polled = Some(task.wakes.count());
                }
            }
        }
        Step::Drop(index) => {
            if line.is_empty() {
                return;
            }
            let dropped = line.remove(index.index(line.len()));
            let wakes = |request: &InLine| match &request.state {
                State::Waiting(task, _) => task.wakes.count(),
                State::Holding(_) => 0,
            };
            let before = Vec::from_iter(line.iter().map(wakes));
            let InLine { declared, state } = dropped;
            drop(state);
            let dropped = declared;
            for (request, before) in line.iter().zip(before) {
                let conflicts = request
                    .declared
                    .iter()
                    .any(|&waiting| dropped.iter().any(|&held| waiting.conflicts(held)));
                assert!(conflicts || wakes(request) == before, "woken for nothing");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn every_request_waits_for_exactly_the_earlier_ones_it_conflicts_with(
        steps in prop::collection::vec(step(), 1..80),
        ask in any::<bool>(),
        steps_per_stay in 1..4_usize,
    ) {
        let manager = Manager::builder().steps(steps_per_stay).build();
        let mut line = Vec::new();
        for step in steps {
            take_step(&manager, &mut line, step);
            check(&manager, &mut line);
            if ask {
                check_readiness(&mut line);
            }
        }
        while !line.is_empty() {
            check_readiness(&mut line);
            line.remove(0);
        }
        assert_eq!(manager.counts(), Default::default());
        manager.verify();
    }
}
