//! The report of a session: one HTML file that needs nothing else.

use std::fmt::Write as _;

use anyhow::Result;

use crate::metric::Metric;
use crate::results::Results;
use crate::sample::Sample;
use crate::stats::{ALPHA, Summary};
use crate::table::{Pair, Sides, delta, figures, median, nothing_ran};

mod plot;

const STYLE: &str = include_str!("report/style.css");

/// The report as HTML, plots included.
///
/// # Errors
///
/// If a plot cannot be drawn.
pub fn html(results: &Results) -> Result<String> {
    let mut page = String::new();
    let settings = &results.settings;
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>spanlatch: {suite} at {cores} cores</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        suite = escape(&settings.suite),
        cores = settings.cores,
    )?;
    head(&mut page, results)?;
    if results.rows.is_empty() {
        page += "<p>Nothing was measured.</p>\n";
    } else {
        verdicts(&mut page, results)?;
        throughput(&mut page, results)?;
        latencies(&mut page, results)?;
        for metric in Metric::ALL {
            comparison(&mut page, results, metric)?;
        }
        latching(&mut page, results)?;
    }
    foot(&mut page, results)?;
    page += "</main>\n</body>\n</html>\n";
    Ok(page)
}

fn head(page: &mut String, results: &Results) -> Result<()> {
    let (settings, machine) = (&results.settings, &results.machine);
    write!(
        page,
        "<header>\n<p class=\"kicker\">spanlatch {version} &middot; {began}</p>\n\
         <h1>The latch manager and its predecessor</h1>\n\
         <p class=\"lead\">The same storage pipeline ran the same workloads on two latch managers: \
         <span class=\"old\">old</span>, a queue that lists every command&rsquo;s prerequisites under one mutex, and \
         <span class=\"new\">new</span>, the latch manager of this workspace. \
         They took turns, {runs} runs of {duration} s each, on {cores} pinned worker threads.</p>\n\
         <dl><div><dt>Processor</dt><dd>{processor}</dd></div><div><dt>Cores</dt><dd>{cores} of {available} used</dd></div>\
         <div><dt>System</dt><dd>{system}</dd></div><div><dt>Suite</dt><dd>{suite}</dd></div>\
         <div><dt>Engine</dt><dd>{engine}</dd></div><div><dt>Client</dt><dd>{client}</dd></div></dl>\n",
        version = escape(&results.version),
        began = escape(&results.began),
        runs = settings.runs,
        duration = settings.duration_seconds,
        cores = settings.cores,
        processor = escape(&machine.processor),
        available = machine.cores,
        system = escape(&machine.system),
        suite = escape(&settings.suite),
        engine = settings.engine,
        client = settings.client,
    )?;
    if let Some(reason) = &results.ended_early {
        writeln!(
            page,
            "<p class=\"warning\">It ended early: {}.</p>",
            escape(reason)
        )?;
    }
    page.push_str("</header>\n");
    Ok(())
}

/// How many rows are faster, slower, or neither.
fn verdicts(page: &mut String, results: &Results) -> Result<()> {
    let changes: Vec<String> = results
        .rows
        .iter()
        .map(|row| delta(Metric::OpsPerSec, &Pair::from(row)).0)
        .collect();
    let count = |sign: char| {
        changes
            .iter()
            .filter(|change| change.starts_with(sign))
            .count()
    };
    let (faster, slower) = (count('+'), count('-'));
    writeln!(
        page,
        "<section class=\"tiles\"><div><b>{faster}</b>rows with more throughput</div>\
         <div><b>{slower}</b>rows with less</div>\
         <div><b>{}</b>rows without a significant difference (p &gt; {ALPHA})</div></section>",
        results.rows.len() - faster - slower
    )?;
    Ok(())
}

fn throughput(page: &mut String, results: &Results) -> Result<()> {
    let plot = plot::throughput(&results.rows)?;
    writeln!(
        page,
        "<section><h2>Throughput</h2>\n<p>Median operations per second, drawn relative to the old \
         one&rsquo;s. The thin line goes from the slowest run to the fastest.</p>\n<figure>{plot}</figure></section>"
    )?;
    Ok(())
}

