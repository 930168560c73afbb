//! Spans, span sets and compact keys against a model that asks about one key at a time.

use interval_btree::{Abbreviate, Bytewise};
use spanset::{Access, CompactKey, Declaration, End, Scope, Span, SpanSet, Timestamp};

use crate::choices::Choices;

/// How many declarations are in a set at most.
const LARGEST: usize = 8;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// Pairs of sets that were made and asked.
    pub pairs: u64,
    /// Answers that were compared.
    pub answers: u64,
}

impl Covered {
    /// Adds what another run covered.
    pub fn add(&mut self, other: Covered) {
        self.pairs += other.pairs;
        self.answers += other.answers;
    }
}

/// Makes two sets and asks them whatever there is to ask, at most `pairs` times.
///
/// # Panics
///
/// If an answer is not that of the model.
pub fn run(choices: &mut Choices<'_>, pairs: u64) -> Covered {
    let mut covered = Covered::default();
    while covered.pairs < pairs && !choices.are_over() {
        covered.pairs += 1;
        let mut pair = Pair::new(choices);
        pair.compare_keys();
        pair.compare_words(choices);
        pair.compare_spans();
        pair.compare_conflicts();
        for _ in 0..4 {
            pair.compare_checks(choices);
            pair.compare_checks_below(choices);
        }
        pair.compare_merged();
        pair.compare_sorted();
        pair.compare_forwarded(choices);
        covered.answers += pair.answers;
    }
    covered
}

/// The bytes of a key.
type Bytes = Vec<u8>;

/// A span in its plainest form. The end is the first key that is not inside, if there is one.
#[derive(Clone, Debug)]
struct Stretch {
    start: Bytes,
    end: Option<Bytes>,
}

impl Stretch {
    fn has(&self, key: &[u8]) -> bool {
        self.start[..] <= *key && self.end.as_ref().is_none_or(|end| *key < **end)
    }
}

/// A declaration in its plainest form.
#[derive(Clone, Debug)]
struct Plain {
    stretch: Stretch,
    write: bool,
    local: bool,
    at: Option<u64>,
}

impl Plain {
    fn conflicts(&self, held: &Plain) -> bool {
        let timeless = self.at.is_none() || held.at.is_none();
        self.local == held.local
            && match (self.write, held.write) {
                (false, false) => false,
                (true, true) => true,
                (false, true) => timeless || held.at <= self.at,
                (true, false) => timeless || held.at >= self.at,
            }
    }

    /// Whether it allows an access to its keys.
    fn allows(&self, write: bool, local: bool, at: Option<u64>) -> bool {
        let time = match (self.at, at) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(declared), Some(at)) if !self.write => at <= declared,
            (Some(declared), Some(at)) => !write || at >= declared,
        };
        self.local == local && (self.write || !write) && time
    }
}

/// Two sets, with their models, and every key at which something can begin or end.
struct Pair {
    sets: [SpanSet; 2],
    plain: [Vec<Plain>; 2],
    /// Sorted. What holds for one of them holds for all keys up to the next.
    cuts: Vec<Bytes>,
    answers: u64,
}

impl Pair {
    fn new(choices: &mut Choices<'_>) -> Self {
        let keys = Vec::from_iter((0..2 + choices.below(6)).map(|_| key(choices)));
        let mut sets = [SpanSet::new(), SpanSet::new()];
        let plain = [0, 1].map(|which| {
            Vec::from_iter((0..choices.below(LARGEST + 1)).map(|_| {
                let (declaration, plain) = declaration(choices, &keys);
                sets[which].declare(declaration);
                plain
            }))
        });
        let mut cuts = keys;
        cuts.push(Vec::new());
        for i in 0..cuts.len() {
            cuts.push(after(&cuts[i]));
        }
        cuts.sort();
        cuts.dedup();
        Pair {
            sets,
            plain,
            cuts,
            answers: 0,
        }
    }

    /// Compact keys are ordered as their bytes, and give them back.
    fn compare_keys(&mut self) {
        for a in &self.cuts {
            let compact = CompactKey::from(&a[..]);
            assert_eq!(compact.to_key(), a);
            for b in &self.cuts {
                let other = CompactKey::from(&b[..]);
                assert_eq!(compact.cmp(&other), a.cmp(b), "{a:?} {b:?}");
                assert_eq!(compact == other, a == b, "{a:?} {b:?}");
                self.answers += 1;
            }
        }
    }

