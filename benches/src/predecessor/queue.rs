//! The commands in line, in interval trees: what the predecessor's mutex protects.

use std::cmp::Ordering;
use std::sync::Arc;

use interval_btree::{Bytewise, Interval, IntervalMap};
use slab::Slab;
use smallvec::SmallVec;
use spanset::{Access, CompactKey, Scope, Timestamp};

use super::channel::{Channel, Prerequisites};
use super::coverage::{Overlap, keep_minimal};
use super::part::{Group, Groups, Part, Standing, write_meets_read};

/// All commands in line.
///
/// - **standing**: each group of each command is where its [`Standing`] says, and nowhere else.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The sequence number of the newest command.
    newest: u64,
    slots: Slab<Slot>,
    global: Trees,
    local: Trees,
}

/// The commands of one scope.
#[derive(Debug, Default)]
struct Trees {
    reads: Tree,
    writes: Tree,
    /// The slots of the commands whose reads no write has looked for yet.
    buffered: Vec<usize>,
}

type Tree = IntervalMap<CompactKey, Entry, 32, Bytewise>;

/// What a tree keeps beside an interval.
#[derive(Clone, Copy, Debug)]
struct Entry {
    sequence: u64,
    slot: usize,
    /// The position of the part in its group; [`COVER`] for the span that covers them all.
    part: u32,
    at: Timestamp,
}

const COVER: u32 = u32::MAX;

#[derive(Debug)]
struct Slot {
    sequence: u64,
    /// Made when the first other command has to wait for this one.
    channel: Option<Arc<Channel>>,
    groups: Groups,
    /// The newest command that has this one on its list.
    asked_by: u64,
}

/// A command's place in line.
#[derive(Debug)]
pub(super) struct Place {
    /// Smaller is earlier.
    pub(super) sequence: u64,
    slot: usize,
}

/// What a command leaves behind, to be used and freed without the mutex.
#[derive(Debug)]
pub(super) struct Left {
    /// What those that wait for it wait on, if any do.
    pub(super) channel: Option<Arc<Channel>>,
    _groups: Groups,
}

impl Queue {
    /// Checks the invariants listed on the type. O(n log n).
    #[cfg(test)]
    pub(super) fn verify(&self) {
        let mut counts = [(0, 0, 0); 2];
        for (at, slot) in &self.slots {
            for group in &slot.groups {
                let (trees, count) = match group.scope {
                    Scope::Global => (&self.global, &mut counts[0]),
                    Scope::Local => (&self.local, &mut counts[1]),
                };
                let (tree, in_tree) = match group.access {
                    Access::Read => (&trees.reads, &mut count.0),
                    Access::Write => (&trees.writes, &mut count.1),
                };
                let entry = |part| Entry {
                    sequence: slot.sequence,
                    slot: at,
                    part,
                    at: Timestamp::MIN,
                };
                match group.standing {
                    Standing::Outside => panic!("standing: {group:?}"),
                    Standing::Buffered(position) => {
                        assert_eq!(group.access, Access::Read, "standing");
                        assert_eq!(trees.buffered[position], at, "standing");
                        count.2 += 1;
                    }
                    Standing::Covered => {
                        assert!(
                            group
                                .cover
                                .as_ref()
                                .is_some_and(|c| tree.contains(c, &entry(COVER))),
                            "standing"
                        );
                        *in_tree += 1;
                    }
                    Standing::Expanded => {
                        for (part, number) in group.parts.iter().zip(0..) {
                            assert!(tree.contains(&part.interval, &entry(number)), "standing");
                        }
                        *in_tree += group.parts.len();
                    }
                }
            }
        }
        for (trees, (reads, writes, buffered)) in
            [&self.global, &self.local].into_iter().zip(counts)
        {
            let stored = (trees.reads.len(), trees.writes.len(), trees.buffered.len());
            assert_eq!(
                stored,
                (reads, writes, buffered),
                "standing: and nowhere else"
            );
        }
    }

