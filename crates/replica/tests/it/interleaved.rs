//! Random batches in flight together, cancelled and applied in any order: the outcome must be that
//! of one after the other in the order of timestamps.

use proptest::prelude::*;
use proptest::sample::Index;
use spanlatch_replica::{Batch, Request};

use crate::history::History;
use crate::naive::{any_requests, any_splits};
use crate::scene::{Running, Scene, ts};

#[derive(Debug, Clone)]
enum Action {
    /// Starts a batch, at a timestamp so far from the time or at none.
    Start(Vec<Request>, Option<i64>),
    /// Applies one of the proposals.
    Apply(Index),
    /// Drops one of the batches that wait.
    Drop(Index),
}

fn any_action() -> impl Strategy<Value = Action> {
    let offset = prop::option::weighted(0.3, -40i64..40);
    prop_oneof![
        4 => (any_requests(), offset).prop_map(|(requests, at)| Action::Start(requests, at)),
        3 => any::<Index>().prop_map(Action::Apply),
        1 => any::<Index>().prop_map(Action::Drop),
    ]
}

/// Goes on with all batches as far as they can, and moves the ends of those that end to `history`.
fn poll_all(running: &mut Vec<(Batch, usize, Running)>, history: &mut History) {
    loop {
        let before = running.len();
        for (batch, started, mut batch_running) in std::mem::take(running) {
            if batch_running.is_waiting() {
                running.push((batch, started, batch_running));
            } else if let Ok(reply) = batch_running.end() {
                history.served(batch, started, reply);
            }
        }
        if running.len() == before {
            return;
        }
    }
}

fn apply(scene: &Scene, which: Index, history: &mut History) {
    if scene.kept.len() > 0 {
        let mut proposal = scene.kept.remove(which.index(scene.kept.len()));
        let writes = proposal.take_writes();
        history.applied(writes.clone());
        scene.engine.apply(vec![writes]).unwrap();
        proposal.applied();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn batches_in_flight_together_are_as_one_after_the_other(
        splits in any_splits(),
        actions in prop::collection::vec(any_action(), 1..60),
        last in prop::collection::vec(any::<Index>(), 60),
    ) {
        let scene = Scene::split(splits);
        let mut history = History::default();
        let mut running = Vec::new();
        for (passed, action) in actions.into_iter().enumerate() {
            scene.time.set(1_000 + passed as u64);
            match action {
                Action::Start(requests, offset) => {
                    let mut batch = Batch::from(requests);
                    if let Some(offset) = offset {
                        batch = batch.at(ts((1_000 + passed as u64).saturating_add_signed(offset)));
                    }
                    let started = history.len();
                    running.push((batch.clone(), started, scene.start(batch)));
                }
                Action::Apply(which) => apply(&scene, which, &mut history),
                Action::Drop(which) if !running.is_empty() => {
                    running.swap_remove(which.index(running.len()));
                }
                Action::Drop(_) => {}
            }
            poll_all(&mut running, &mut history);
        }
        for which in last {
            apply(&scene, which, &mut history);
            poll_all(&mut running, &mut history);
        }
        prop_assert_eq!(running.len(), 0, "some batch never ends");
        prop_assert!(scene.store.is_idle());
        history.check(&scene.store);
    }
}
