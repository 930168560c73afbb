//! A timestamp: wall time and a logical counter.

use std::fmt;

/// A point in the history of versions: wall time, and a counter that orders what happens within
/// one nanosecond. Totally ordered, by wall time first.
///
/// Its text is seconds, nanoseconds and counter: `12.000000005,3`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timestamp {
    /// Nanoseconds since the epoch of whoever makes the timestamps.
    pub wall: u64,
    /// The order within that nanosecond.
    pub logical: u32,
    /// Fills what alignment leaves empty, with values to spare for `None`.
    #[cfg_attr(feature = "serde", serde(skip))]
    rest: Rest,
}

/// One value of 2^32, so that an optional timestamp takes no more room than a timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
enum Rest {
    #[default]
    Zero = 0,
}

const _: () = assert!(size_of::<Option<Timestamp>>() == 16);

impl Timestamp {
    /// The lowest timestamp.
    pub const MIN: Self = Self::new(0, 0);
    /// The highest timestamp.
    pub const MAX: Self = Self::new(u64::MAX, u32::MAX);

    /// The timestamp `wall` nanoseconds after the epoch, and `logical` within them.
    pub const fn new(wall: u64, logical: u32) -> Self {
        Self {
            wall,
            logical,
            rest: Rest::Zero,
        }
    }

    /// The lowest timestamp above this one, or `None` for [`MAX`](Self::MAX).
    pub const fn next(self) -> Option<Self> {
        match (self.wall, self.logical) {
            (u64::MAX, u32::MAX) => None,
            (wall, u32::MAX) => Some(Self::new(wall + 1, 0)),
            (wall, logical) => Some(Self::new(wall, logical + 1)),
        }
    }

    /// The highest timestamp below this one, or `None` for [`MIN`](Self::MIN).
    pub const fn prev(self) -> Option<Self> {
        match (self.wall, self.logical) {
            (0, 0) => None,
            (wall, 0) => Some(Self::new(wall - 1, u32::MAX)),
            (wall, logical) => Some(Self::new(wall, logical - 1)),
        }
    }

    /// `self <= other`, where the compiler computes it.
    pub(crate) const fn at_most(self, other: Self) -> bool {
        self.wall < other.wall || (self.wall == other.wall && self.logical <= other.logical)
    }
}

/// As [`Display`](fmt::Display).
impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NANOS: u64 = 1_000_000_000;
        let (seconds, nanos) = (self.wall / NANOS, self.wall % NANOS);
        write!(f, "{seconds}.{nanos:09},{}", self.logical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_timestamp_carries_into_the_wall_time() {
        assert_eq!(
            Timestamp::new(5, u32::MAX).next(),
            Some(Timestamp::new(6, 0))
        );
        assert_eq!(
            Timestamp::new(6, 0).prev(),
            Some(Timestamp::new(5, u32::MAX))
        );
        assert_eq!(Timestamp::new(5, 1).next(), Some(Timestamp::new(5, 2)));
        assert_eq!(Timestamp::new(5, 2).prev(), Some(Timestamp::new(5, 1)));
    }

    #[test]
    fn nothing_lies_beyond_the_first_and_the_last_timestamp() {
        assert_eq!(Timestamp::MIN.prev(), None);
        assert_eq!(Timestamp::MAX.next(), None);
    }

    #[test]
    fn wall_time_orders_before_the_counter() {
        let times = [(0, 0), (0, 1), (0, u32::MAX), (1, 0), (u64::MAX, 0)];
        for (i, &(wall, logical)) in times.iter().enumerate() {
            for (j, &(other_wall, other_logical)) in times.iter().enumerate() {
                let (a, b) = (
                    Timestamp::new(wall, logical),
                    Timestamp::new(other_wall, other_logical),
                );
                assert_eq!(a.cmp(&b), i.cmp(&j));
                assert_eq!(a.at_most(b), a <= b);
            }
        }
    }

    #[test]
    fn the_text_is_seconds_nanoseconds_and_counter() {
        assert_eq!(
            Timestamp::new(12_000_000_005, 3).to_string(),
            "12.000000005,3"
        );
    }
}