    /// How many spans stand in the trees of one scope: reads and writes.
    #[cfg(test)]
    pub(super) fn in_trees(&self, scope: Scope) -> (usize, usize) {
        let trees = match scope {
            Scope::Global => &self.global,
            Scope::Local => &self.local,
        };
        (trees.reads.len(), trees.writes.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// What anybody waits on.
    pub(super) fn channels(&self) -> impl Iterator<Item = &Arc<Channel>> {
        self.slots
            .iter()
            .filter_map(|(_, slot)| slot.channel.as_ref())
    }

    /// Adds a command behind all others, and lists what it has to wait for. For each of its spans
    /// O(log n + k log k), where k is the number of earlier spans that conflict with it.
    pub(super) fn join(&mut self, groups: Groups) -> (Place, Prerequisites) {
        self.newest += 1;
        let sequence = self.newest;
        let mut prerequisites = SmallVec::new();
        for group in &groups {
            if group.access == Access::Write {
                self.flush(group.scope);
            }
            for part in &group.parts {
                self.list(
                    (group.scope, group.access, part),
                    sequence,
                    &mut prerequisites,
                );
            }
        }
        let slot = self.slots.insert(Slot {
            sequence,
            channel: None,
            groups,
            asked_by: 0,
        });
        self.stand(slot);
        let place = Place { sequence, slot };
        (place, Prerequisites::new(prerequisites))
    }

    /// Takes a command out of the line. O(log n) for each of its spans that stands in a tree.
    pub(super) fn leave(&mut self, place: &Place) -> Left {
        let slot = self.slots.remove(place.slot);
        let sequence = slot.sequence;
        assert_eq!(sequence, place.sequence, "a command leaves once");
        for group in &slot.groups {
            let trees = trees(&mut self.global, &mut self.local, group.scope);
            let entry = |part, at| Entry {
                sequence,
                slot: place.slot,
                part,
                at,
            };
            match (group.standing, &group.cover) {
                (Standing::Buffered(position), _) => {
                    trees.buffered.swap_remove(position);
                    if let Some(moved) = trees.buffered.get(position) {
                        self.slots[*moved].group(group.scope, Access::Read).standing =
                            Standing::Buffered(position);
                    }
                }
                (Standing::Covered, Some(cover)) => {
                    let removed = trees
                        .tree(group.access)
                        .remove(cover, &entry(COVER, Timestamp::MIN));
                    debug_assert!(removed.is_some(), "{group:?} is not in its tree");
                }
                (Standing::Expanded, _) => {
                    for (part, number) in group.parts.iter().zip(0..) {
                        let removed = trees
                            .tree(group.access)
                            .remove(&part.interval, &entry(number, part.at));
                        debug_assert!(removed.is_some(), "{group:?} is not in its tree");
                    }
                }
                (Standing::Covered, None) | (Standing::Outside, _) => unreachable!("{group:?}"),
            }
        }
        Left {
            channel: slot.channel,
            _groups: slot.groups,
        }
    }

    /// Puts a new command's groups where they stand at first: reads into the buffer, writes into
    /// their tree, as one span each.
    fn stand(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let sequence = slot.sequence;
        for group in &mut slot.groups {
            let trees = trees(&mut self.global, &mut self.local, group.scope);
            match group.access {
                Access::Read => {
                    group.standing = Standing::Buffered(trees.buffered.len());
                    trees.buffered.push(at);
                }
                Access::Write => group.enter(&mut trees.writes, sequence, at),
            }
        }
    }

    /// Puts the buffered reads of a scope into their tree.
    fn flush(&mut self, scope: Scope) {
        let trees = trees(&mut self.global, &mut self.local, scope);
        for at in trees.buffered.drain(..) {
            let slot = &mut self.slots[at];
            let sequence = slot.sequence;
            slot.group(scope, Access::Read)
                .enter(&mut trees.reads, sequence, at);
        }
    }

    /// Adds those earlier commands to the list that one part of the new command, `sequence`, has to
    /// wait for. Covering spans that it meets are expanded first.
    fn list(
        &mut self,
        (scope, access, part): (Scope, Access, &Part),
        sequence: u64,
        list: &mut SmallVec<[Arc<Channel>; 4]>,
    ) {
        let trees = trees(&mut self.global, &mut self.local, scope);
        while trees
            .conflicting_with(access)
            .any(|(_, tree)| !tree.is_empty())
        {
            let mut covers: SmallVec<[(Access, usize); 4]> = SmallVec::new();
            let mut overlaps: SmallVec<[Overlap<'_>; 16]> = SmallVec::new();
            for (earlier, tree) in trees.conflicting_with(access) {
                for (interval, entry) in tree.overlapping(&part.interval) {
                    if entry.part == COVER {
                        covers.push((earlier, entry.slot));
                    } else if conflict((access, part.at), (earlier, entry.at)) {
                        let Entry {
                            sequence, slot, at, ..
                        } = *entry;
                        overlaps.push(Overlap {
                            interval,
                            access: earlier,
                            at,
                            sequence,
                            slot,
                        });
                    }
                }
            }
            if covers.is_empty() {
                keep_minimal(&part.interval, &mut overlaps, |overlap| {
                    let slot = &mut self.slots[overlap.slot];
                    // Several parts may meet the same command.
                    if slot.asked_by != sequence {
                        slot.asked_by = sequence;
                        let channel = Channel::new(overlap.sequence);
                        list.push(
                            slot.channel
                                .get_or_insert_with(|| Arc::new(channel))
                                .clone(),
                        );
                    }
                });
                return;
            }
            drop(overlaps);
            for (earlier, at) in covers {
                let slot = &mut self.slots[at];
                let sequence = slot.sequence;
                slot.group(scope, earlier)
                    .expand(trees.tree(earlier), sequence, at);
            }
        }
    }
}

fn trees<'q>(global: &'q mut Trees, local: &'q mut Trees, scope: Scope) -> &'q mut Trees {
    match scope {
        Scope::Global => global,
        Scope::Local => local,
    }
}

impl Trees {
    fn tree(&mut self, access: Access) -> &mut Tree {
        match access {
            Access::Read => &mut self.reads,
            Access::Write => &mut self.writes,
        }
    }

    /// The trees of what may conflict with an access: reads look at writes, writes at both.
    fn conflicting_with(&self, access: Access) -> impl Iterator<Item = (Access, &Tree)> {
        let reads = (access == Access::Write).then_some((Access::Read, &self.reads));
        [(Access::Write, &self.writes)].into_iter().chain(reads)
    }
}

/// Whether two spans that overlap conflict, at least one of them a write.
fn conflict(one: (Access, Timestamp), other: (Access, Timestamp)) -> bool {
    match (one, other) {
        ((Access::Read, read), (Access::Write, write))
        | ((Access::Write, write), (Access::Read, read)) => write_meets_read(write, read),
        ((Access::Write, _), (Access::Write, _)) => true,
        ((Access::Read, _), (Access::Read, _)) => false,
    }
}

impl Slot {
    fn group(&mut self, scope: Scope, access: Access) -> &mut Group {
        let wanted = |group: &&mut Group| group.scope == scope && group.access == access;
        self.groups
            .iter_mut()
            .find(wanted)
            .expect("who is found in a tree has a group there")
    }
}

impl Group {
    /// Joins a tree as one span: the only one, or the one that covers all.
    fn enter(&mut self, tree: &mut Tree, sequence: u64, slot: usize) {
        match &self.cover {
            None => self.expand_into(tree, sequence, slot),
            Some(cover) => {
                let entry = Entry {
                    sequence,
                    slot,
                    part: COVER,
                    at: Timestamp::MIN,
                };
                insert(tree, cover, entry);
                self.standing = Standing::Covered;
            }
        }
    }

    /// Replaces the covering span in its tree by the parts.
    fn expand(&mut self, tree: &mut Tree, sequence: u64, slot: usize) {
        if let (Standing::Covered, Some(cover)) = (self.standing, &self.cover) {
            let entry = Entry {
                sequence,
                slot,
                part: COVER,
                at: Timestamp::MIN,
            };
            let removed = tree.remove(cover, &entry);
            debug_assert!(removed.is_some(), "{entry:?} is not in its tree");
            self.expand_into(tree, sequence, slot);
        }
    }

    fn expand_into(&mut self, tree: &mut Tree, sequence: u64, slot: usize) {
        for (part, number) in self.parts.iter().zip(0..) {
            insert(
                tree,
                &part.interval,
                Entry {
                    sequence,
                    slot,
                    part: number,
                    at: part.at,
                },
            );
        }
        self.standing = Standing::Expanded;
    }
}

fn insert(tree: &mut Tree, interval: &Interval<CompactKey>, entry: Entry) {
    let displaced = tree.insert(interval.clone(), entry);
    debug_assert!(displaced.is_none(), "{entry:?} was in its tree before");
}

/// Entries differ if they are another part or of another command.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.sequence, self.part).cmp(&(other.sequence, other.part))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}
