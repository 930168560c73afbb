//! The binary behind `cargo xtask bench`.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use alloc_counter::AllocCounterSystem;
use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use spanlatch_benches::cli::{Cli, Compare, Format, Job, Micro, Options, in_one_line};
use spanlatch_benches::compare::{Saved, tables};
use spanlatch_benches::list::{chosen, list, nothing_matches};
use spanlatch_benches::micro::benchmark::Scale;
use spanlatch_benches::micro::measure::{Effort, Floor};
use spanlatch_benches::micro::rivals::comparisons;
use spanlatch_benches::micro::rows::rows;
use spanlatch_benches::micro::summary::summary;
use spanlatch_benches::report::html;
use spanlatch_benches::results::Results;
use spanlatch_benches::run::{Cores, Place, Stop, Timing};
use spanlatch_benches::session::{Progress, Session};
use spanlatch_benches::storage::Storage;
use spanlatch_benches::suite::{Choice, Row};
use spanlatch_benches::table;

/// Counts allocations for the microbenchmarks, thread by thread: a nanosecond each.
#[global_allocator]
static ALLOCATOR: AllocCounterSystem = AllocCounterSystem;

/// Runs of each side, unless said otherwise: the fewest with which p can be below 0.01.
const RUNS: usize = 5;
const USUAL: Timing = Timing {
    warm_up: Duration::from_millis(200),
    duration: Duration::from_secs(2),
};
const QUICK: Timing = Timing {
    warm_up: Duration::from_millis(50),
    duration: Duration::from_millis(300),
};

/// How it ends.
enum End {
    Well,
    /// Ctrl-C, as shells report it.
    Interrupted,
}

