//! Where a proof takes its choices from: a random number generator, or the bytes of a fuzzer.

use fastrand::Rng;

/// A source of choices.
///
/// Each proof is a function of its choices alone, so that a seed, or a file of bytes, replays it.
#[derive(Debug)]
pub struct Choices<'a>(Source<'a>);

#[derive(Debug)]
enum Source<'a> {
    Random(Rng),
    Bytes(&'a [u8]),
}

impl<'a> Choices<'a> {
    /// Choices without end.
    pub fn random(seed: u64) -> Self {
        Choices(Source::Random(Rng::with_seed(seed)))
    }

    /// A byte a choice, two where there are more than 256 to choose from. When no bytes are left, all choices are
    /// the first.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        Choices(Source::Bytes(bytes))
    }

    /// Whether no bytes are left.
    pub fn are_over(&self) -> bool {
        matches!(self.0, Source::Bytes([]))
    }

    /// A number below `n`, which is above 0.
    pub fn below(&mut self, n: usize) -> usize {
        match &mut self.0 {
            Source::Random(rng) => rng.usize(..n),
            Source::Bytes(bytes) => {
                let mut chosen = 0;
                let mut room = 1;
                while room < n
                    && let Some((&byte, rest)) = bytes.split_first()
                {
                    chosen = (chosen << 8) | usize::from(byte);
                    room <<= 8;
                    *bytes = rest;
                }
                chosen % n
            }
        }
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::Choices;

    #[test]
    fn bytes_choose_all_that_there_is_and_the_first_when_they_are_over() {
        let mut choices = Choices::from_bytes(&[7, 3, 0xe8]);
        assert_eq!(choices.below(10), 7);
        assert_eq!(choices.below(2_000), 1_000);
        assert!(choices.are_over());
        assert_eq!((choices.below(10), choices.one_in(2)), (0, false));
    }
}
