//! Exact statistics of small samples: medians, spreads and the Mann-Whitney test.

/// Above this p-value two samples count as indistinguishable.
pub const ALPHA: f64 = 0.01;

/// A sample in two figures. No measurement is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The largest deviation from the median, as a fraction of it; 0 where the median is 0.
    pub spread: f64,
}

impl Summary {
    /// Summarizes a sample; `None` if it is empty or holds something that is no finite number.
    /// O(n log n).
    pub fn of(sample: &[f64]) -> Option<Self> {
        if sample.is_empty() || sample.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (sorted[0], sorted[sorted.len() - 1]);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        let largest = (last - median).max(median - first);
        let spread = if median == 0.0 {
            0.0
        } else {
            largest / median.abs()
        };
        Some(Self { median, spread })
    }
}

/// What can be said about a new sample beside an old one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Every measurement of both samples is the same number.
    AllEqual,
    /// The test does not tell the samples apart: p > [`ALPHA`].
    Indistinct {
        /// The two-sided p-value.
        p: f64,
    },
    /// The samples differ.
    Differs {
        /// The change of the median as a fraction of the old one.
        delta: f64,
        /// The two-sided p-value.
        p: f64,
    },
}

impl Verdict {
    /// Compares two samples; `None` unless both can be summarized.
    pub fn of(old: &[f64], new: &[f64]) -> Option<Self> {
        let (before, after) = (Summary::of(old)?, Summary::of(new)?);
        if old.iter().chain(new).all(|x| *x == old[0]) {
            return Some(Self::AllEqual);
        }
        let p = mann_whitney(old, new);
        Some(if p > ALPHA || before.median == 0.0 {
            Self::Indistinct { p }
        } else {
            Self::Differs {
                delta: after.median / before.median - 1.0,
                p,
            }
        })
    }
}

/// The exact two-sided p-value of the Mann-Whitney U test (the rank-sum test): the probability, if
/// every way to deal the pooled measurements out to two samples of these sizes were equally likely,
/// of a rank sum at least as extreme as the one seen. It is twice the smaller tail, at most 1. Ties
/// share their mean rank, as in Klotz, "The Wilcoxon, Ties, and the Computer" (JASA 61, 1966).
///
/// Written out because `statrs` refuses ties in its exact method, and latencies tie often.
///
/// Both samples must be non-empty and finite. O(n1 (n1 + n2)^3) in time: meant for tens of values.
pub fn mann_whitney(xs: &[f64], ys: &[f64]) -> f64 {
    let ranks = doubled_ranks(xs, ys);
    let seen: usize = ranks[..xs.len()].iter().sum();
    let total: usize = ranks.iter().sum();

    // ways[k][s]: the number of ways to choose k of the ranks looked at so far with sum s. Counts are
    // integers well below 2^53 for the sample sizes that occur, and merely rounded above.
    let mut ways = vec![vec![0.0_f64; total + 1]; xs.len() + 1];
    ways[0][0] = 1.0;
    for (looked_at, rank) in ranks.iter().enumerate() {
        for k in (1..=xs.len().min(looked_at + 1)).rev() {
            for sum in (*rank..=total).rev() {
                ways[k][sum] += ways[k - 1][sum - rank];
            }
        }
    }
    let of_this_size = &ways[xs.len()];
    let below: f64 = of_this_size[..=seen].iter().sum();
    let above: f64 = of_this_size[seen..].iter().sum();
    let all: f64 = of_this_size.iter().sum();
    (2.0 * below.min(above) / all).min(1.0)
}

