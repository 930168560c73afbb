//! A calendar of rooms: what clashes, and plans that are tried on a snapshot.
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::error::Error;

use interval_btree::{Interval, IntervalMap};

/// Minutes since midnight.
type Time = u32;

/// Who has which room. The order of values is that of the fields, so that two people can have
/// rooms at the same time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Booking {
    room: &'static str,
    who: &'static str,
}

type Calendar = IntervalMap<Time, Booking>;

/// Books a room, or says who has it.
fn book(
    calendar: &mut Calendar,
    when: Interval<Time>,
    booking: Booking,
) -> Result<(), (Interval<Time>, Booking)> {
    let clash = calendar
        .overlapping(&when)
        .find(|(_, other)| other.room == booking.room);
    if let Some((when, other)) = clash {
        return Err((*when, other.clone()));
    }
    calendar.insert(when, booking);
    Ok(())
}

/// Books all or nothing: on a snapshot, which becomes the calendar if all goes well.
fn book_all(
    calendar: &mut Calendar,
    plan: &[(Interval<Time>, Booking)],
) -> Result<(), (Interval<Time>, Booking)> {
    let mut trial = calendar.clone();
    for (when, booking) in plan {
        book(&mut trial, *when, booking.clone())?;
    }
    *calendar = trial;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let hours = |from: Time, to: Time| Interval::range(60 * from, 60 * to);
    let booking = |room, who| Booking { room, who };
    let mut calendar = Calendar::new();
    for (when, room, who) in [
        (hours(9, 11)?, "blue", "Ada"),
        (hours(9, 10)?, "red", "Grace"),
        (hours(13, 15)?, "blue", "Edsger"),
        (Interval::starting_at(60 * 18), "red", "the cleaners"),
    ] {
        book(&mut calendar, when, booking(room, who)).map_err(|_| "the rooms are free")?;
    }

    // The second part of this plan clashes, so that the first is not booked either.
    let plan = [
        (hours(11, 12)?, booking("red", "Barbara")),
        (hours(14, 16)?, booking("blue", "Barbara")),
    ];
    match book_all(&mut calendar, &plan) {
        Ok(()) => println!("Barbara has both rooms"),
        Err((when, other)) => {
            println!(
                "{} has the {} room from minute {}",
                other.who,
                other.room,
                when.start()
            );
        }
    }
    assert_eq!(calendar.len(), 4);

    let yesterday = calendar.clone();
    calendar.retain(|_, booking| booking.who != "Edsger");
    book_all(&mut calendar, &plan).map_err(|_| "Edsger has left")?;

    let ten = Interval::point(60 * 10);
    let at_ten: Vec<_> = calendar
        .overlapping(&ten)
        .map(|(_, booking)| booking.who)
        .collect();
    println!("at ten o'clock: {at_ten:?}");
    assert_eq!(at_ten, ["Ada"], "Grace has left at ten sharp");
    println!("now:       {calendar:?}");
    println!("yesterday: {yesterday:?}");
    assert_eq!((yesterday.len(), calendar.len()), (4, 5));
    Ok(())
}
