//! The `kv` workload: which keys an operation touches, and how.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sha1::{Digest, Sha1};
use spanlatch_replica::StoreBuilder;

use crate::name::WorkloadName;

/// The cycle length unless another is given: write indexes practically never repeat.
pub const WHOLE_CYCLE: u64 = i64::MAX as u64;

/// The most rows of an operation, split points, and workers: what fits into memory with ease.
const MOST: u32 = 100_000;
/// The most bytes that all operations in flight may bring along: what fits into memory with ease.
const MOST_IN_FLIGHT: u64 = 1 << 30;
/// What a row takes beside its value, at least: key, request and version.
const ROW_BYTES: u64 = 100;
/// The largest value that the store accepts.
const MOST_BYTES: usize = StoreBuilder::MAX_VALUE_BYTES;

/// The settings of a workload, not yet checked against one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Share of operations that read a batch of keys, in percent.
    pub read_percent: u32,
    /// Share of operations that scan and count the whole table, in percent.
    pub span_percent: u32,
    /// Rows per operation.
    pub batch: u32,
    /// Write indexes repeat after this many.
    pub cycle_length: u64,
    /// The smallest value, in bytes.
    pub min_block_bytes: usize,
    /// The largest value, in bytes; sizes are uniform, both ends included.
    pub max_block_bytes: usize,
    /// Pre-split points.
    pub splits: u32,
    /// Whether keys are the indexes themselves instead of their hashes.
    pub sequential: bool,
    /// Seed of the key hash and of the workers' choices.
    pub seed: u64,
    /// Workers, each with one operation in flight.
    pub concurrency: u32,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            read_percent: 0,
            span_percent: 0,
            batch: 1,
            cycle_length: WHOLE_CYCLE,
            min_block_bytes: 1,
            max_block_bytes: 1,
            splits: 0,
            sequential: false,
            seed: 1,
            concurrency: 64,
        }
    }
}

impl Flags {
    /// The settings that a published name stands for.
    pub fn named(name: WorkloadName, splits: u32) -> Self {
        Self {
            read_percent: name.read_percent,
            span_percent: name.span_percent,
            batch: name.batch,
            cycle_length: name.cycle_length.unwrap_or(WHOLE_CYCLE),
            splits,
            ..Self::default()
        }
    }
}

impl Flags {
    /// What all operations in flight take at most.
    fn bytes_in_flight(&self) -> u64 {
        let rows = u64::from(self.batch).saturating_mul(u64::from(self.concurrency));
        rows.saturating_mul(ROW_BYTES.saturating_add(self.max_block_bytes as u64))
    }
}

/// Settings that make no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// More than all operations.
    #[error("read-percent {read} and span-percent {span} are more than 100 together")]
    Percent {
        /// The share of reads.
        read: u32,
        /// The share of scans.
        span: u32,
    },
    /// Operations without rows, or with more than fit into memory.
    #[error("batch {0} is not in 1..={MOST}")]
    Batch(u32),
    /// No write index at all, or one that is no i64.
    #[error("cycle-length {0} is not in 1..={WHOLE_CYCLE}")]
    CycleLength(u64),
    /// No size lies between.
    #[error("min-block-bytes {min} is more than max-block-bytes {max}")]
    BlockBytes {
        /// The smallest size.
        min: usize,
        /// The largest size.
        max: usize,
    },
    /// The store refuses such values.
    #[error(
        "max-block-bytes {0} is more than {MOST_BYTES}, the largest value that the store accepts"
    )]
    ValueBytes(usize),
    /// More ranges than fit into memory.
    #[error("splits {0} is not in 0..={MOST}")]
    Splits(u32),
    /// Sequential keys would all fall into one of the ranges.
    #[error("sequential keys cannot be combined with splits (splits is {0})")]
    SequentialSplits(u32),
    /// Nobody to do the work, or more than fit into memory.
    #[error("concurrency {0} is not in 1..={MOST}")]
    Concurrency(u32),
    /// Each is possible, but not all of them together.
    #[error(
        "batch {batch}, max-block-bytes {max_block_bytes} and concurrency {concurrency} together need {} MiB for \
         the operations in flight, more than {} MiB",
        bytes >> 20, MOST_IN_FLIGHT >> 20
    )]
    InFlight {
        /// Rows per operation.
        batch: u32,
        /// The largest value.
        max_block_bytes: usize,
        /// Operations.
        concurrency: u32,
        /// Bytes of them all.
        bytes: u64,
    },
}

