//! What the microbenchmarks are meant to show.

use anyhow::Result;
use regex::Regex;

/// What a benchmark is meant to show; what it does not ask is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goal {
    /// At least this many times as fast as the original.
    pub times: Option<f64>,
    /// At most so many allocations per operation.
    pub allocs: Option<f64>,
    /// At most this many times what the ordered map takes that is measured beside it.
    pub within: Option<f64>,
    /// At most so many parks of each waiter.
    pub parks: Option<f64>,
}

const NONE: Goal = Goal {
    times: None,
    allocs: None,
    within: None,
    parks: None,
};

const fn times(times: f64) -> Goal {
    Goal {
        times: Some(times),
        ..NONE
    }
}

const fn within(within: f64) -> Goal {
    Goal {
        within: Some(within),
        ..NONE
    }
}

const fn parks(parks: f64) -> Goal {
    Goal {
        parks: Some(parks),
        ..NONE
    }
}

impl Goal {
    const fn allocs(self, allocs: f64) -> Self {
        Self {
            allocs: Some(allocs),
            ..self
        }
    }

    const fn within(self, within: f64) -> Self {
        Self {
            within: Some(within),
            ..self
        }
    }
}

/// By name; the first that matches counts.
const GOALS: &[(&str, Goal)] = &[
    ("^uncontended/point_write$", times(4.5).allocs(0.0)),
    ("^uncontended/point_read$", times(4.0).allocs(0.0)),
    (r"^uncontended/write\+read$", times(4.0).allocs(0.0)),
    ("^uncontended/writes_10$", times(2.5)),
    ("^uncontended/writes_100$", times(3.5)),
    ("^uncontended_build/", times(3.0)),
    ("^read_only_mix/", times(4.0).allocs(1.0)),
    ("^read_write_mix/(0|1|4|16)$", times(3.5)),
    ("^read_write_mix/", times(2.5)),
    ("^held/.*/100/op=", times(8.0)),
    ("^held/.*/op=", times(10.0)),
    ("^parallel/disjoint/.*/write$", times(3.0)),
    ("^parallel/disjoint/.*/read$", times(1.8)),
    ("^convoy/", parks(1.5)),
    ("^tree/first_overlap/", times(5.0).within(1.3)),
    ("^tree/remove_insert/", within(1.5)),
    ("^tree/snapshot_insert_remove/65536$", times(1.5)),
    ("^tree/snapshot_insert_remove/", times(1.0)),
];

/// What each of these is meant to show.
///
/// # Errors
///
/// If a pattern of the goals is malformed.
pub fn goals<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Goal>> {
    let patterns: Result<Vec<(Regex, Goal)>, regex::Error> = GOALS
        .iter()
        .map(|(pattern, goal)| Ok((Regex::new(pattern)?, *goal)))
        .collect();
    let patterns = patterns?;
    let goal = |name| {
        let found = patterns.iter().find(|(pattern, _)| pattern.is_match(name));
        found.map(|(_, goal)| *goal).unwrap_or_default()
    };
    Ok(names.into_iter().map(goal).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_particular_goal_counts() -> Result<()> {
        let names = [
            "held/read/100/op=write",
            "held/write/1000000/op=read",
            "held/read/1000000/first_write",
            "read_write_mix/16",
            "read_write_mix/64",
            "tree/snapshot_insert_remove/65536",
            "tree/snapshot/65536",
        ];
        let found: Vec<Option<f64>> = goals(names)?.into_iter().map(|goal| goal.times).collect();
        let expected = [8.0, 10.0, f64::NAN, 3.5, 2.5, 1.5, f64::NAN];
        assert_eq!(
            found,
            expected.map(|times: f64| (!times.is_nan()).then_some(times))
        );
        Ok(())
    }
}
