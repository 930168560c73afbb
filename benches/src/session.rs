//! A session: old and new in alternation, row by row.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use spanlatch::Manager;

use crate::cluster;
use crate::predecessor::Predecessor;
use crate::results::{Measured, Results};
use crate::run::{Cores, Place, Stop, Timing, run};
use crate::sample::Sample;
use crate::suite::Row;

/// What is measured, and how often.
#[derive(Debug)]
pub struct Session<'a> {
    /// The rows, in order.
    pub rows: &'a [Row],
    /// Where versions are kept.
    pub place: Place<'a>,
    /// Where they run.
    pub cores: &'a Cores,
    /// Runs of each side.
    pub runs: usize,
    /// How long each is.
    pub timing: Timing,
    /// Ends it early.
    pub stop: &'a Stop,
}

/// One of the two that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The predecessor.
    Old,
    /// The latch manager.
    New,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Old => "the predecessor",
            Self::New => "the latch manager",
        })
    }
}

/// How far a session is.
#[derive(Debug)]
pub struct Progress<'a> {
    /// The row that runs.
    pub row: &'a str,
    /// How much of the total is done.
    pub done: Duration,
}

impl Session<'_> {
    /// How long it takes, but for what is between the runs: checks, and the start of nodes.
    pub fn total(&self) -> Duration {
        let runs = self.runs.saturating_mul(2).saturating_mul(self.rows.len());
        let runs = u32::try_from(runs).unwrap_or(u32::MAX);
        self.timing.total().saturating_mul(runs)
    }

    /// Measures, and adds to `results` as it goes: whatever ends it, what was measured is there.
    /// Which side goes first changes with each run, so that neither always finds the warmer machine.
    ///
    /// # Errors
    ///
    /// If a run fails, with the row's name.
    pub fn measure(
        &self,
        results: &mut Results,
        mut progress: impl FnMut(Progress<'_>),
    ) -> Result<()> {
        let mut done = Duration::ZERO;
        for row in self.rows {
            let mut measured = Measured::new(row);
            measured.note = (row.nodes > 1).then(|| cluster::note(row.nodes, self.cores));
            let order = (0..self.runs).flat_map(|run| match run % 2 {
                0 => [Side::Old, Side::New],
                _ => [Side::New, Side::Old],
            });
            let mut ended = Ok(());
            for side in order {
                let tick = |elapsed: Duration| {
                    let done = done + elapsed.min(self.timing.total());
                    progress(Progress {
                        row: &row.name,
                        done,
                    });
                };
                match self.run(side, row, tick) {
                    Ok(Some(sample)) => match side {
                        Side::Old => measured.old.push(sample),
                        Side::New => measured.new.push(sample),
                    },
                    Ok(None) => break,
                    Err(error) => {
                        ended = Err(error.context(format!("{} ({side})", row.name)));
                        break;
                    }
                }
                done += self.timing.total();
            }
            if !measured.old.is_empty() {
                results.rows.push(measured);
            }
            if let Err(error) = ended {
                results.ended_early = Some(format!("{error:#}"));
                return Err(error);
            }
            if self.stop.asked() {
                results.ended_early = Some("interrupted".to_owned());
                return Ok(());
            }
        }
        Ok(())
    }

    fn run(&self, side: Side, row: &Row, tick: impl FnMut(Duration)) -> Result<Option<Sample>> {
        let Row {
            workload, nodes, ..
        } = row;
        let Self {
            place,
            cores,
            timing,
            stop,
            ..
        } = self;
        match (nodes, side) {
            (1, Side::Old) => run(
                workload,
                Predecessor::new,
                place,
                cores,
                *timing,
                stop,
                tick,
            ),
            (1, Side::New) => run(workload, Manager::new, place, cores, *timing, stop, tick),
            _ => {
                let setup = cluster::Setup {
                    nodes: *nodes,
                    side,
                    workload,
                    place,
                };
                cluster::run(&setup, cores, *timing, stop, tick)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::client::ClientKind;
    use crate::storage::{EngineKind, Storage};
    use crate::suite::{Choice, rows};
    use crate::workload::{Flags, Workload};

    const SHORT: Timing = Timing {
        warm_up: Duration::from_millis(1),
        duration: Duration::from_millis(20),
    };

    fn own_row() -> Result<Vec<Row>> {
        rows(
            &Choice::Own(Box::new(Workload::new(Flags::default())?)),
            1,
            None,
        )
    }

    /// Measures three runs a side, asking to stop once so much is done.
    fn measure(rows: &[Row], stop_after: Duration) -> Result<Results> {
        let (cores, stop) = (Cores::first(1)?, Stop::default());
        let session = Session {
            rows,
            place: Place {
                storage: &Storage::Mem,
                client: ClientKind::Store,
            },
            cores: &cores,
            runs: 3,
            timing: SHORT,
            stop: &stop,
        };
        let mut results = Results::begin(&Choice::All, EngineKind::Mem, 1, 3, SHORT);
        let last = Cell::new(Duration::ZERO);
        session.measure(&mut results, |progress| {
            assert!(progress.done >= last.get() && progress.done <= session.total());
            last.set(progress.done);
            if progress.done >= stop_after {
                stop.ask();
            }
        })?;
        Ok(results)
    }

    #[test]
    fn each_side_runs_as_often_as_asked() -> Result<()> {
        let results = measure(&own_row()?, Duration::MAX)?;
        assert_eq!(
            (results.rows[0].old.len(), results.rows[0].new.len()),
            (3, 3)
        );
        assert_eq!(results.ended_early, None);
        Ok(())
    }

    #[test]
    fn a_session_that_is_stopped_keeps_the_samples_taken_so_far() -> Result<()> {
        // Three of six runs: old, new, new.
        let results = measure(&own_row()?, SHORT.total() * 3 + SHORT.total() / 2)?;
        assert_eq!(
            (results.rows[0].old.len(), results.rows[0].new.len()),
            (1, 2)
        );
        assert_eq!(results.ended_early.as_deref(), Some("interrupted"));
        Ok(())
    }
}
