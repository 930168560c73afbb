//! Whether transactions on lists can have taken place one after the other: a search for cycles of dependencies.
//!
//! After Adya, "Weak Consistency" (1999), and Kingsbury and Alvaro, "Elle" (VLDB 2020): a list that is only appended
//! to tells in which order its elements were written; so all dependencies on it are known.

use std::collections::BTreeMap;
use std::fmt;

/// What a transaction did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// The lists that it read, as they were before it appended anything: the numbers of the transactions that
    /// appended to them.
    pub reads: Vec<(usize, Vec<usize>)>,
    /// The lists that it appended its number to.
    pub appends: Vec<usize>,
    /// When it began, and when its client was told the end. Moments differ.
    pub began: u64,
    /// `u64::MAX`, if nobody knows when it took place.
    pub ended: u64,
    /// How it ended.
    pub fate: Fate,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It took place.
    #[default]
    Committed,
    /// It did not.
    Aborted,
    /// Nobody was told.
    Unknown,
}

/// Why it was not one after the other.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Anomaly {
    /// Two transactions read a list, and neither is the beginning of the other.
    Diverged { list: usize },
    /// A number is in a list more often than once.
    Repeated { list: usize, txn: usize },
    /// The append of a transaction that took place is not there.
    Lost { list: usize, txn: usize },
    /// Something of a transaction was read that did not take place.
    AbortedRead { list: usize, txn: usize },
    /// Some of its appends are there, and not all.
    Torn { txn: usize },
    /// Each of these comes before the next, and the last before the first.
    Cycle(Vec<(usize, Why)>),
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The other appended after it.
    Write,
    /// The other read what it appended.
    Read,
    /// It did not read what the other appended.
    AntiDependency,
    /// It ended before the other began.
    RealTime,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diverged { list } => write!(f, "two orders of list {list} were read"),
            Self::Repeated { list, txn } => write!(f, "{txn} is in list {list} twice"),
            Self::Lost { list, txn } => write!(f, "what {txn} appended to list {list} is lost"),
            Self::AbortedRead { list, txn } => {
                write!(
                    f,
                    "list {list} has something of {txn}, which was not committed"
                )
            }
            Self::Torn { txn } => write!(f, "only a part of what {txn} appended is there"),
            Self::Cycle(cycle) => {
                f.write_str("a cycle:")?;
                for (txn, why) in cycle {
                    write!(f, " {txn} before ({why:?})")?;
                }
                f.write_str(" the first")
            }
        }
    }
}

/// Looks for an anomaly among transactions, which their positions number. The last ones must have read all of every
/// list. O(n log n) for n reads and appends.
///
/// # Errors
///
/// The first that it finds.
pub(super) fn check(txns: &[Done]) -> Result<(), Anomaly> {
    let lists = longest(txns)?;
    let took_place = took_place(txns, &lists)?;
    let edges = edges(txns, &lists, &took_place);
    match cycle(&edges, txns.len()) {
        None => Ok(()),
        Some(cycle) => Err(Anomaly::Cycle(cycle)),
    }
}

/// The longest that was read of each list, of which all others are beginnings.
fn longest(txns: &[Done]) -> Result<BTreeMap<usize, &[usize]>, Anomaly> {
    let mut lists: BTreeMap<usize, &[usize]> = BTreeMap::new();
    let reads = || txns.iter().flat_map(|txn| &txn.reads);
    for (list, read) in reads() {
        let longest = lists.entry(*list).or_default();
        if read.len() > longest.len() {
            *longest = read;
        }
    }
    for (list, read) in reads() {
        if !lists[list].starts_with(read) {
            return Err(Anomaly::Diverged { list: *list });
        }
    }
    Ok(lists)
}

/// Which transactions took place, by what is in the lists.
fn took_place(txns: &[Done], lists: &BTreeMap<usize, &[usize]>) -> Result<Vec<bool>, Anomaly> {
    let mut found: Vec<Vec<usize>> = vec![Vec::new(); txns.len()];
    for (&list, elements) in lists {
        for &txn in *elements {
            let known = txns.get(txn);
            if known
                .is_none_or(|known| known.fate == Fate::Aborted || !known.appends.contains(&list))
            {
                return Err(Anomaly::AbortedRead { list, txn });
            }
            if found[txn].contains(&list) {
                return Err(Anomaly::Repeated { list, txn });
            }
            found[txn].push(list);
        }
    }
    let mut took_place = Vec::with_capacity(txns.len());
    for (txn, (done, found)) in txns.iter().zip(&found).enumerate() {
        let mut missing = done.appends.iter().filter(|list| !found.contains(list));
        match (done.fate, missing.next()) {
            (Fate::Committed, Some(&list)) => return Err(Anomaly::Lost { list, txn }),
            (Fate::Unknown, Some(_)) if !found.is_empty() => return Err(Anomaly::Torn { txn }),
            (Fate::Unknown, Some(_)) | (Fate::Aborted, _) => took_place.push(false),
            (_, None) => took_place.push(true),
        }
    }
    Ok(took_place)
}

