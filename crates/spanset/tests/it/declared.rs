//! The wrappers: they forward what was declared, to its own counterpart, and nothing else.

use std::convert::Infallible;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use spanset::{
    Cursor, Declared, DeclaredCursor, DeclaredError, End, Key, Reader, Scope, Span, SpanSet,
    Timestamp, Writer,
};

use crate::engine::Engine;
use crate::universe::{Naive, a_set, allowed, cuts, end_at, time};

type Failure = DeclaredError<Infallible>;

fn range(start: &'static str, end: &'static str) -> Span {
    Span::range(start, end).expect("ascending in every test")
}

/// What an undeclared access says: by its panic in debug builds, by its error in release builds.
fn denial<T>(access: impl FnOnce() -> Result<T, Failure>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(access)) {
        Ok(Ok(_)) => None,
        Ok(Err(DeclaredError::Engine(never))) => match never {},
        Ok(Err(DeclaredError::Undeclared(denied))) if !cfg!(debug_assertions) => {
            Some(denied.to_string())
        }
        Ok(Err(DeclaredError::Undeclared(denied))) => panic!("{denied} should have panicked"),
        Err(panic) => Some(*panic.downcast::<String>().expect("a formatted message")),
    }
}

/// An engine with `keys`, each with the value 1 as of no timestamp.
fn engine(keys: impl IntoIterator<Item = impl Into<Key>>) -> Engine {
    let mut engine = Engine::default();
    for key in keys {
        let Ok(()) = engine.put(key.into(), 1, None);
    }
    engine.calls.take();
    engine
}

/// The keys from where the cursor is, upwards.
fn keys_up(cursor: &mut dyn Cursor<Value = u32, Error = Failure>) -> Result<Vec<Key>, Failure> {
    let mut keys = vec![];
    while let Some((key, _)) = cursor.item() {
        keys.push(key.clone());
        cursor.next()?;
    }
    Ok(keys)
}

/// The keys from where the cursor is, downwards.
fn keys_down(cursor: &mut dyn Cursor<Value = u32, Error = Failure>) -> Result<Vec<Key>, Failure> {
    let mut keys = vec![];
    while let Some((key, _)) = cursor.item() {
        keys.push(key.clone());
        cursor.prev()?;
    }
    Ok(keys)
}

#[test]
fn each_method_is_forwarded_to_its_own_counterpart() -> Result<(), Failure> {
    let mut spans = SpanSet::new();
    spans.write(Span::all());
    let mut engine = engine(["a", "b"]);
    let (a, c) = (Key::from("a"), Key::from("c"));
    let at = Some(time(7));

    let mut batch = Declared::global(&mut engine, &spans);
    batch.put(c.clone(), 9, at)?;
    batch.delete(a.clone(), at)?;
    assert_eq!(batch.get(&c, at)?, Some(9));
    assert_eq!(batch.get(&a, None)?, Some(1));
    let mut cursor = batch.cursor(at);
    cursor.seek(&a)?;
    assert_eq!(cursor.item(), Some((&Key::from("b"), &1)));
    cursor.next()?;
    assert_eq!(cursor.item(), Some((&c, &9)));
    cursor.prev()?;
    cursor.seek_back(End::At(&c))?;
    drop(cursor);
    let calls = batch.into_inner().calls.take();
    let expected = [
        format!("put {c:?} 9 {at:?}"),
        format!("delete {a:?} {at:?}"),
        format!("get {c:?} {at:?}"),
        format!("get {a:?} None"),
        format!("cursor {at:?}"),
        format!("seek {a:?}"),
        "next".to_owned(),
        "prev".to_owned(),
        format!("seek_back {:?}", End::At(&c)),
    ];
    assert_eq!(calls, expected);
    Ok(())
}