    /// Words of keys never contradict their order, whatever prefix they are taken after.
    fn compare_words(&mut self, choices: &mut Choices<'_>) {
        let (first, last) = (
            choices.below(self.cuts.len()),
            choices.below(self.cuts.len()),
        );
        let (first, last) = (first.min(last), first.max(last));
        let keys = Vec::from_iter(self.cuts.iter().map(|key| CompactKey::from(&key[..])));
        let prefix = Bytewise::prefix(&keys[first], &keys[last]);
        let word = |key: &CompactKey| {
            let probe = Bytewise::probe(key);
            <Bytewise as Abbreviate<CompactKey>>::word(&prefix, &probe)
        };
        assert!(
            keys.iter().map(word).is_sorted(),
            "{prefix:?} {:?}",
            self.cuts
        );
        self.answers += 1;
    }

    fn compare_spans(&mut self) {
        let spans =
            |which: usize| Vec::from_iter(self.sets[which].iter().map(|d| d.span().clone()));
        for (a, span) in self.plain[0].iter().zip(spans(0)) {
            for (b, other) in self.plain[1].iter().zip(spans(1)) {
                let (a, b) = (&a.stretch, &b.stretch);
                let in_both = |key: &&Bytes| a.has(key) && b.has(key);
                let shared = self.cuts.iter().any(|key| in_both(&key));
                assert_eq!(span.overlaps(&other), shared, "{span} {other}");
                let all = self.cuts.iter().all(|key| a.has(key) || !b.has(key));
                assert_eq!(span.contains(&other), all, "{span} {other}");
                let both = span.intersection(&other);
                assert_eq!(both.is_some(), shared);
                for key in &self.cuts {
                    assert_eq!(span.contains_key(key), a.has(key), "{span} {key:?}");
                    let inside = both.as_ref().is_some_and(|both| both.contains_key(key));
                    assert_eq!(inside, in_both(&key), "{span} {other} {key:?}");
                }
                let same = self.cuts.iter().all(|key| a.has(key) == b.has(key));
                assert_eq!(span == other, same, "{span} {other}");
                self.answers += 1;
            }
        }
    }

    fn compare_conflicts(&mut self) {
        let conflict = |a: &Plain, b: &Plain| {
            let share = |key: &Bytes| a.stretch.has(key) && b.stretch.has(key);
            a.conflicts(b) && self.cuts.iter().any(share)
        };
        let [ours, theirs] = &self.plain;
        let expected = ours.iter().any(|a| theirs.iter().any(|b| conflict(a, b)));
        let mirrored = theirs.iter().any(|b| ours.iter().any(|a| conflict(b, a)));
        assert_eq!(self.sets[0].intersects(&self.sets[1]), expected);
        assert_eq!(self.sets[1].intersects(&self.sets[0]), mirrored);
        self.answers += 2;
    }

    fn compare_checks(&mut self, choices: &mut Choices<'_>) {
        let (asked, plain) = declaration(choices, &self.cuts);
        let Plain {
            stretch,
            write,
            local,
            at,
        } = plain;
        let checked = match asked.timestamp() {
            None => self.sets[0].check_allowed(asked.access(), asked.scope(), asked.span()),
            Some(at) => self.sets[0].check_allowed_at(asked.access(), asked.span(), at),
        };
        let allowed = |key: &&Bytes| {
            let allows = |p: &&Plain| p.allows(write, local, at) && p.stretch.has(key);
            self.plain[0].iter().find(allows).is_some()
        };
        let mut within = self.cuts.iter().filter(|key| stretch.has(key));
        let missing = within.find(|key| !allowed(key));
        match checked {
            Ok(()) => assert_eq!(missing, None, "{asked} under {:?}", self.sets[0]),
            Err(denied) => {
                let first = denied.first_undeclared().unwrap_or(asked.span().start());
                assert_eq!(
                    Some(&first.to_vec()),
                    missing,
                    "{asked} under {:?}",
                    self.sets[0]
                );
            }
        }
        self.answers += 1;
    }

