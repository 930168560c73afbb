//! What things cost, in allocations.

use allocation_counter::measure;
use spanset::{Access, Declared, End, Key, Reader, Scope, Span, SpanSet};

use crate::engine::Engine;
use crate::universe::time;

fn allocations(work: impl FnOnce()) -> u64 {
    measure(work).count_total
}

#[test]
fn a_set_of_two_declarations_allocates_nothing() {
    let (start, end) = (Key::from_static(b"a"), Key::from_static(b"c"));
    let made = allocations(|| {
        let mut set = SpanSet::new();
        set.read_local(Span::point(start.clone()));
        set.write_at(
            Span::range(start.clone(), end.clone()).expect("ascending"),
            time(5),
        );
        set.sort_and_dedup();
        set.forward_writes(time(6));
        assert!(!set.intersects(&set.iter_of(Scope::Local, Access::Read).cloned().collect()));
    });
    assert_eq!(made, 0);
}

#[test]
fn a_set_of_known_size_allocates_once() {
    let made = allocations(|| {
        let mut set = SpanSet::with_capacity(100);
        for _ in 0..100 {
            set.read(Span::point("a"));
        }
    });
    assert_eq!(made, 1);
}

#[test]
fn a_check_that_allows_allocates_nothing() {
    let (a, d) = (Key::from_static(b"a"), Key::from_static(b"d"));
    let mut set = SpanSet::new();
    set.read(Span::range("c", "d").expect("ascending"));
    set.read(Span::range("a", "b").expect("ascending"));
    set.read_at(Span::range("b", "c").expect("ascending"), time(5));
    let whole = Span::range("a", "d").expect("ascending");
    let made = allocations(|| {
        let allowed = set.check_allowed_at(Access::Read, &whole, time(5));
        assert!(allowed.is_ok());
        let allowed = set.check_allowed_below(Access::Read, Scope::Global, End::Before(&d));
        assert!(allowed.is_ok());
    });
    assert_eq!(made, 0);

    let engine = Engine::default();
    let bare = allocations(|| assert_eq!(engine.get(&a, None), Ok(None)));
    engine.calls.take();
    let declared = Declared::global(&engine, &set);
    let wrapped = allocations(|| assert!(matches!(declared.get(&a, None), Ok(None))));
    assert_eq!(wrapped, bare);
}