#[test]
fn an_undeclared_access_never_reaches_the_engine() {
    let mut spans = SpanSet::new();
    spans.read(range("a", "c"));
    let mut engine = engine(["a", "b", "c"]);
    let key = Key::from("c");

    let mut declared = Declared::global(&mut engine, &spans);
    let denials = [
        denial(|| declared.get(&key, None)),
        denial(|| declared.put(Key::from("a"), 2, None)),
        denial(|| declared.delete(Key::from("b"), Some(time(1)))),
        denial(|| declared.cursor(None).seek(&key)),
        denial(|| declared.cursor(None).seek_back(End::Unbounded)),
    ];
    let near = r#"; the nearest declaration is read ["a", "c")"#;
    let expected = [
        r#"undeclared read of ["c"]"#,
        r#"undeclared write of ["a"]"#,
        r#"undeclared write of ["b"] at 0.000000001,0"#,
        r#"undeclared read of ["c"]"#,
        "undeclared read of the last position",
    ]
    .map(|what| Some(format!("{what}{near}")));
    assert_eq!(denials, expected);
    assert_eq!(engine.calls.take(), ["cursor None", "cursor None"]);
}

#[test]
fn a_wrapper_sees_the_declarations_of_its_own_scope() {
    let mut spans = SpanSet::new();
    spans.read(Span::point("g"));
    spans.write_local(Span::point("l"));
    let (mut engine, g, l) = (engine(["g", "l"]), Key::from("g"), Key::from("l"));

    assert_eq!(
        denial(|| Declared::global(&engine, &spans).get(&g, None)),
        None
    );
    assert!(denial(|| Declared::global(&engine, &spans).get(&l, None)).is_some());
    assert_eq!(
        denial(|| Declared::local(&engine, &spans).get(&l, None)),
        None
    );
    assert!(denial(|| Declared::local(&engine, &spans).get(&g, None)).is_some());
    let seeks = |key: &Key| {
        let (global, local) = (
            Declared::global(&engine, &spans),
            Declared::local(&engine, &spans),
        );
        [
            denial(|| global.cursor(None).seek(key)).is_none(),
            denial(|| local.cursor(None).seek(key)).is_none(),
        ]
    };
    assert_eq!(seeks(&g), [true, false]);
    assert_eq!(seeks(&l), [false, true]);
    assert_eq!(
        denial(|| Declared::local(&mut engine, &spans).put(l, 2, None)),
        None
    );
}

#[test]
fn reads_and_writes_are_checked_at_their_timestamp() {
    let mut spans = SpanSet::new();
    spans.write_at(Span::point("a"), time(5));
    spans.read_at(Span::point("b"), time(5));
    let (mut engine, a, b) = (engine(["a", "b"]), Key::from("a"), Key::from("b"));
    for at in [4, 5, 6] {
        let mut declared = Declared::global(&mut engine, &spans);
        let at = Some(time(at));
        let read = denial(|| declared.get(&b, at)).is_none();
        let sought = denial(|| declared.cursor(at).seek(&b)).is_none();
        let put = denial(|| declared.put(a.clone(), 2, at)).is_none();
        let deleted = denial(|| declared.delete(a.clone(), at)).is_none();
        assert_eq!(
            (read, sought, put, deleted),
            (
                at <= Some(time(5)),
                at <= Some(time(5)),
                at >= Some(time(5)),
                at >= Some(time(5))
            ),
        );
    }
    let declared = Declared::global(&mut engine, &spans);
    assert!(denial(|| declared.get(&a, None)).is_some());
}

#[test]
fn a_cursor_that_reaches_the_declared_end_is_on_no_entry() -> Result<(), Failure> {
    let mut spans = SpanSet::new();
    spans.read(range("b", "d"));
    let engine = engine(["a", "b", "c", "d", "e"]);
    let declared = Declared::global(&engine, &spans);

    let mut cursor = declared.cursor(None);
    assert_eq!(cursor.item(), None);
    cursor.seek(&Key::from("b"))?;
    assert_eq!(keys_up(&mut *cursor)?, ["b", "c"]);
    // It stays there, and a seek leads back.
    cursor.prev()?;
    cursor.next()?;
    assert_eq!(cursor.item(), None);
    cursor.seek(&Key::from("c"))?;
    assert_eq!(keys_down(&mut *cursor)?, ["c", "b"]);
    cursor.seek(&Key::from("cc"))?;
    assert_eq!(cursor.item(), None);
    Ok(())
}

#[test]
fn a_reverse_seek_may_start_at_an_exclusive_end() -> Result<(), Failure> {
    let mut spans = SpanSet::new();
    spans.read(range("b", "d"));
    let engine = engine(["a", "b", "c", "d"]);
    let declared = Declared::global(&engine, &spans);
    let mut cursor = declared.cursor(None);
    cursor.seek_back(End::Before(&Key::from("d")))?;
    assert_eq!(keys_down(&mut *cursor)?, ["c", "b"]);
    Ok(())
}

