//! The plots of a report, as SVG.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::distribution;
use crate::metric::Metric;
use crate::results::Measured;
use crate::sample::Sample;
use crate::stats::Summary;
use crate::table::{Pair, delta, figures};

/// The colours of the style sheet.
const OLD: RGBColor = RGBColor(0x8a, 0x93, 0xa6);
const NEW: RGBColor = RGBColor(0x2f, 0x5b, 0xea);
const INK: RGBColor = RGBColor(0x1a, 0x22, 0x33);
const SOFT: RGBColor = RGBColor(0x5d, 0x67, 0x79);
const LINE: RGBColor = RGBColor(0xe3, 0xe7, 0xee);

/// One side of a row.
struct Side<'a> {
    label: &'static str,
    samples: &'a [Sample],
    colour: RGBColor,
}

fn sides(row: &Measured) -> [Side<'_>; 2] {
    let (old, new) = (&row.old[..], &row.new[..]);
    [
        Side {
            label: "old",
            samples: old,
            colour: OLD,
        },
        Side {
            label: "new",
            samples: new,
            colour: NEW,
        },
    ]
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Sizes of the plot of throughput, in pixels.
const WIDTH: i32 = 1000;
const ROW: i32 = 74;
const BAR: i32 = 16;
/// Room for the figure behind the longest bar.
const FIGURE: i32 = 170;

/// For each row a bar for the old and one for the new throughput, relative to the old.
pub(super) fn throughput(rows: &[Measured]) -> Result<String> {
    let mut svg = String::new();
    {
        let size = (WIDTH as u32, (ROW * rows.len() as i32 + 4) as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let longest = rows.iter().filter_map(relative).fold(1.0, f64::max);
        let pixels = f64::from(WIDTH - FIGURE) / longest;
        for (row, top) in rows.iter().zip((0..).step_by(ROW as usize)) {
            bars(&area, row, top, pixels)
                .map_err(|error| anyhow!("cannot draw {}: {error}", row.name))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// The largest throughput of a row, relative to the old median.
fn relative(row: &Measured) -> Option<f64> {
    let old = Summary::of(&figures(Metric::OpsPerSec, &row.old))?.median;
    let all = row
        .old
        .iter()
        .chain(&row.new)
        .map(|sample| sample.ops_per_sec());
    (old > 0.0).then(|| all.fold(0.0, f64::max) / old)
}

fn bars(area: &Area<'_>, row: &Measured, top: i32, pixels: f64) -> Result<()> {
    let bold = font(14.0, INK, HPos::Left).transform(FontTransform::None);
    area.draw(&Text::new(row.name.clone(), (0, top + 12), bold))?;
    let (change, sureness) = delta(Metric::OpsPerSec, &Pair::from(row));
    let verdict = format!("{change} {sureness}");
    area.draw(&Text::new(
        verdict,
        (WIDTH - 2, top + 12),
        font(14.0, SOFT, HPos::Right),
    ))?;
    let Some(Summary { median: unit, .. }) = Summary::of(&figures(Metric::OpsPerSec, &row.old))
    else {
        return Ok(());
    };
    let x = |figure: f64| {
        if unit > 0.0 {
            (figure / unit * pixels) as i32
        } else {
            0
        }
    };
    for (
        Side {
            label,
            samples,
            colour,
        },
        top,
    ) in sides(row).into_iter().zip([top + 25, top + 27 + BAR])
    {
        let all = figures(Metric::OpsPerSec, samples);
        let Some(Summary { median, spread }) = Summary::of(&all) else {
            continue;
        };
        let middle = top + BAR / 2;
        area.draw(&Rectangle::new(
            [(0, top), (x(median), top + BAR)],
            colour.filled(),
        ))?;
        let (slowest, fastest) = all
            .iter()
            .fold((median, median), |(s, f), x| (s.min(*x), f.max(*x)));
        area.draw(&PathElement::new(
            [(x(slowest), middle), (x(fastest), middle)],
            INK.stroke_width(1),
        ))?;
        let figure = format!(
            "{label} {} ± {:.0}%",
            Metric::OpsPerSec.show(median),
            spread * 100.0
        );
        let at = (x(fastest) + 8, middle);
        area.draw(&Text::new(figure, at, font(13.0, SOFT, HPos::Left)))?;
    }
    Ok(())
}

/// The share of operations per latency, old and new, on a logarithmic scale.
pub(super) fn latency(row: &Measured) -> Result<String> {
    let mut svg = String::new();
    draw_latency(&mut svg, row).map_err(|error| anyhow!("cannot draw {}: {error}", row.name))?;
    Ok(svg)
}

fn draw_latency(svg: &mut String, row: &Measured) -> Result<()> {
    let both = sides(row).map(|side| (distribution(side.samples), side));
    let bounds = || both.iter().flat_map(|(shares, _)| shares);
    let from = bounds()
        .map(|(bound, _)| *bound)
        .fold(f64::INFINITY, f64::min)
        / 1.2;
    let to = bounds().map(|(bound, _)| *bound).fold(1.0, f64::max) * 1.1;
    let top = bounds().map(|(_, share)| *share).fold(0.01, f64::max) * 1.08;
    let from = if from.is_finite() { from } else { to / 10.0 };

    let area = SVGBackend::with_string(svg, (480, 210)).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin_top(6)
        .margin_right(14)
        .x_label_area_size(24)
        .y_label_area_size(4)
        .build_cartesian_2d((from..to).log_scale(), 0.0..top)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(6)
        .x_label_formatter(&|us| Metric::P50.show(*us))
        .x_label_style(font(11.0, SOFT, HPos::Center))
        .light_line_style(TRANSPARENT)
        .bold_line_style(LINE)
        .axis_style(LINE)
        .draw()?;
    for (
        shares,
        Side {
            samples, colour, ..
        },
    ) in &both
    {
        let outline = outline(shares);
        let area =
            AreaSeries::new(outline, 0.0, colour.mix(0.22)).border_style(colour.stroke_width(2));
        chart.draw_series(area)?;
        for (metric, dashed) in [(Metric::P50, false), (Metric::P99, true)] {
            let Some(Summary { median, .. }) = Summary::of(&figures(metric, samples)) else {
                continue;
            };
            let at = [(median.clamp(from, to), 0.0), (median.clamp(from, to), top)];
            let line = colour.stroke_width(1);
            if dashed {
                chart.draw_series(DashedLineSeries::new(at, 4, 3, line))?;
            } else {
                chart.draw_series(LineSeries::new(at, line))?;
            }
        }
    }
    area.present()?;
    Ok(())
}

/// The steps of a histogram whose buckets are an eighth of an octave wide, and zero between them.
fn outline(shares: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let width = (1.0_f64 / 8.0).exp2();
    let mut outline: Vec<(f64, f64)> = Vec::new();
    for &(bound, share) in shares {
        let start = bound / width;
        match outline.last() {
            Some((end, _)) if *end > start * 0.999 => {}
            Some((end, _)) => outline.extend([(*end, 0.0), (start, 0.0)]),
            None => outline.push((start, 0.0)),
        }
        outline.extend([(start, share), (bound, share)]);
    }
    outline.extend(outline.last().map(|(end, _)| (*end, 0.0)));
    outline
}

fn font(size: f64, colour: RGBColor, anchor: HPos) -> TextStyle<'static> {
    let style = ("system-ui, sans-serif", size).into_font().color(&colour);
    style.pos(Pos::new(anchor, VPos::Center))
}
