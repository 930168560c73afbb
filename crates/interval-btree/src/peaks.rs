//! The running maximum of the ends in a node.

/// For each item of a node, which item up to and including it reaches furthest.
///
/// `self.0[i]` is the index of the first item with the greatest end among items `0..=i`. The ends at
/// these indices never decrease, so that the first item that ends after a key is found by binary
/// search; and an update changes the maximum of its node only if it concerns the last of them.
///
/// The ends themselves stay where they are: the caller says how to compare two of them, as
/// `further(i, j)`: whether item `i` ends after item `j`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peaks<const B: usize>([u8; B]);

impl<const B: usize> Peaks<B> {
    /// The peaks of no items.
    pub(crate) const fn new() -> Self {
        const { assert!(B <= 256, "an index in a node fits a byte") };
        Peaks([0; B])
    }

    /// The index of the first item with the greatest end among items `0..=i`.
    pub(crate) fn up_to(&self, i: usize) -> usize {
        usize::from(self.0[i])
    }

    /// The first of `len` items for which `past` holds, which looks at its end only and holds for
    /// every end beyond one for which it holds.
    pub(crate) fn first(&self, len: usize, past: impl Fn(usize) -> bool) -> Option<usize> {
        let at = self.0[..len].partition_point(|&peak| !past(usize::from(peak)));
        (at < len).then_some(at)
    }

    /// Takes note that an item was inserted at `at`, and there are now `len`. Returns whether it
    /// is the one that reaches furthest.
    pub(crate) fn inserted(
        &mut self,
        at: usize,
        len: usize,
        further: impl Fn(usize, usize) -> bool,
    ) -> bool {
        self.0.copy_within(at..len - 1, at + 1);
        for peak in &mut self.0 {
            *peak = peak.wrapping_add(u8::from(*peak >= at as u8));
        }
        self.changed(at, len, further);
        self.up_to(len - 1) == at
    }

    /// Takes note that the item at `at` was removed, and `len` are left. Returns whether it was
    /// the one that reached furthest.
    pub(crate) fn removed(
        &mut self,
        at: usize,
        len: usize,
        further: impl Fn(usize, usize) -> bool,
    ) -> bool {
        let was_peak = self.up_to(at) == at;
        let was_top = self.up_to(len) == at;
        self.0.copy_within(at + 1..=len, at);
        for peak in &mut self.0 {
            *peak -= u8::from(*peak > at as u8);
        }
        if was_peak {
            self.changed(at, len, further);
        }
        was_top
    }

    /// Takes note that the end of the item at `at` changed.
    pub(crate) fn changed(
        &mut self,
        at: usize,
        len: usize,
        further: impl Fn(usize, usize) -> bool,
    ) {
        for i in at..len {
            let old = self.up_to(i);
            let new = self.highest(i, &further);
            self.0[i] = new as u8;
            // What follows depends on this peak, and on `at` only through it.
            if i > at && new == old && new != at {
                break;
            }
        }
    }

    /// Computes the peaks from item `from` on.
    pub(crate) fn recompute(
        &mut self,
        from: usize,
        len: usize,
        further: impl Fn(usize, usize) -> bool,
    ) {
        for i in from..len {
            self.0[i] = self.highest(i, &further) as u8;
        }
    }

    /// The peak at `i`, given the one before it.
    fn highest(&self, i: usize, further: impl Fn(usize, usize) -> bool) -> usize {
        match i.checked_sub(1).map(|before| self.up_to(before)) {
            Some(before) if !further(i, before) => before,
            _ => i,
        }
    }
}