    /// Just below a key, or at the very end.
    fn compare_checks_below(&mut self, choices: &mut Choices<'_>) {
        let (asked, plain) = declaration(choices, &self.cuts);
        let Plain {
            stretch: Stretch { end, .. },
            write,
            local,
            at,
        } = plain;
        let below = match &end {
            None => End::Unbounded,
            Some(key) => End::Before(&spanset::Key::from(key.clone())),
        };
        let (access, scope) = (asked.access(), asked.scope());
        let checked = match asked.timestamp() {
            None => self.sets[0].check_allowed_below(access, scope, below),
            Some(at) => self.sets[0].check_allowed_below_at(access, below, at),
        };
        let reaches = |p: &Plain| {
            let Stretch {
                start,
                end: reached,
            } = &p.stretch;
            let beyond = match (reached, &end) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(reached), Some(end)) => reached >= end,
            };
            beyond && end.as_ref().is_none_or(|end| start < end)
        };
        let mut plain = self.plain[0].iter();
        let expected = plain.any(|p| p.allows(write, local, at) && reaches(p));
        assert_eq!(
            checked.is_ok(),
            expected,
            "{asked} {below:?} {:?}",
            self.sets[0]
        );
        self.answers += 1;
    }

    fn compare_merged(&mut self) {
        let mut merged = self.sets[0].clone();
        merged.merge(&self.sets[1]);
        assert!(merged.iter().eq(self.sets.iter().flatten()));
        self.answers += 1;
    }

    /// Nothing is covered that was not, all is that was, and nothing is left to join.
    fn compare_sorted(&mut self) {
        let mut sorted = self.sets[0].clone();
        sorted.sort_and_dedup();
        let kind = |d: &Declaration| (d.scope(), d.timestamp(), d.access());
        for declaration in sorted.iter().chain(&self.sets[0]) {
            for key in &self.cuts {
                let covers = |set: &SpanSet| {
                    set.iter()
                        .any(|d| kind(d) == kind(declaration) && d.span().contains_key(key))
                };
                assert_eq!(
                    covers(&sorted),
                    covers(&self.sets[0]),
                    "{declaration} {key:?}"
                );
            }
        }
        let declarations = Vec::from_iter(&sorted);
        for pair in declarations.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if kind(a) == kind(b) {
                // The lowest key above the first one's end, if it has an end, is not where the second begins.
                let first = a.span();
                assert!(first.start() < b.span().start(), "not sorted: {sorted:?}");
                let mut between = self.cuts.iter().filter(|key| {
                    **key > *first.start() && *key < b.span().start() && !first.contains_key(key)
                });
                assert!(between.next().is_some(), "could be joined: {sorted:?}");
            }
        }
        let kinds = sorted
            .iter()
            .map(|d| (d.scope(), d.timestamp(), d.access()));
        assert!(kinds.is_sorted(), "not sorted: {sorted:?}");
        self.answers += 1;
    }

    fn compare_forwarded(&mut self, choices: &mut Choices<'_>) {
        let to = 1 + choices.below(4) as u64;
        let mut forwarded = self.sets[0].clone();
        forwarded.forward_writes(Timestamp::new(to, 0));
        for (declaration, plain) in forwarded.iter().zip(&self.plain[0]) {
            let expected = match plain.write {
                true => plain.at.map(|at| at.max(to)),
                false => plain.at,
            };
            let actual = declaration.timestamp();
            assert_eq!(actual, expected.map(|at| Timestamp::new(at, 0)));
            self.answers += 1;
        }
    }
}

/// A key with much in common with others: few different bytes, and a prefix of about a length at which something changes.
fn key(choices: &mut Choices<'_>) -> Bytes {
    let prefix = choices.of(&[0, 0, 0, 7, 8, 15, 16, 22, 23, 24, 30]);
    let mut key = vec![choices.of(b"\0a\xff"); prefix];
    let tail = choices.below(4);
    key.extend((0..tail).map(|_| choices.of(b"\0\x01a\xff")));
    key
}

fn after(key: &[u8]) -> Bytes {
    [key, b"\0"].concat()
}

/// A declaration between two of these keys.
fn declaration(choices: &mut Choices<'_>, keys: &[Bytes]) -> (Declaration, Plain) {
    let start = keys[choices.below(keys.len())].clone();
    let other = keys[choices.below(keys.len())].clone();
    let (span, stretch) = match choices.below(4) {
        0 => {
            let end = None;
            (Span::starting_at(start.clone()), Stretch { start, end })
        }
        1 | 2 if start != other => {
            let [start, other] = if start < other {
                [start, other]
            } else {
                [other, start]
            };
            let span = Span::range(start.clone(), other.clone()).expect("ascending");
            let end = Some(other);
            (span, Stretch { start, end })
        }
        _ => {
            let end = Some(after(&start));
            (Span::point(start.clone()), Stretch { start, end })
        }
    };
    let write = choices.below(2) == 0;
    let access = if write { Access::Write } else { Access::Read };
    let (declaration, local, at) = match choices.below(5) {
        0 => (Declaration::local(access, span), true, None),
        1 => (Declaration::global(access, span), false, None),
        wall => {
            let at = wall as u64;
            let time = Timestamp::new(at, 0);
            (Declaration::global_at(access, span, time), false, Some(at))
        }
    };
    debug_assert_eq!(declaration.scope() == Scope::Local, local);
    (
        declaration,
        Plain {
            stretch,
            write,
            local,
            at,
        },
    )
}
