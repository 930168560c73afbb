//! Latches that say what they cost, whoever made them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use spanlatch::OnPoison;
use spanlatch_replica::{Error, Latches};
use spanset::SpanSet;

/// Of so many acquisitions, one is measured. Those of many spans always are: measuring costs them
/// little, and they are few.
const SAMPLED: u64 = 16;
const MANY_SPANS: usize = 16;

/// What has been measured so far, scaled up to all acquisitions.
#[derive(Debug, Default)]
pub struct Meter {
    /// What reading the clock twice costs, which is subtracted.
    clock: Duration,
    waits: AtomicU64,
    latching_ns: AtomicU64,
    held_ns: AtomicU64,
}

/// A reading of a [`Meter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Acquisitions that had to wait.
    pub waits: u64,
    /// Time spent in acquiring, polling and releasing.
    pub latching: Duration,
    /// For how long latches were held, added up over latches.
    pub held: Duration,
}

impl Meter {
    /// A meter at zero.
    pub fn new() -> Self {
        let twice = |_| {
            let start = Instant::now();
            start.elapsed()
        };
        let clock = (0..1000).map(twice).min().unwrap_or_default();
        Self {
            clock,
            ..Self::default()
        }
    }

    /// What it shows.
    pub fn read(&self) -> Reading {
        // Relaxed: each is a statistic of its own.
        Reading {
            waits: self.waits.load(Ordering::Relaxed),
            latching: Duration::from_nanos(self.latching_ns.load(Ordering::Relaxed)),
            held: Duration::from_nanos(self.held_ns.load(Ordering::Relaxed)),
        }
    }

    fn since(&self, start: Instant) -> u64 {
        start.elapsed().saturating_sub(self.clock).as_nanos() as u64
    }
}

impl Reading {
    /// What was added after an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            waits: self.waits - earlier.waits,
            latching: self.latching - earlier.latching,
            held: self.held - earlier.held,
        }
    }
}

/// Latches with a meter on them.
#[derive(Debug)]
pub struct Instrumented<L> {
    latches: L,
    meter: Arc<Meter>,
}

impl<L> Instrumented<L> {
    /// Puts a meter on latches. Several may share one.
    pub fn new(latches: L, meter: Arc<Meter>) -> Self {
        Self { latches, meter }
    }

    /// The meter and the scale of one acquisition, if it is to be measured. Random, so that no rhythm
    /// of the workload matters.
    fn sample(&self, spans: &SpanSet) -> Option<(Arc<Meter>, u64)> {
        let scale = if spans.len() < MANY_SPANS { SAMPLED } else { 1 };
        let chosen = fastrand::u64(..).is_multiple_of(scale);
        chosen.then(|| (Arc::clone(&self.meter), scale))
    }
}

impl<L: Latches> Latches for Instrumented<L> {
    type Guard = Guard<L::Guard>;

    fn acquire(
        &self,
        spans: &SpanSet,
        on_poison: OnPoison,
    ) -> impl Future<Output = Result<Self::Guard, Error>> + Send + 'static {
        let sampled = self.sample(spans);
        let start = sampled.is_some().then(Instant::now);
        let acquiring = self.latches.acquire(spans, on_poison);
        let mut spent = match (&sampled, start) {
            (Some((meter, _)), Some(start)) => meter.since(start),
            _ => 0,
        };
        let latches = spans.len() as u64;
        async move {
            let Some((meter, scale)) = sampled else {
                return Ok(Guard {
                    guard: Some(acquiring.await?),
                    measured: None,
                });
            };
            let mut acquiring = pin!(acquiring);
            let mut polls = 0;
            let guard = poll_fn(|context| {
                let start = Instant::now();
                let polled = acquiring.as_mut().poll(context);
                spent += meter.since(start);
                polls += 1;
                polled
            })
            .await?;
            if polls > 1 {
                meter.waits.fetch_add(scale, Ordering::Relaxed);
            }
            let measured = Measured {
                meter,
                scale,
                latches,
                spent,
                since: Instant::now(),
            };
            Ok(Guard {
                guard: Some(guard),
                measured: Some(measured),
            })
        }
    }

    fn is_idle(&self) -> bool {
        self.latches.is_idle()
    }

    fn tick(&self, now: Instant) {
        self.latches.tick(now);
    }

    fn shut_down(&self) {
        self.latches.shut_down();
    }
}

