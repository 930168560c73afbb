//! Annotations of a genome: what lies at a position, and what follows a gene.
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::error::Error;

use interval_btree::{End, Interval, IntervalMap};

/// A position on a chromosome. Files of this kind count from 1 and name the last base, too.
type Position = (&'static str, u64);

type Annotations = IntervalMap<Position, &'static str>;

fn feature(
    chromosome: &'static str,
    first: u64,
    last: u64,
) -> Result<Interval<Position>, Box<dyn Error>> {
    Ok(Interval::new(
        (chromosome, first),
        End::At((chromosome, last)),
    )?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let annotations: Annotations = [
        (feature("chr1", 11_874, 14_409)?, "gene DDX11L1"),
        (feature("chr1", 11_874, 12_227)?, "exon DDX11L1/1"),
        (feature("chr1", 12_613, 12_721)?, "exon DDX11L1/2"),
        (feature("chr1", 13_221, 14_409)?, "exon DDX11L1/3"),
        (feature("chr1", 14_362, 29_370)?, "gene WASH7P"),
        (feature("chr2", 38_814, 46_588)?, "gene FAM110C"),
        (Interval::point(("chr1", 13_273)), "variant rs531730856"),
    ]
    .into_iter()
    .collect();

    for position in [13_273, 14_400, 40_000] {
        let here = Interval::point(("chr1", position));
        let found: Vec<_> = annotations
            .overlapping(&here)
            .map(|(_, name)| *name)
            .collect();
        println!("chr1:{position}: {found:?}");
    }
    let variant = Interval::point(("chr1", 13_273));
    assert_eq!(
        annotations
            .overlapping(&variant)
            .map(|(_, name)| *name)
            .collect::<Vec<_>>(),
        ["gene DDX11L1", "exon DDX11L1/3", "variant rs531730856"],
    );

    // Chromosomes do not overlap: positions are ordered by chromosome first.
    let after = annotations.starting_in(("chr1", 14_410)..).next();
    println!("the next to start after DDX11L1: {after:?}");
    assert_eq!(after.map(|(_, name)| *name), Some("gene FAM110C"));
    Ok(())
}