type Edges = Vec<Vec<(usize, Why)>>;

/// Who comes before whom. Beyond the transactions there is a node for each end, in the order of time, which comes after
/// what has ended by then and before what began later.
fn edges(txns: &[Done], lists: &BTreeMap<usize, &[usize]>, took_place: &[bool]) -> Edges {
    let mut edges: Edges = vec![Vec::new(); 2 * txns.len()];
    let mut add = |from: usize, to: usize, why| {
        if from != to {
            edges[from].push((to, why));
        }
    };
    for elements in lists.values() {
        for pair in elements.windows(2) {
            add(pair[0], pair[1], Why::Write);
        }
    }
    for (txn, done) in txns.iter().enumerate().filter(|(txn, _)| took_place[*txn]) {
        for (list, read) in &done.reads {
            if let Some(&last) = read.last() {
                add(last, txn, Why::Read);
            }
            if let Some(&next) = lists[list].get(read.len()) {
                add(txn, next, Why::AntiDependency);
            }
        }
    }
    let mut ends: Vec<(u64, usize)> = (txns.iter().enumerate())
        .filter(|(txn, done)| took_place[*txn] && done.ended != u64::MAX)
        .map(|(txn, done)| (done.ended, txn))
        .collect();
    ends.sort_unstable();
    for (place, (_, txn)) in ends.iter().enumerate() {
        let node = txns.len() + place;
        add(*txn, node, Why::RealTime);
        if place + 1 < ends.len() {
            add(node, node + 1, Why::RealTime);
        }
    }
    for (txn, done) in txns.iter().enumerate().filter(|(txn, _)| took_place[*txn]) {
        let before = ends.partition_point(|(ended, _)| *ended < done.began);
        if let Some(last) = before.checked_sub(1) {
            add(txns.len() + last, txn, Why::RealTime);
        }
    }
    edges
}

