//! What befalls a group while clients are at work.

use std::cell::Cell;
use std::time::Duration;

use spanlatch_replica_raft::NodeId;
use spanset::Timestamp;
use tokio::time::sleep;

use super::group::{Group, IDS};
use super::network::Weather;
use crate::Choices;

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Troubles {
    /// Links that were cut, in one direction.
    pub(super) cuts: u64,
    /// Nodes that were stopped, and started again.
    pub(super) stops: u64,
}

/// What is to be told of what happened to the store itself.
pub(super) trait Witness {
    fn has_split(&self);
    fn has_collected(&self, threshold: Timestamp);
}

/// Where ranges are split.
const SPLITS: [&str; 5] = ["b", "d", "e", "p", "q"];

/// Goes on until the clients `are_done`, and then leaves it as it is.
pub(super) async fn make(
    group: &mut Group,
    choices: &mut Choices<'static>,
    witness: &impl Witness,
    are_done: &Cell<bool>,
) -> Troubles {
    let mut troubles = Troubles::default();
    let mut stopped: Vec<NodeId> = Vec::new();
    while !are_done.get() {
        sleep(Duration::from_millis(choices.below(250) as u64)).await;
        group.look();
        let leader = group.leaders().last().copied();
        let any = choices.of(&IDS);
        match choices.below(16) {
            0 | 1 => {
                isolate(group, &mut troubles, leader.unwrap_or(any));
                // Others may have another leader then, of whom it knows nothing.
                sleep(Duration::from_millis(choices.below(1_500) as u64)).await;
            }
            2 => {
                let other = choices.of(&IDS);
                cut(group, &mut troubles, any, other);
            }
            3 => cut_out(group, &mut troubles, leader.unwrap_or(any)),
            4 => cut_in(group, &mut troubles, leader.unwrap_or(any)),
            5 => group.network.set_weather(Weather::any(choices)),
            6 => group.network.set_weather(Weather::CALM),
            // A minority, as a rule.
            7 | 8 if stopped.is_empty() || choices.one_in(8) => {
                let id = if choices.one_in(2) {
                    leader.unwrap_or(any)
                } else {
                    any
                };
                if !stopped.contains(&id) {
                    group.stop(id).await;
                    stopped.push(id);
                    troubles.stops += 1;
                }
            }
            9 | 10 if !stopped.is_empty() => {
                let id = stopped.swap_remove(choices.below(stopped.len()));
                group.restart(id).await;
            }
            11 => group.skew(any, choices),
            12 => split(group, leader, choices, witness).await,
            13 => collect(group, leader, witness).await,
            _ => group.network.heal(),
        }
    }
    troubles
}

fn cut(group: &Group, troubles: &mut Troubles, from: NodeId, to: NodeId) {
    group.network.cut(from, to);
    troubles.cuts += 1;
}

/// It hears, and is not heard.
fn cut_out(group: &Group, troubles: &mut Troubles, node: NodeId) {
    for other in IDS.into_iter().filter(|&other| other != node) {
        cut(group, troubles, node, other);
    }
}

/// It is heard, and does not hear.
fn cut_in(group: &Group, troubles: &mut Troubles, node: NodeId) {
    for other in IDS.into_iter().filter(|&other| other != node) {
        cut(group, troubles, other, node);
    }
}

fn isolate(group: &Group, troubles: &mut Troubles, node: NodeId) {
    cut_out(group, troubles, node);
    cut_in(group, troubles, node);
}

async fn split(
    group: &Group,
    leader: Option<NodeId>,
    choices: &mut Choices<'_>,
    witness: &impl Witness,
) {
    let leader = leader.and_then(|leader| group.network.node(leader));
    if let Some(store) = leader.and_then(|leader| leader.store()) {
        // It waits for latches, which a leader that was cut off may not release for long.
        let split = store.split(choices.of(&SPLITS));
        if let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(100), split).await {
            witness.has_split();
        }
    }
}

async fn collect(group: &Group, leader: Option<NodeId>, witness: &impl Witness) {
    let leader = leader.and_then(|leader| group.network.node(leader));
    if let Some(leader) = leader
        && let Some(store) = leader.store()
    {
        let threshold = store.clock().now();
        let collected = leader.collect_garbage(threshold);
        if let Ok(Ok(())) = tokio::time::timeout(Duration::from_millis(100), collected).await {
            witness.has_collected(threshold);
        }
    }
}
