//! A first test.
use crate::{Interval, IntervalMap};

#[test]
fn it_agrees_with_a_sorted_vector() -> Result<(), crate::EmptyInterval<u32>> {
    let mut map = IntervalMap::<u32, u32, 3>::default();
    let mut model = std::collections::BTreeSet::new();
    let mut x = 1_u64;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 11) as u32
    };
    for _ in 0..20000 {
        let s = random() % 60;
        let i = match random() % 4 {
            0 => Interval::point(s),
            1 => Interval::starting_at(s),
            _ => Interval::range(s, s + 1 + random() % 5)?,
        };
        let v = random() % 4;
        if random() % 2 == 0 {
            assert_eq!(map.insert(i, v).is_none(), model.insert((i, v)));
        } else {
            assert_eq!(map.remove(&i, &v).is_some(), model.remove(&(i, v)));
        }
        map.verify();
        let q = Interval::range(s, s + 3)?;
        assert!(
            map.overlapping(&q).eq(model
                .iter()
                .filter(|e| e.0.overlaps(&q))
                .map(|e| (&e.0, &e.1)))
        );
        assert_eq!(map.first_overlap(&q), map.overlapping(&q).next());
    }
    Ok(())
}
