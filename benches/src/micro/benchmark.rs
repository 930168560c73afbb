//! A named piece of work that can be repeated.

use std::fmt;

use super::spent::Spent;

/// Does so many operations, a multiple of the benchmark's [unit](Benchmark::unit), and says what all of
/// them took. What is not the operation itself is not in it.
pub type Work = Box<dyn FnMut(u64) -> Spent>;

/// Which of many batches is the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The fastest but for a tenth: whatever else the machine does only adds to the time, and the very fastest
    /// were lucky in what they met.
    Undisturbed,
    /// The median, where threads meet: a batch in which they happen not to is no good one.
    Median,
}

/// How large the work is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As it was published.
    Published,
    /// Just large enough to run, to see that it does.
    Tiny,
}

impl Scale {
    /// Tiny if this program was given `--test`, with which criterion runs everything once.
    pub fn asked_for() -> Self {
        match std::env::args().any(|argument| argument == "--test") {
            true => Self::Tiny,
            false => Self::Published,
        }
    }

    /// So many, or fewer.
    pub fn of(self, published: u64) -> u64 {
        match self {
            Self::Published => published,
            Self::Tiny => published.min(64),
        }
    }
}

/// A named piece of work, not set up yet.
pub struct Benchmark {
    /// Its published name.
    pub name: String,
    /// Operations come in multiples of this.
    pub unit: u64,
    /// A batch has no more operations than this: to prepare them takes longer than they do.
    pub most: u64,
    /// Which batch counts.
    pub figure: Figure,
    /// Sets it up. That may take seconds, and gigabytes.
    pub set_up: Box<dyn FnOnce() -> Work>,
}

impl Benchmark {
    /// Work of which any number of operations can be done.
    pub fn new(name: impl Into<String>, set_up: impl FnOnce() -> Work + 'static) -> Self {
        Self {
            name: name.into(),
            unit: 1,
            most: u64::MAX,
            figure: Figure::Undisturbed,
            set_up: Box::new(set_up),
        }
    }

    /// The same, in multiples of so many operations.
    #[must_use]
    pub fn in_units_of(self, unit: u64) -> Self {
        Self { unit, ..self }
    }

    /// The same, of which no more than one unit is done at a time.
    #[must_use]
    pub fn one_by_one(self) -> Self {
        Self {
            most: self.unit,
            ..self
        }
    }

    /// The same, with the median as its figure.
    #[must_use]
    pub fn by_median(self) -> Self {
        Self {
            figure: Figure::Median,
            ..self
        }
    }
}

impl fmt::Debug for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Benchmark")
            .field("name", &self.name)
            .field("unit", &self.unit)
            .field("most", &self.most)
            .field("figure", &self.figure)
            .finish_non_exhaustive()
    }
}
