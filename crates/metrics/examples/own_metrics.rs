//! Metrics of one's own: two kitchens, their orders and their ovens, exposed and checked.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use spanlatch_metrics::health::Health;
use spanlatch_metrics::{Counter, Def, Gauge, Histogram, Kind, RegisterError, Registry, Unit};

const ORDERS: Def = Def {
    name: "kitchen.orders",
    help: "Orders taken",
    unit: Unit::Count,
    kind: Kind::Counter,
};

const OVENS: Def = Def {
    name: "kitchen.ovens.hot",
    help: "Ovens that are on",
    unit: Unit::Count,
    kind: Kind::Gauge,
};

const BAKING: Def = Def {
    name: "kitchen.baking",
    help: "How long things were in the oven",
    unit: Unit::Seconds,
    kind: Kind::Histogram,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = Registry::new();
    let (north, ovens) = kitchen(&mut registry, "north")?;
    let (_south, _) = kitchen(&mut registry, "south")?;

    let mut health = Health::new();
    health.track(ORDERS, 10)?;
    health.track(OVENS, 1)?;
    assert_eq!(health.check(&registry), []);

    // Two bakers of the northern kitchen turn on ovens; one goes home and takes hers along.
    let (ada, grace) = (ovens.share(), ovens.share());
    ada.inc();
    grace.add(2);
    north.add(11);
    for alert in health.check(&registry) {
        println!("{alert}");
    }
    drop(grace);
    println!("{} oven is on", ovens.value());

    print!("{registry}");
    Ok(())
}

fn kitchen(registry: &mut Registry, name: &str) -> Result<(Counter, Gauge), RegisterError> {
    let (orders, ovens, baking) = (Counter::default(), Gauge::default(), Histogram::default());
    registry.register(ORDERS, name, orders.clone())?;
    registry.register(OVENS, name, ovens.clone())?;
    registry.register(BAKING, name, baking.clone())?;
    baking.observe(Duration::from_secs(42));
    Ok((orders, ovens))
}
