//! What befalls a group while clients are at work.

use std::cell::Cell;
use std::time::Duration;

use spanlatch_replica_raft::NodeId;
use tokio::time::sleep;

use super::group::{Group, IDS};
use crate::Choices;

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Troubles {
    /// Nodes that were killed.
    pub(super) kills: u64,
    /// Nodes that were stopped for a while.
    pub(super) pauses: u64,
    /// Ways that were cut, in one direction.
    pub(super) cuts: u64,
    /// Nodes whose disk was full.
    pub(super) full: u64,
}

/// Goes on until the clients `are_done`, and then leaves it as it is.
pub(super) async fn make(
    group: &mut Group,
    choices: &mut Choices<'static>,
    are_done: &Cell<bool>,
) -> Result<Troubles, String> {
    let mut troubles = Troubles::default();
    while !are_done.get() {
        sleep(Duration::from_millis(choices.below(500) as u64)).await;
        group.check_alive().await?;
        let any = choices.of(&IDS);
        let victim = match choices.one_in(2) {
            true => group.leader().await.unwrap_or(any),
            false => any,
        };
        // A minority, as a rule.
        let all_run = group.running.len() == IDS.len() && group.paused.is_empty();
        match choices.below(13) {
            0 | 1 if all_run || choices.one_in(8) => {
                group.kill(victim).await?;
                troubles.kills += 1;
            }
            2 if all_run => {
                // Who is cut off may have nothing to write.
                group.links().iter().for_each(|link| link.heal());
                let was_full = group.fill_disk(victim, are_done).await?;
                troubles.full += u64::from(was_full);
            }
            3 | 4 if all_run || choices.one_in(8) => {
                group.pause(victim).await;
                troubles.pauses += 1;
                // Others may have another leader then, of whom it knows nothing.
                sleep(Duration::from_millis(choices.below(2_000) as u64)).await;
                group.resume(victim).await;
            }
            5 => {
                isolate(group, &mut troubles, victim, choices.below(3));
                sleep(Duration::from_millis(choices.below(2_000) as u64)).await;
            }
            6 => choices
                .of(&group.links())
                .slow(Duration::from_millis(choices.below(60) as u64)),
            7 => choices.of(&group.links()).break_all(),
            8 | 9 => group.links().iter().for_each(|link| link.heal()),
            _ => revive(group).await?,
        }
    }
    Ok(troubles)
}

/// Starts and resumes whoever does not run.
async fn revive(group: &mut Group) -> Result<(), String> {
    for id in IDS {
        group.resume(id).await;
        if !group.running.contains_key(&id) {
            group.restart(id).await?;
        }
    }
    Ok(())
}

/// Lets nothing in, or nothing out, or neither.
fn isolate(group: &Group, troubles: &mut Troubles, node: NodeId, how: usize) {
    for (link, begins_there) in group.links_of(node) {
        let (out_is_cut, in_is_cut) = (how != 0, how != 1);
        // What goes out goes there on the links that begin at the node, and back on the others.
        if out_is_cut == begins_there || (out_is_cut && in_is_cut) {
            link.cut_there();
            troubles.cuts += 1;
        }
        if in_is_cut == begins_there || (out_is_cut && in_is_cut) {
            link.cut_back();
            troubles.cuts += 1;
        }
    }
}