/// A guard with a meter on it.
#[derive(Debug)]
pub struct Guard<G> {
    /// `None` only while it is dropped.
    guard: Option<G>,
    measured: Option<Measured>,
}

#[derive(Debug)]
struct Measured {
    meter: Arc<Meter>,
    scale: u64,
    latches: u64,
    /// Nanoseconds spent latching so far.
    spent: u64,
    since: Instant,
}

impl<G> Drop for Guard<G> {
    fn drop(&mut self) {
        let Some(Measured {
            meter,
            scale,
            latches,
            spent,
            since,
        }) = self.measured.take()
        else {
            return;
        };
        let held = meter.since(since);
        let start = Instant::now();
        self.guard = None;
        let spent = spent + meter.since(start);
        meter
            .held_ns
            .fetch_add(scale * latches * held, Ordering::Relaxed);
        meter
            .latching_ns
            .fetch_add(scale * spent, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::micro::sets::{point, writes};
    use crate::predecessor::Predecessor;

    type Held = Guard<<Predecessor as Latches>::Guard>;

    fn poll(acquiring: Pin<&mut impl Future<Output = Result<Held, Error>>>) -> Option<Held> {
        match acquiring.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => Some(guard.expect("not shut down")),
            Poll::Pending => None,
        }
    }

    #[test]
    fn many_spans_are_always_measured_and_only_those_that_wait_count_as_waits() {
        let meter = Arc::new(Meter::new());
        let latches = Instrumented::new(Predecessor::new(), Arc::clone(&meter));
        let spans = writes(MANY_SPANS as u64);
        let mut first = pin!(latches.acquire(&spans, OnPoison::Wait));
        let first = poll(first.as_mut()).expect("nothing in the way");
        let mut second = pin!(latches.acquire(&spans, OnPoison::Wait));
        assert!(poll(second.as_mut()).is_none());
        drop(first);
        drop(poll(second.as_mut()).expect("its turn"));
        let reading = meter.read();
        assert_eq!(reading.waits, 1);
        assert!(reading.latching > Duration::ZERO);
        assert!(reading.held > Duration::ZERO);
        assert!(latches.is_idle());
    }

    #[test]
    fn one_in_sixteen_of_the_others_is_measured_and_counts_sixteen_times() {
        let meter = Arc::new(Meter::new());
        let latches = Instrumented::new(Predecessor::new(), Arc::clone(&meter));
        let mut spans = SpanSet::new();
        spans.write(point(1));
        const ACQUISITIONS: u64 = 20_000;
        for _ in 0..ACQUISITIONS {
            let mut first = pin!(latches.acquire(&spans, OnPoison::Wait));
            let first = poll(first.as_mut()).expect("nothing in the way");
            let mut second = pin!(latches.acquire(&spans, OnPoison::Wait));
            assert!(poll(second.as_mut()).is_none());
            drop(first);
            drop(poll(second.as_mut()).expect("its turn"));
        }
        // 1250 +- 34 samples: six standard deviations are 16 %.
        let waits = meter.read().waits as f64;
        assert!((waits / ACQUISITIONS as f64 - 1.0).abs() < 0.16, "{waits}");
    }

    #[test]
    fn a_reading_is_relative_to_an_earlier_one() {
        let earlier = Reading {
            waits: 1,
            latching: Duration::from_secs(2),
            held: Duration::from_secs(3),
        };
        let later = Reading {
            waits: 5,
            latching: Duration::from_secs(7),
            held: Duration::from_secs(9),
        };
        let between = later.since(earlier);
        assert_eq!(
            (
                between.waits,
                between.latching.as_secs(),
                between.held.as_secs()
            ),
            (4, 5, 6)
        );
    }
}