/// A workload whose settings make sense together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload(Flags);

impl Workload {
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// The first rule that they break.
    pub fn new(flags: Flags) -> Result<Self, WorkloadError> {
        let Flags {
            read_percent: read,
            span_percent: span,
            splits,
            ..
        } = flags;
        let (min, max) = (flags.min_block_bytes, flags.max_block_bytes);
        if read.saturating_add(span) > 100 {
            Err(WorkloadError::Percent { read, span })
        } else if !(1..=MOST).contains(&flags.batch) {
            Err(WorkloadError::Batch(flags.batch))
        } else if !(1..=WHOLE_CYCLE).contains(&flags.cycle_length) {
            Err(WorkloadError::CycleLength(flags.cycle_length))
        } else if min > max {
            Err(WorkloadError::BlockBytes { min, max })
        } else if max > MOST_BYTES {
            Err(WorkloadError::ValueBytes(max))
        } else if splits > MOST {
            Err(WorkloadError::Splits(splits))
        } else if flags.sequential && splits > 0 {
            Err(WorkloadError::SequentialSplits(splits))
        } else if !(1..=MOST).contains(&flags.concurrency) {
            Err(WorkloadError::Concurrency(flags.concurrency))
        } else if flags.bytes_in_flight() > MOST_IN_FLIGHT {
            Err(WorkloadError::InFlight {
                batch: flags.batch,
                max_block_bytes: max,
                concurrency: flags.concurrency,
                bytes: flags.bytes_in_flight(),
            })
        } else {
            Ok(Self(flags))
        }
    }

    /// The settings.
    pub fn flags(&self) -> &Flags {
        &self.0
    }

    /// The published form of its name; what has no place in one is left out.
    pub fn name(&self) -> WorkloadName {
        WorkloadName {
            read_percent: self.0.read_percent,
            span_percent: self.0.span_percent,
            cycle_length: (self.0.cycle_length != WHOLE_CYCLE).then_some(self.0.cycle_length),
            batch: self.0.batch,
        }
    }

    /// The key of an index. O(1).
    pub fn key(&self, index: u64) -> Bytes {
        let number = if self.0.sequential {
            index.cast_signed()
        } else {
            hash(index, self.0.seed)
        };
        encode(number)
    }

    /// The split points, ascending: the i64 space divided evenly into `splits + 1` ranges.
    pub fn split_points(&self) -> Vec<Bytes> {
        let ranges = u128::from(self.0.splits) + 1;
        let offset = |i: u128| (i << 64) / ranges;
        // Below 2^64, because i < ranges; the encoding of a key *is* its offset from the smallest.
        (1..ranges)
            .map(|i| Bytes::copy_from_slice(&offset(i).to_be_bytes()[8..]))
            .collect()
    }

    /// The generators of all workers, which share one sequence of write indexes.
    pub fn generators(&self) -> Vec<Generator> {
        let workload = Arc::new(self.clone());
        let written = Arc::new(AtomicU64::new(0));
        let generator = |worker: u32| Generator {
            workload: Arc::clone(&workload),
            written: Arc::clone(&written),
            // Any map that gives each worker of each seed a stream of its own.
            rng: fastrand::Rng::with_seed(hash(u64::from(worker), self.0.seed).cast_unsigned()),
        };
        (0..self.0.concurrency).map(generator).collect()
    }
}