fn latencies(page: &mut String, results: &Results) -> Result<()> {
    page.push_str(
        "<section><h2>Latency</h2>\n<p>How operations are distributed over latencies, all runs together; \
         the scale is logarithmic. A vertical line marks each side&rsquo;s median, a dashed one its 99th \
         percentile.</p>\n<div class=\"plots\">\n",
    );
    for row in &results.rows {
        let plot = plot::latency(row)?;
        writeln!(
            page,
            "<figure><figcaption>{}</figcaption>{plot}</figure>",
            escape(&row.name)
        )?;
    }
    page.push_str("</div></section>\n");
    Ok(())
}

fn comparison(page: &mut String, results: &Results, metric: Metric) -> Result<()> {
    let label = metric.label();
    writeln!(
        page,
        "<section><h2>{label}</h2>\n<table><thead><tr><th>name</th><th>old</th><th>new</th>\
         <th>delta</th><th></th><th>published</th></tr></thead><tbody>"
    )?;
    for row in &results.rows {
        let side = |samples: &[Sample]| match Summary::of(&figures(metric, samples)) {
            Some(Summary { median, spread }) => {
                format!(
                    "{} <small>&plusmn; {:.0}%</small>",
                    metric.show(median),
                    spread * 100.0
                )
            }
            None => "&ndash;".to_owned(),
        };
        let (change, sureness) = delta(metric, &Pair::from(row));
        let better = match (change.chars().next(), metric) {
            (Some('+'), Metric::OpsPerSec) | (Some('-'), Metric::P50 | Metric::P99) => "better",
            (Some('+' | '-'), _) => "worse",
            _ => "same",
        };
        let beside = row.beside.as_ref().map_or_else(String::new, |beside| {
            format!(
                "{} <small>at {} cores</small>",
                escape(beside.delta(metric)),
                beside.cores
            )
        });
        writeln!(
            page,
            "<tr><td>{name}</td><td>{old}</td><td>{new}</td><td class=\"{better}\">{change}</td>\
             <td><small>{sureness}</small></td><td>{beside}</td></tr>",
            name = escape(&row.name),
            old = side(&row.old),
            new = side(&row.new),
            change = escape(&change),
            sureness = escape(&sureness),
        )?;
    }
    page.push_str("</tbody></table></section>\n");
    Ok(())
}

