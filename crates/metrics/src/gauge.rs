//! A gauge that is the sum of its owners' shares, and the share of one owner.

use std::sync::atomic::{AtomicI64, Ordering};

use prometheus_client::metrics::gauge::Gauge as Number;

/// A number that rises and falls: the sum of its [shares](GaugeShare).
///
/// Only a share can change it, so that whoever goes away takes along what it put in. Clones are
/// the same gauge.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Number);

impl Gauge {
    /// A new share, of nothing yet, for one more owner.
    pub fn share(&self) -> GaugeShare {
        GaugeShare {
            total: self.clone(),
            held: AtomicI64::new(0),
        }
    }

    /// The sum of all shares.
    pub fn value(&self) -> i64 {
        self.0.get()
    }
}

/// What one owner contributes to a [`Gauge`]; dropping it takes the contribution away.
///
/// All operations are O(1), without a lock: one atomic addition to the share and one to the sum.
/// Relaxed ordering is enough, since each is exact by itself and nothing else is read by their
/// order; the two may be seen apart for an instant.
///
/// # Invariants
///
/// - *sum*: when no operation is under way, the gauge is the sum of what its living shares hold.
#[derive(Debug, Default)]
pub struct GaugeShare {
    total: Gauge,
    held: AtomicI64,
}

impl GaugeShare {
    /// Raises the gauge by one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Lowers the gauge by one.
    pub fn dec(&self) {
        self.add(-1);
    }

    /// Raises the gauge by `n`, or lowers it if `n` is negative.
    pub fn add(&self, n: i64) {
        self.held.fetch_add(n, Ordering::Relaxed);
        self.total.0.inc_by(n);
    }

    /// Makes this share `n`, whatever it was.
    pub fn set(&self, n: i64) {
        let before = self.held.swap(n, Ordering::Relaxed);
        self.total.0.inc_by(n.wrapping_sub(before));
    }

    /// What this share contributes.
    pub fn value(&self) -> i64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The gauge that this is a share of.
    pub fn gauge(&self) -> &Gauge {
        &self.total
    }
}

/// Takes the share away from the gauge; no lock.
impl Drop for GaugeShare {
    fn drop(&mut self) {
        self.total.0.dec_by(*self.held.get_mut());
    }
}