#[test]
fn a_cursor_walks_through_adjacent_declarations_and_stops_at_a_gap() -> Result<(), Failure> {
    let mut spans = SpanSet::new();
    spans.write(Span::point("c"));
    spans.read(range("a", "c"));
    spans.read(Span::starting_at("d"));
    spans.write_local(range("c", "d"));
    // Nothing lies in the gap, and yet that is not for this cursor to tell.
    let engine = engine(["a", "b", "c", "d"]);
    let declared = Declared::global(&engine, &spans);
    let mut cursor = declared.cursor(None);
    cursor.seek(&Key::from("a"))?;
    assert_eq!(keys_up(&mut *cursor)?, ["a", "b", "c"]);
    cursor.seek_back(End::Unbounded)?;
    assert_eq!(keys_down(&mut *cursor)?, ["d"]);
    Ok(())
}

#[test]
fn a_refused_seek_leaves_the_cursor_on_no_entry() -> Result<(), Failure> {
    let mut spans = SpanSet::new();
    spans.read(Span::point("a"));
    let engine = engine(["a", "b"]);
    let declared = Declared::global(&engine, &spans);
    let mut cursor = declared.cursor(None);
    cursor.seek(&Key::from("a"))?;
    assert!(denial(|| cursor.seek(&Key::from("b"))).is_some());
    assert_eq!(cursor.item(), None);
    Ok(())
}

/// An engine that always fails.
struct Broken;

impl Reader for Broken {
    type Value = u32;
    type Error = std::io::Error;

    fn get(&self, _: &Key, _: Option<Timestamp>) -> Result<Option<u32>, Self::Error> {
        Err(std::io::Error::other("disk on fire"))
    }

    fn cursor(
        &self,
        _: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = u32, Error = Self::Error> + '_> {
        Box::new(BrokenCursor(Key::from("a"), 1))
    }
}

/// On an entry, until it is moved.
struct BrokenCursor(Key, u32);

impl Cursor for BrokenCursor {
    type Value = u32;
    type Error = std::io::Error;

    fn seek(&mut self, _: &Key) -> Result<(), Self::Error> {
        Err(std::io::Error::other("seek"))
    }

    fn seek_back(&mut self, _: End<'_>) -> Result<(), Self::Error> {
        Err(std::io::Error::other("seek_back"))
    }

    fn next(&mut self) -> Result<(), Self::Error> {
        Err(std::io::Error::other("next"))
    }

    fn prev(&mut self) -> Result<(), Self::Error> {
        Err(std::io::Error::other("prev"))
    }

    fn item(&self) -> Option<(&Key, &u32)> {
        Some((&self.0, &self.1))
    }
}

#[test]
fn an_error_of_the_engine_comes_through_as_it_is() {
    let mut spans = SpanSet::new();
    spans.read(Span::point("a"));
    let key = Key::from("a");
    let declared = Declared::global(Broken, &spans);
    let error = declared.get(&key, None).expect_err("broken");
    assert!(matches!(error, DeclaredError::Engine(_)));
    assert_eq!(error.to_string(), "disk on fire");
    assert!(error.source().is_none());

    let mut cursor = declared.cursor(None);
    let moves = [
        cursor.seek(&key),
        cursor.seek_back(End::At(&key)),
        cursor.next(),
        cursor.prev(),
    ];
    let texts = moves.map(|moved| moved.expect_err("broken").to_string());
    assert_eq!(texts, ["seek", "seek_back", "next", "prev"]);
}

/// What a store would hand out.
trait Snapshot: Reader<Value = u32, Error = Infallible> + Send {}

impl Snapshot for Engine {}