fn latching(page: &mut String, results: &Results) -> Result<()> {
    page.push_str(
        "<section><h2>Latches</h2>\n<p>Whether a row exercises latches at all: how often an operation had to \
         wait for others, how many latches were held at a time, and what share of the workers&rsquo; time went \
         into acquiring and releasing them (sampled).</p>\n<table><thead><tr><th>name</th>\
         <th colspan=\"2\">waits/op</th><th colspan=\"2\">latches held</th><th colspan=\"2\">CPU share</th>\
         <th colspan=\"2\">p99.9</th></tr><tr><th></th><th>old</th><th>new</th><th>old</th><th>new</th><th>old</th>\
         <th>new</th><th>old</th><th>new</th></tr></thead><tbody>\n",
    );
    for row in &results.rows {
        write!(page, "<tr><td>{}</td>", escape(&row.name))?;
        let columns: [fn(&Sample) -> f64; 4] = [
            |sample| sample.latching.waits_per_op,
            |sample| sample.latching.held,
            |sample| sample.latching.cpu_share * 100.0,
            |sample| sample.p999_us,
        ];
        let shows: [fn(f64) -> String; 4] = [
            |waits| format!("{waits:.3}"),
            |held| format!("{held:.1}"),
            |share| format!("{share:.1}%"),
            |us| Metric::P99.show(us),
        ];
        for (of, show) in columns.into_iter().zip(shows) {
            for samples in [&row.old, &row.new] {
                let shown = median(samples, of).map_or_else(|| "&ndash;".to_owned(), show);
                write!(page, "<td>{shown}</td>")?;
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></section>\n");
    Ok(())
}

fn foot(page: &mut String, results: &Results) -> Result<()> {
    page.push_str("<section class=\"notes\"><h2>How to read this</h2>\n<ul>\n");
    let pairs: Vec<Pair<'_>> = results.rows.iter().map(Pair::from).collect();
    for line in nothing_ran(&pairs, &Sides::default()) {
        writeln!(page, "<li>{}.</li>", escape(&line))?;
    }
    for note in results.notes() {
        writeln!(page, "<li>{}.</li>", escape(note))?;
    }
    writeln!(
        page,
        "<li><code>kv95-c5</code> is a key-value load with 95 % reads on 5 keys; <code>-b16</code>: 16 rows in each \
         operation; <code>kv70-20-c128</code>: 70 % reads, 20 % scans of the whole table, 128 keys. \
         <code>splits</code> is how many times the table is split. Workers, each with one operation in flight: {concurrency}.</li>\n\
         <li><b>&plusmn;</b> is the largest deviation from the median; no run is left out. A delta is shown where the \
         exact two-sided Mann-Whitney test gives p &le; {ALPHA}, else <b>~</b>. With five runs against five the \
         least possible p is 0.008.</li>\n\
         <li><b>published</b> is the change from the original predecessor to the original latch manager, on \
         other machines: compare signs and shapes, not sizes.</li>\n\
         <li>After each run the store was checked: no latches left, and exactly the acknowledged writes in it.</li>\n\
         </ul></section>",
        concurrency = results.settings.concurrency,
    )?;
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// All latencies of some samples: upper bounds in microseconds, and shares.
fn distribution(samples: &[Sample]) -> Vec<(f64, f64)> {
    let mut buckets: Vec<(f64, u64)> = samples
        .iter()
        .flat_map(|sample| sample.latencies.clone())
        .collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    buckets
        .into_iter()
        .map(|(bound, count)| (bound, count as f64 / total as f64))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::results::Measured;
    use crate::run::Timing;
    use crate::sample::Latching;
    use crate::storage::EngineKind;
    use crate::suite::{Choice, rows};
    use crate::workload::{Flags, Workload};

    fn results() -> Result<Results> {
        let timing = Timing {
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
        };
        let mut results = Results::begin(&Choice::Selection, EngineKind::Mem, 2, 5, timing);
        let sample = |scale: u64| {
            let latencies = (1..1000).map(move |n| n * n * scale);
            Sample::new(latencies, Duration::from_secs(1), Latching::default())
        };
        for row in rows(&Choice::Selection, 2, None)? {
            let mut measured = Measured::new(&row);
            measured.old = (10..15).map(sample).collect();
            measured.new = (5..10).map(sample).collect();
            results.rows.push(measured);
        }
        results.rows[0].note = Some("a <note>".to_owned());
        Ok(results)
    }

    #[test]
    fn the_report_stands_alone_and_names_every_row() -> Result<()> {
        let results = results()?;
        let page = html(&results)?;
        for row in &results.rows {
            assert!(page.matches(&row.name).count() >= 5, "{}", row.name);
        }
        assert_eq!(page.matches("<svg").count(), 1 + results.rows.len());
        for outside in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("a &lt;note&gt;"));
        Ok(())
    }

    #[test]
    fn the_report_says_how_many_operations_were_in_flight() -> Result<()> {
        let mut results = results()?;
        assert!(html(&results)?.contains("one operation in flight: 64."));
        let own = Workload::new(Flags {
            concurrency: 7,
            ..Flags::default()
        })?;
        let timing = Timing {
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
        };
        let choice = Choice::Own(Box::new(own));
        results.settings = Results::begin(&choice, EngineKind::Mem, 2, 5, timing).settings;
        assert!(html(&results)?.contains("one operation in flight: 7."));
        Ok(())
    }

    #[test]
    fn a_session_without_rows_or_with_half_a_row_still_has_a_report() -> Result<()> {
        let mut results = results()?;
        results.rows.truncate(1);
        results.rows[0].new.clear();
        assert!(html(&results)?.contains("n=5+0"));
        results.rows.clear();
        assert!(html(&results)?.contains("Nothing was measured"));
        Ok(())
    }

    #[test]
    fn a_distribution_adds_up_to_one() -> Result<()> {
        let results = results()?;
        let shares = distribution(&results.rows[0].old);
        assert!(shares.is_sorted_by(|a, b| a.0 < b.0));
        assert!((shares.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        Ok(())
    }
}