/// A cycle, if there is one; only the transactions of it.
fn cycle(edges: &Edges, txns: usize) -> Option<Vec<(usize, Why)>> {
    // Kahn: takes away who has nobody before it. What is left has a cycle behind each node.
    let mut before = vec![0; edges.len()];
    for (to, _) in edges.iter().flatten() {
        before[*to] += 1;
    }
    let mut free: Vec<usize> = (0..edges.len()).filter(|node| before[*node] == 0).collect();
    while let Some(node) = free.pop() {
        for (to, _) in &edges[node] {
            before[*to] -= 1;
            if before[*to] == 0 {
                free.push(*to);
            }
        }
    }
    let is_left = |node: usize| before[node] > 0;
    let start = (0..edges.len()).find(|node| is_left(*node))?;
    // Backwards, as each that is left has somebody left before it.
    let mut back: BTreeMap<usize, (usize, Why)> = BTreeMap::new();
    for (from, to, why) in (0..edges.len())
        .filter(|from| is_left(*from))
        .flat_map(|from| edges[from].iter().map(move |(to, why)| (from, *to, *why)))
    {
        if is_left(to) {
            back.insert(to, (from, why));
        }
    }
    let mut path = vec![start];
    let mut node = start;
    loop {
        node = back[&node].0;
        if let Some(first) = path.iter().position(|seen| *seen == node) {
            let mut cycle: Vec<usize> = path[first..].to_vec();
            cycle.reverse();
            let whys = (0..cycle.len()).map(|at| {
                let next = cycle[(at + 1) % cycle.len()];
                (cycle[at], back[&next].1)
            });
            return Some(whys.filter(|(node, _)| *node < txns).collect());
        }
        path.push(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a transaction read, list by list, and what it appended to.
    type Listed<'a> = (&'a [(usize, &'a [usize])], &'a [usize]);

    /// Transactions in the order of time, one after the other unless `at_once`.
    fn history(txns: &[Listed<'_>], at_once: bool) -> Vec<Done> {
        let done = |(at, (reads, appends)): (usize, &Listed<'_>)| Done {
            reads: reads
                .iter()
                .map(|(list, read)| (*list, read.to_vec()))
                .collect(),
            appends: appends.to_vec(),
            began: if at_once { 0 } else { 2 * at as u64 },
            ended: if at_once {
                100 + at as u64
            } else {
                2 * at as u64 + 1
            },
            fate: Fate::Committed,
        };
        txns.iter().enumerate().map(done).collect()
    }

    fn whys(anomaly: Result<(), Anomaly>) -> Vec<Why> {
        match anomaly {
            Err(Anomaly::Cycle(cycle)) => cycle.into_iter().map(|(_, why)| why).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_one_after_the_other_is_right() {
        let txns = history(
            &[
                (&[(0, &[])], &[0]),
                (&[(0, &[0]), (1, &[])], &[1]),
                (&[(0, &[0])], &[0, 1]),
                (&[(0, &[0, 2]), (1, &[1, 2])], &[]),
            ],
            false,
        );
        assert_eq!(check(&txns), Ok(()));
    }

    #[test]
    fn a_lost_update_is_found() {
        // Both read the empty list and append.
        let txns = history(
            &[
                (&[(0, &[])], &[0]),
                (&[(0, &[])], &[0]),
                (&[(0, &[0, 1])], &[]),
            ],
            true,
        );
        let whys = whys(check(&txns));
        assert!(
            whys.contains(&Why::AntiDependency) && whys.contains(&Why::Write),
            "{whys:?}"
        );
        // Or one of the two is not there at all.
        let txns = history(
            &[
                (&[(0, &[])], &[0]),
                (&[(0, &[])], &[0]),
                (&[(0, &[1])], &[]),
            ],
            true,
        );
        assert_eq!(check(&txns), Err(Anomaly::Lost { list: 0, txn: 0 }));
    }

    #[test]
    fn write_skew_is_found() {
        let txns = history(
            &[
                (&[(0, &[]), (1, &[])], &[0]),
                (&[(0, &[]), (1, &[])], &[1]),
                (&[(0, &[0]), (1, &[1])], &[]),
            ],
            true,
        );
        assert_eq!(whys(check(&txns)), [Why::AntiDependency; 2]);
    }

    #[test]
    fn read_skew_and_dirty_orders_are_found() {
        let skew = history(
            &[
                (&[], &[0, 1]),
                (&[(0, &[]), (1, &[0])], &[]),
                (&[(0, &[0]), (1, &[0])], &[]),
            ],
            true,
        );
        let found = whys(check(&skew));
        assert!(
            found.contains(&Why::AntiDependency) && found.contains(&Why::Read),
            "{found:?}"
        );
        // Two writers in different orders.
        let dirty = history(
            &[
                (&[], &[0, 1]),
                (&[], &[0, 1]),
                (&[(0, &[0, 1]), (1, &[1, 0])], &[]),
            ],
            true,
        );
        assert_eq!(whys(check(&dirty)), [Why::Write; 2]);
        // Each read what the other appended.
        let circular = history(
            &[
                (&[(1, &[1])], &[0]),
                (&[(0, &[0])], &[1]),
                (&[(0, &[0]), (1, &[1])], &[]),
            ],
            true,
        );
        assert_eq!(whys(check(&circular)), [Why::Read; 2]);
    }

    #[test]
    fn a_read_of_the_past_is_found_by_real_time_alone() {
        let txns = [
            (&[][..], &[0][..]),
            (&[(0, &[][..])][..], &[]),
            (&[(0, &[0][..])], &[]),
        ];
        assert_eq!(check(&history(&txns, true)), Ok(()));
        let found = whys(check(&history(&txns, false)));
        assert!(
            found.contains(&Why::AntiDependency) && found.contains(&Why::RealTime),
            "{found:?}"
        );
    }

    #[test]
    fn what_did_not_take_place_is_not_to_be_read_and_what_did_is_whole() {
        let read = |fate, lists: &[(usize, &[usize])]| {
            let mut txns = history(&[(&[], &[0, 1]), (lists, &[])], true);
            txns[0].fate = fate;
            check(&txns)
        };
        let (all, part, none) = (
            [(0, &[0][..]), (1, &[0][..])],
            [(0, &[0][..]), (1, &[][..])],
            [(0, &[][..]), (1, &[][..])],
        );
        assert_eq!(
            read(Fate::Aborted, &all),
            Err(Anomaly::AbortedRead { list: 0, txn: 0 })
        );
        assert_eq!(read(Fate::Aborted, &none), Ok(()));
        assert_eq!(read(Fate::Unknown, &all), Ok(()));
        assert_eq!(read(Fate::Unknown, &none), Ok(()));
        assert_eq!(read(Fate::Unknown, &part), Err(Anomaly::Torn { txn: 0 }));
        assert_eq!(
            read(Fate::Committed, &none),
            Err(Anomaly::Lost { list: 0, txn: 0 })
        );
        assert_eq!(
            read(Fate::Committed, &part),
            Err(Anomaly::Lost { list: 1, txn: 0 })
        );
        let repeated = [(0, &[0, 0][..]), (1, &[0][..])];
        assert_eq!(
            read(Fate::Committed, &repeated),
            Err(Anomaly::Repeated { list: 0, txn: 0 })
        );
        let mut diverged = history(
            &[(&[], &[0]), (&[(0, &[0])], &[0]), (&[(0, &[1, 0])], &[])],
            true,
        );
        diverged[2].reads[0].1 = vec![1];
        assert_eq!(check(&diverged), Err(Anomaly::Diverged { list: 0 }));
    }
}
