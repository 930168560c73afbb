//! How often a thread parks.

use std::fs;

/// How often this thread gives up its core of its own accord during `work`; `None` where the system does
/// not say.
pub fn of(work: impl FnOnce()) -> Option<u64> {
    let before = so_far()?;
    work();
    Some(so_far()? - before)
}

/// On Linux, from `/proc`.
fn so_far() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_park_is_counted() {
        let parks = super::of(|| thread::park_timeout(Duration::from_millis(1)));
        assert!(parks.is_some_and(|parks| parks >= 1), "{parks:?}");
    }
}