/// First 8 bytes, big endian, of SHA-1(BE64(index) ++ BE64(seed)).
fn hash(index: u64, seed: u64) -> i64 {
    let digest = Sha1::new()
        .chain_update(index.to_be_bytes())
        .chain_update(seed.to_be_bytes())
        .finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}

/// 8 bytes, big endian, the sign bit flipped: byte order is numeric order.
fn encode(number: i64) -> Bytes {
    Bytes::copy_from_slice(&(number ^ i64::MIN).to_be_bytes())
}

/// One operation of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read these keys; one that isn't there is no error.
    Read(Vec<Bytes>),
    /// Scan the whole table and count its rows.
    Scan,
    /// Write these rows.
    Write(Vec<Row>),
}

/// A row to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The index whose key it is.
    pub index: u64,
    /// Its key.
    pub key: Bytes,
    /// Its value.
    pub value: Bytes,
}

/// Chooses the operations of one worker.
#[derive(Debug)]
pub struct Generator {
    workload: Arc<Workload>,
    /// Write indexes handed out so far, to all workers. Relaxed: only uniqueness matters.
    written: Arc<AtomicU64>,
    rng: fastrand::Rng,
}

impl Generator {
    /// The next operation. O(batch).
    pub fn next_operation(&mut self) -> Operation {
        let Flags {
            read_percent,
            span_percent,
            batch,
            ..
        } = self.workload.0;
        let p = self.rng.u32(0..100);
        if p < read_percent {
            Operation::Read((0..batch).map(|_| self.read_key()).collect())
        } else if p - read_percent < span_percent {
            Operation::Scan
        } else {
            Operation::Write((0..batch).map(|_| self.row()).collect())
        }
    }

    fn read_key(&mut self) -> Bytes {
        let written = self.written.load(Ordering::Relaxed) % self.workload.0.cycle_length;
        let index = if written == 0 {
            0
        } else {
            self.rng.u64(0..written)
        };
        self.workload.key(index)
    }