#[test]
fn a_boxed_snapshot_behind_a_trait_of_its_own_can_be_wrapped() -> Result<(), Failure> {
    let mut spans = SpanSet::new();
    spans.read(Span::all());
    let snapshot: Box<dyn Snapshot> = Box::new(engine(["a"]));
    let evaluate = |reader: &dyn Reader<Value = u32, Error = Failure>| {
        let mut cursor = reader.cursor(None);
        cursor.seek(&Key::new())?;
        keys_up(&mut *cursor)
    };
    assert_eq!(evaluate(&Declared::global(&snapshot, &spans))?, ["a"]);
    assert_eq!(evaluate(&Declared::global(&*snapshot, &spans))?, ["a"]);
    assert_eq!(evaluate(&Declared::global(snapshot, &spans))?, ["a"]);
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Seek(usize),
    SeekBack(usize, bool),
    Next,
    Prev,
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        (0..22_usize).prop_map(Move::Seek),
        (0..=22_usize, any::<bool>()).prop_map(|(cut, as_key)| Move::SeekBack(cut, as_key)),
        Just(Move::Next),
        Just(Move::Next),
        Just(Move::Prev),
        Just(Move::Prev),
    ]
}

/// The cursor by the words of its documentation: on entry `on` of `entries`, which are atoms,
/// within the stretch of declared atoms around the last seek.
struct NaiveCursor {
    entries: Vec<usize>,
    declared: u32,
    on: Option<usize>,
}

impl NaiveCursor {
    fn same_stretch(&self, a: usize, b: usize) -> bool {
        (a.min(b)..=a.max(b)).all(|atom| self.declared & 1 << atom != 0)
    }

    /// Whether the move was declared.
    fn go(&mut self, to: Move) -> bool {
        let (from, found) = match to {
            Move::Seek(atom) => (
                Some(atom),
                self.entries.iter().copied().find(|&entry| entry >= atom),
            ),
            Move::SeekBack(cut, _) => (
                cut.checked_sub(1),
                self.entries.iter().copied().rfind(|&entry| entry < cut),
            ),
            Move::Next => (
                self.on,
                self.entries
                    .iter()
                    .copied()
                    .find(|&entry| Some(entry) > self.on),
            ),
            Move::Prev => (
                self.on,
                self.entries
                    .iter()
                    .copied()
                    .rfind(|&entry| Some(entry) < self.on),
            ),
        };
        self.on = match (from, found) {
            (Some(from), Some(found)) if self.same_stretch(from, found) => Some(found),
            _ => None,
        };
        match to {
            Move::Seek(_) | Move::SeekBack(..) => {
                from.is_some_and(|atom| self.declared & 1 << atom != 0)
            }
            Move::Next | Move::Prev => true,
        }
    }
}

fn walk(
    cursor: &mut impl Cursor<Value = u32, Error = Failure>,
    mut model: NaiveCursor,
    moves: &[Move],
) -> Result<(), TestCaseError> {
    let cuts = cuts();
    for &to in moves {
        let refused = denial(|| match to {
            Move::Seek(atom) => cursor.seek(&cuts[atom]),
            Move::SeekBack(cut, as_key) => cursor.seek_back(end_at(&cuts, cut, as_key)),
            Move::Next => cursor.next(),
            Move::Prev => cursor.prev(),
        });
        prop_assert_eq!(refused.is_none(), model.go(to), "{:?}: {:?}", to, refused);
        let on = cursor.item().map(|(key, _)| key);
        prop_assert_eq!(on, model.on.map(|atom| &cuts[atom]), "{:?}", to);
    }
    Ok(())
}

fn declared_for_reading(set: &[Naive], scope: Scope, at: Option<Timestamp>) -> u32 {
    allowed(set, spanset::Access::Read, scope, at)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_cursor_shows_the_declared_stretch_around_its_seek_and_no_more(
        (spans, naive) in a_set(),
        entries in prop::collection::btree_set(0..22_usize, 0..22),
        moves in prop::collection::vec(a_move(), 1..20),
        at in prop::option::of((1..=3_u64).prop_map(time)),
        local: bool,
    ) {
        let scope = if local { Scope::Local } else { Scope::Global };
        let cuts = cuts();
        let engine = engine(entries.iter().map(|&atom| cuts[atom].clone()));
        let model = NaiveCursor {
            entries: entries.into_iter().collect(),
            declared: declared_for_reading(&naive, scope, at),
            on: None,
        };
        let mut cursor = DeclaredCursor::new(engine.cursor(at), &spans, scope, at);
        walk(&mut cursor, model, &moves)?;
    }
}