/// What went wrong, and whose fault it was.
enum Failure {
    /// The command line asks for something impossible.
    Usage(anyhow::Error),
    /// Something broke.
    Broken(anyhow::Error),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and the version are no mistakes.
        Err(asked) if !asked.use_stderr() => {
            let _ = asked.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}", in_one_line(&error));
            return ExitCode::from(2);
        }
    };
    match dispatch(cli) {
        Ok(End::Well) => ExitCode::SUCCESS,
        Ok(End::Interrupted) => ExitCode::from(130),
        Err(Failure::Usage(error)) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
        Err(Failure::Broken(error)) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(cli: Cli) -> Result<End, Failure> {
    match cli.job().map_err(|error| Failure::Usage(error.into()))? {
        Job::Run(choice, options) => run(choice, &options),
        Job::Micro(options) => micro(&options),
        Job::Compare(files) => compare(&files).map_err(Failure::Usage),
    }
}

fn run(choice: Choice, options: &Options) -> Result<End, Failure> {
    let plan = Plan::of(choice, options).map_err(Failure::Usage)?;
    if options.list {
        let (cores, filter) = (plan.cores.count(), options.filter.as_ref());
        let text = list(&plan.choice, cores, options.nodes, filter).map_err(Failure::Usage)?;
        return print(&text).map_err(Failure::Broken);
    }
    plan.run(options)
}

fn micro(options: &Micro) -> Result<End, Failure> {
    let filter = options.filter.as_ref();
    let chosen = |name: &str| filter.is_none_or(|filter| filter.is_match(name));
    let mut rows = rows(Scale::Published).map_err(Failure::Broken)?;
    rows.retain(|row| chosen(&row.ours.name));
    let mut comparisons = comparisons(Scale::Published);
    comparisons.retain(|comparison| chosen(&comparison.name));
    let names = Vec::from_iter(
        (rows.iter().map(|row| row.ours.name.clone()))
            .chain(comparisons.iter().map(|comparison| comparison.name.clone())),
    );
    if names.is_empty() {
        let filter = filter.map_or("", |filter| filter.as_str());
        let error = anyhow!("no microbenchmark matches {filter:?}");
        return Err(Failure::Usage(error));
    }
    if options.list {
        return print(&(names.join("\n") + "\n")).map_err(Failure::Broken);
    }
    let effort = if options.quick {
        Effort::QUICK
    } else {
        Effort::USUAL
    };
    let stop = Stop::default();
    on_interrupt(stop.clone(), None).map_err(Failure::Broken)?;
    let bar = bar(names.len() as u64);
    let mut names = names.into_iter();
    let mut goes_on = || {
        bar.inc(1);
        bar.set_message(names.next().unwrap_or_default());
        !stop.asked()
    };
    let mut floor = Floor::new();
    let rows = rows.into_iter().take_while(|_| goes_on());
    let outcomes = Vec::from_iter(rows.map(|row| row.measure(&mut floor, effort)));
    let comparisons = comparisons.into_iter().take_while(|_| goes_on());
    let compared = Vec::from_iter(comparisons.map(|of| of.measure(&mut floor, effort)));
    bar.finish_and_clear();
    // Whatever ended it: what was measured is printed.
    print(&summary(&outcomes, &compared)).map_err(Failure::Broken)?;
    Ok(if stop.asked() {
        End::Interrupted
    } else {
        End::Well
    })
}

/// What is to be measured, checked before anything runs.
struct Plan {
    choice: Choice,
    cores: Cores,
    rows: Vec<Row>,
    runs: usize,
    timing: Timing,
}

impl Plan {
    fn of(choice: Choice, options: &Options) -> Result<Self> {
        let cores = Cores::first(options.cores.unwrap_or_else(Cores::available))?;
        let (nodes, filter) = (options.nodes, options.filter.as_ref());
        let rows = chosen(&choice, cores.count(), nodes, filter)?;
        let runs = options.runs.unwrap_or(RUNS);
        let usual = if options.quick { QUICK } else { USUAL };
        let timing = Timing {
            duration: options.duration.unwrap_or(usual.duration),
            ..usual
        };
        if options.list {
            if options.format == Format::Json {
                bail!("--list has no --format json");
            }
        } else if rows.is_empty() {
            bail!(nothing_matches(&choice, nodes, filter));
        }
        Ok(Self {
            choice,
            cores,
            rows,
            runs,
            timing,
        })
    }

    fn run(&self, options: &Options) -> Result<End, Failure> {
        let stop = Stop::default();
        let storage = Storage::new(options.engine).map_err(Failure::Broken)?;
        on_interrupt(stop.clone(), storage.folder()).map_err(Failure::Broken)?;
        let folder = folder(options, &self.choice).map_err(Failure::Usage)?;
        let session = Session {
            rows: &self.rows,
            place: Place {
                storage: &storage,
                client: options.client,
            },
            cores: &self.cores,
            runs: self.runs,
            timing: self.timing,
            stop: &stop,
        };
        let mut results = Results::begin(
            &self.choice,
            options.engine,
            self.cores.count(),
            self.runs,
            self.timing,
        );
        results.settings.client = options.client;
        let bar = bar(session.total().as_millis() as u64);
        let measured = session.measure(&mut results, |progress| show(&bar, &progress));
        bar.finish_and_clear();
        // Whatever ended it: what was measured is printed and saved.
        let saved = report(&results, options.format, &folder);
        measured.and(saved).map_err(Failure::Broken)?;
        Ok(if stop.asked() {
            End::Interrupted
        } else {
            End::Well
        })
    }
}

fn compare(files: &Compare) -> Result<End> {
    let (a, b) = (Saved::load(&files.a)?, Saved::load(&files.b)?);
    print(&tables(&a, &b, files.side, files.filter.as_ref())?)
}

/// What is written into the folder that the results go to.
const DATA: &str = "results.json";
const PAGE: &str = "report.html";

/// The folder that the results go to. What is there already is not overwritten. Made before anything runs, so that nothing is measured in vain.
fn folder(options: &Options, choice: &Choice) -> Result<PathBuf> {
    let folder = match &options.out {
        Some(folder) => folder.clone(),
        None => {
            let binary = std::env::current_exe().context("this program's own folder is unknown")?;
            // The build's folder: its programs are in a folder of their own inside it.
            let target = binary
                .ancestors()
                .nth(2)
                .ok_or_else(|| anyhow!("{binary:?} is in no folder"))?;
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            target
                .join("spanlatch-bench")
                .join(format!("{}-{choice}", now.replace(':', "")))
        }
    };
    for file in [DATA, PAGE].map(|name| folder.join(name)) {
        if file.exists() {
            bail!("{} exists; --out needs another folder", file.display());
        }
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The first Ctrl-C ends the session in an orderly way, the second at once, but not without removing `folder`.
fn on_interrupt(stop: Stop, folder: Option<&Path>) -> Result<()> {
    let folder = folder.map(Path::to_owned);
    let interrupted = move || {
        if stop.ask() {
            // Files may be made in it while it is being removed.
            for _ in 0..100 {
                match &folder {
                    Some(folder) if fs::remove_dir_all(folder).is_err() && folder.exists() => {}
                    _ => break,
                }
            }
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(interrupted).context("Ctrl-C cannot be handled")
}

/// A bar of so many steps; invisible unless somebody can see it.
fn bar(total: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{wide_bar} {msg}").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style)
}

fn show(bar: &ProgressBar, progress: &Progress<'_>) {
    let done = progress.done.as_millis() as u64;
    let left = bar
        .length()
        .unwrap_or(done)
        .saturating_sub(done)
        .div_ceil(1000);
    bar.set_message(format!(
        "{}  {}:{:02} left",
        progress.row,
        left / 60,
        left % 60
    ));
    bar.set_position(done);
}

/// Prints the results, and saves them.
fn report(results: &Results, format: Format, folder: &Path) -> Result<()> {
    let (data, page) = (folder.join(DATA), folder.join(PAGE));
    results.save(&data)?;
    fs::write(&page, html(results)?).with_context(|| format!("cannot write {}", page.display()))?;
    match format {
        Format::Table => print(&table::session(results))?,
        Format::Json => print(&(serde_json::to_string_pretty(results)? + "\n"))?,
    };
    let mut stderr = io::stderr();
    if let Some(reason) = &results.ended_early {
        writeln!(
            stderr,
            "ended early ({reason}); what was measured until then is kept"
        )?;
    }
    writeln!(
        stderr,
        "results: {}\nreport:  {}",
        data.display(),
        page.display()
    )?;
    Ok(())
}

/// Prints to standard output; that nobody reads any further is no failure.
fn print(text: &str) -> Result<End> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(End::Well),
    }
}