    fn row(&mut self) -> Row {
        let Flags {
            cycle_length,
            min_block_bytes,
            max_block_bytes,
            ..
        } = self.workload.0;
        let index = self.written.fetch_add(1, Ordering::Relaxed) % cycle_length;
        let mut value = vec![0; self.rng.usize(min_block_bytes..=max_block_bytes)];
        self.rng.fill(&mut value);
        Row {
            index,
            key: self.workload.key(index),
            value: value.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(change: impl FnOnce(&mut Flags)) -> Workload {
        let mut flags = Flags::default();
        change(&mut flags);
        Workload::new(flags).expect("valid flags")
    }

    fn refused(change: impl FnOnce(&mut Flags)) -> String {
        let mut flags = Flags::default();
        change(&mut flags);
        let error = Workload::new(flags).expect_err("invalid flags").to_string();
        assert!(!error.contains('\n'), "one line: {error}");
        error
    }

    /// Counts of (reads, scans, writes) among the first operations of one worker.
    fn mix(workload: &Workload, operations: usize) -> (usize, usize, usize) {
        let mut generator = workload.generators().remove(0);
        let mut counts = (0, 0, 0);
        for _ in 0..operations {
            match generator.next_operation() {
                Operation::Read(_) => counts.0 += 1,
                Operation::Scan => counts.1 += 1,
                Operation::Write(_) => counts.2 += 1,
            }
        }
        counts
    }

    fn written(generator: &mut Generator) -> Vec<u64> {
        match generator.next_operation() {
            Operation::Write(rows) => rows.into_iter().map(|row| row.index).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_key_of_an_index_is_the_start_of_its_sha_1_with_the_sign_bit_flipped() {
        // printf '0000000000000000 0000000000000001' | xxd -r -p | sha1sum
        let known = [
            (0, 1, [0x88, 0x68, 0x5c, 0x90, 0xd4, 0xac, 0x9d, 0x24]),
            (1, 1, [0x14, 0x54, 0x01, 0xe4, 0x34, 0xbc, 0xd2, 0x4e]),
            (5, 7, [0x09, 0xbe, 0xcf, 0x9a, 0xf5, 0xec, 0x83, 0x72]),
        ];
        for (index, seed, digest) in known {
            let mut expected: [u8; 8] = digest;
            expected[0] ^= 0x80;
            assert_eq!(
                workload(|f| f.seed = seed).key(index),
                expected[..],
                "{index} {seed}"
            );
        }
    }

    #[test]
    fn a_sequential_key_is_its_index() {
        let workload = workload(|f| f.sequential = true);
        assert_eq!(workload.key(5), [0x80, 0, 0, 0, 0, 0, 0, 5][..]);
    }

    #[test]
    fn byte_order_of_keys_is_numeric_order() {
        let numbers = [i64::MIN, -2, -1, 0, 1, i64::MAX];
        assert!(numbers.map(encode).is_sorted());
        assert_eq!(encode(i64::MIN), [0; 8][..]);
    }

    #[test]
    fn operations_are_chosen_in_the_given_shares() {
        let (reads, scans, writes) = mix(
            &workload(|f| (f.read_percent, f.span_percent) = (70, 20)),
            100_000,
        );
        assert!((69_000..71_000).contains(&reads), "{reads}");
        assert!((19_000..21_000).contains(&scans), "{scans}");
        assert!((9_000..11_000).contains(&writes), "{writes}");
        assert_eq!(mix(&workload(|_| ()), 1000), (0, 0, 1000));
        assert_eq!(mix(&workload(|f| f.read_percent = 100), 1000), (1000, 0, 0));
        assert_eq!(mix(&workload(|f| f.span_percent = 100), 1000), (0, 1000, 0));
    }

    #[test]
    fn workers_share_one_sequence_of_write_indexes() {
        let mut generators = workload(|f| (f.concurrency, f.batch) = (3, 2)).generators();
        assert_eq!(generators.len(), 3);
        let indexes: Vec<u64> = [0, 2, 1, 0]
            .into_iter()
            .flat_map(|w| written(&mut generators[w]))
            .collect();
        assert_eq!(indexes, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn write_indexes_repeat_after_the_cycle() {
        let mut generators = workload(|f| f.cycle_length = 3).generators();
        let indexes: Vec<u64> = (0..7).flat_map(|_| written(&mut generators[0])).collect();
        assert_eq!(indexes, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn reads_take_an_index_below_the_position_in_the_cycle() {
        let workload = workload(|f| (f.read_percent, f.cycle_length, f.batch) = (100, 10, 4));
        let mut generator = workload.generators().remove(0);
        let mut seen = |position: u64| {
            generator.written.store(position, Ordering::Relaxed);
            let mut keys = Vec::new();
            for _ in 0..200 {
                match generator.next_operation() {
                    Operation::Read(batch) => {
                        assert_eq!(batch.len(), 4);
                        keys.extend(batch);
                    }
                    other => panic!("{other:?}"),
                }
            }
            keys.sort();
            keys.dedup();
            keys
        };
        let first = |n: u64| {
            let mut keys: Vec<Bytes> = (0..n).map(|i| workload.key(i)).collect();
            keys.sort();
            keys
        };
        assert_eq!(seen(0), first(1), "nothing written: index 0");
        assert_eq!(seen(7), first(7));
        assert_eq!(seen(20), first(1), "the start of a cycle: index 0");
        assert_eq!(seen(23), first(3));
    }

    #[test]
    fn workers_choose_differently_and_the_seed_repeats_their_choices() {
        let choices = |seed: u64| -> Vec<Vec<Operation>> {
            let workload = workload(|f| (f.seed, f.read_percent, f.concurrency) = (seed, 50, 2));
            let mut generators = workload.generators();
            generators
                .iter_mut()
                .map(|g| (0..50).map(|_| g.next_operation()).collect())
                .collect()
        };
        let kinds = |operations: &[Operation]| -> Vec<bool> {
            operations
                .iter()
                .map(|o| matches!(o, Operation::Read(_)))
                .collect()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
        let both = choices(1);
        assert_ne!(kinds(&both[0]), kinds(&both[1]));
    }

    #[test]
    fn value_sizes_are_uniform_with_both_ends() {
        let workload = workload(|f| (f.min_block_bytes, f.max_block_bytes) = (2, 4));
        let mut generator = workload.generators().remove(0);
        let mut counts = [0; 6];
        for _ in 0..3000 {
            match generator.next_operation() {
                Operation::Write(rows) => counts[rows[0].value.len()] += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(counts[0] + counts[1] + counts[5], 0);
        assert!(
            counts[2..=4].iter().all(|n| (850..1150).contains(n)),
            "{counts:?}"
        );
    }

    #[test]
    fn equal_block_bounds_are_fine() {
        let mut generator = workload(|f| (f.min_block_bytes, f.max_block_bytes) = (9, 9))
            .generators()
            .remove(0);
        assert!(
            matches!(generator.next_operation(), Operation::Write(rows) if rows[0].value.len() == 9)
        );
    }

    #[test]
    fn split_points_divide_the_key_space_evenly() {
        assert_eq!(workload(|_| ()).split_points(), Vec::<Bytes>::new());
        assert_eq!(workload(|f| f.splits = 1).split_points(), [encode(0)]);
        assert_eq!(
            workload(|f| f.splits = 3).split_points(),
            [encode(i64::MIN / 2), encode(0), encode(i64::MAX / 2 + 1)]
        );
        let hundred = workload(|f| f.splits = 100).split_points();
        assert_eq!(hundred.len(), 100);
        assert!(hundred.is_sorted());
    }

    #[test]
    fn hashed_keys_fall_evenly_into_the_ranges() {
        let workload = workload(|f| f.splits = 9);
        let points = workload.split_points();
        let mut counts = [0; 10];
        for index in 0..10_000 {
            counts[points.partition_point(|point| *point <= workload.key(index))] += 1;
        }
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    #[test]
    fn impossible_settings_are_refused_in_one_line_that_names_them() {
        assert!(refused(|f| (f.read_percent, f.span_percent) = (81, 20)).contains("81"));
        assert!(refused(|f| (f.read_percent, f.span_percent) = (u32::MAX, 1)).contains("100"));
        assert!(refused(|f| f.batch = 0).contains("batch 0"));
        assert!(refused(|f| f.batch = u32::MAX).contains("batch 4294967295"));
        assert!(refused(|f| f.cycle_length = 0).contains("cycle-length 0"));
        assert!(refused(|f| f.cycle_length = WHOLE_CYCLE + 1).contains("9223372036854775808"));
        assert!(
            refused(|f| (f.min_block_bytes, f.max_block_bytes) = (3, 2))
                .contains("min-block-bytes 3")
        );
        assert!(refused(|f| (f.sequential, f.splits) = (true, 4)).contains("splits is 4"));
        assert!(refused(|f| f.splits = u32::MAX).contains("splits 4294967295"));
        assert!(
            refused(|f| f.max_block_bytes = MOST_BYTES + 1).contains("max-block-bytes 67108865")
        );
        assert!(refused(|f| f.concurrency = 0).contains("concurrency 0"));
        assert!(refused(|f| f.concurrency = u32::MAX).contains("concurrency 4294967295"));
    }

    #[test]
    fn a_published_name_gives_the_workload_that_has_that_name() {
        for name in ["kv0", "kv95", "kv95-c5", "kv70-20-c128", "kv95-b1024"] {
            let workload = Workload::new(Flags::named(name.parse().expect(name), 0)).expect(name);
            assert_eq!(workload.name().to_string(), name);
        }
    }
}