/// Twice the rank of each measurement among all of them, first those of `xs`; ties share their mean.
/// (Doubled, mean ranks are integers.)
fn doubled_ranks(xs: &[f64], ys: &[f64]) -> Vec<usize> {
    let pooled: Vec<f64> = xs.iter().chain(ys).copied().collect();
    let rank = |x: &f64| {
        let below = pooled.iter().filter(|y| *y < x).count();
        let equal = pooled.iter().filter(|y| *y == x).count();
        // Ranks below + 1 ..= below + equal have the mean below + (equal + 1) / 2.
        2 * below + equal + 1
    };
    pooled.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, by enumerating every choice of `xs.len()` of the pooled measurements. U
    /// statistics are compared, not ranks, so that nothing is shared with what is tested.
    fn by_enumeration(xs: &[f64], ys: &[f64]) -> f64 {
        let pooled: Vec<f64> = xs.iter().chain(ys).copied().collect();
        // Wins of the chosen over the others, a tie being half a win; doubled.
        let wins = |chosen: u32| -> usize {
            let mut wins = 0;
            for (_, x) in pooled
                .iter()
                .enumerate()
                .filter(|(i, _)| chosen >> i & 1 == 1)
            {
                for (_, y) in pooled
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| chosen >> i & 1 == 0)
                {
                    wins += if x > y { 2 } else { usize::from(x == y) };
                }
            }
            wins
        };
        let seen = wins((1 << xs.len()) - 1);
        let all: Vec<usize> = (0_u32..1 << pooled.len())
            .filter(|chosen| chosen.count_ones() as usize == xs.len())
            .map(wins)
            .collect();
        let tail = |count: usize| 2.0 * count as f64 / all.len() as f64;
        let below = tail(all.iter().filter(|u| **u <= seen).count());
        let above = tail(all.iter().filter(|u| **u >= seen).count());
        below.min(above).min(1.0)
    }

    proptest! {
        #[test]
        fn the_p_value_is_that_of_enumerating_every_deal(
            xs in proptest::collection::vec(0_u8..6, 1..=6),
            ys in proptest::collection::vec(0_u8..6, 1..=6),
        ) {
            let xs: Vec<f64> = xs.into_iter().map(f64::from).collect();
            let ys: Vec<f64> = ys.into_iter().map(f64::from).collect();
            let (fast, slow) = (mann_whitney(&xs, &ys), by_enumeration(&xs, &ys));
            prop_assert!((fast - slow).abs() < 1e-12, "{fast} instead of {slow}");
        }

        #[test]
        fn the_p_value_does_not_depend_on_which_sample_comes_first(
            xs in proptest::collection::vec(0_u8..20, 1..=8),
            ys in proptest::collection::vec(0_u8..20, 1..=8),
        ) {
            let xs: Vec<f64> = xs.into_iter().map(f64::from).collect();
            let ys: Vec<f64> = ys.into_iter().map(f64::from).collect();
            prop_assert!((mann_whitney(&xs, &ys) - mann_whitney(&ys, &xs)).abs() < 1e-12);
        }
    }

    #[test]
    fn five_against_five_apart_is_two_deals_of_252() {
        let p = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((p - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(format!("{p:.3}"), "0.008");
    }

    #[test]
    fn five_against_four_apart_is_two_deals_of_126() {
        let p = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0]);
        assert!((p - 2.0 / 126.0).abs() < 1e-12);
    }

    #[test]
    fn fifty_against_fifty_is_still_counted() {
        let xs: Vec<f64> = (0..50).map(f64::from).collect();
        let ys: Vec<f64> = (0..50).map(|x| f64::from(x) + 0.5).collect();
        let p = mann_whitney(&xs, &ys);
        assert!(p > 0.8 && p < 1.0, "{p}");
    }

    #[test]
    fn the_median_of_an_even_sample_is_the_middle_of_the_middle_two() {
        let even = Summary::of(&[4.0, 1.0, 3.0, 2.0]).map(|s| s.median);
        let odd = Summary::of(&[9.0, 1.0, 3.0]).map(|s| s.median);
        assert_eq!((even, odd), (Some(2.5), Some(3.0)));
    }

    #[test]
    fn the_spread_is_the_largest_deviation_and_drops_no_outlier() {
        let spread = Summary::of(&[100.0, 101.0, 99.0, 100.0, 10.0]).map(|s| s.spread);
        assert_eq!(spread, Some(0.9));
    }

    #[test]
    fn an_empty_sample_and_one_with_a_non_number_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Verdict::of(&[1.0], &[]), None);
    }

    #[test]
    fn equal_samples_are_called_equal_and_not_merely_indistinct() {
        assert_eq!(Verdict::of(&[2.0, 2.0], &[2.0; 3]), Some(Verdict::AllEqual));
    }

    #[test]
    fn a_difference_counts_only_below_the_threshold() {
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        let high = [6.0, 7.0, 8.0, 9.0, 10.0];
        match Verdict::of(&low, &high) {
            Some(Verdict::Differs { delta, p }) => {
                assert!((delta - 8.0 / 3.0 + 1.0).abs() < 1e-12);
                assert!(p < ALPHA);
            }
            other => panic!("{other:?}"),
        }
        // One value on the wrong side: p = 4/252 = 0.016.
        let mixed = [5.5, 7.0, 8.0, 9.0, 4.5];
        assert!(matches!(
            Verdict::of(&low, &mixed),
            Some(Verdict::Indistinct { .. })
        ));
    }
}
