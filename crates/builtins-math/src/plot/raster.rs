//! Pixel and SVG renderer of a chart, by plotters with an embedded font.

use std::sync::OnceLock;

use plotters::prelude::{
    BitMapBackend, ChartBuilder, Circle, DrawingBackend, IntoDrawingArea as _, IntoFont as _,
    LineSeries, PathElement, RGBColor, Rectangle, SVGBackend, WHITE,
};
use plotters::style::{Color as _, FontStyle, ShapeStyle};

use super::axis_ticks::{axis_ticks, tick_label};
use super::{Chart, PixelSize, PlotKind};

const FONT: &str = "sans-serif";
const TEXT: u32 = 15;
const TITLE: u32 = 20;

/// Renders a chart as SVG text.
pub(super) fn render_svg(chart: &Chart, size: PixelSize) -> Result<String, String> {
    let mut text = String::new();
    draw_chart(chart, SVGBackend::with_string(&mut text, backend_size(size)))?;
    Ok(text)
}

/// Renders a chart as PNG bytes.
pub(super) fn render_png(chart: &Chart, size: PixelSize) -> Result<Vec<u8>, String> {
    let pixels = render_rgb(chart, size)?;
    let (width, height) = backend_size(size);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
    written.map_err(|_| UNDRAWN.to_owned())?;
    Ok(bytes)
}

/// Renders a chart as RGB pixels, row by row.
pub(super) fn render_rgb(chart: &Chart, size: PixelSize) -> Result<Vec<u8>, String> {
    let mut pixels = vec![255; size.width * size.height * 3];
    draw_chart(chart, BitMapBackend::with_buffer(&mut pixels, backend_size(size)))?;
    Ok(pixels)
}

const UNDRAWN: &str = "cannot draw the picture; use another `format`";

/// Returns width and height as plotters takes them.
fn backend_size(size: PixelSize) -> (u32, u32) {
    let number = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    (number(size.width), number(size.height))
}

/// Registers the font on the first call.
fn register_font() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| {
        let bytes = dejavu::sans::regular();
        plotters::style::register_font(FONT, FontStyle::Normal, bytes).is_ok()
    })
}

fn draw_chart<B: DrawingBackend>(chart: &Chart, backend: B) -> Result<(), String> {
    let good = register_font();
    good.then_some(()).ok_or(UNDRAWN)?;
    paint_chart(chart, backend).ok_or_else(|| UNDRAWN.to_owned())
}

fn paint_chart<B: DrawingBackend>(chart: &Chart, backend: B) -> Option<()> {
    let area = backend.into_drawing_area();
    area.fill(&WHITE).ok()?;
    let (width, height) = area.dim_in_pixel();
    let (xs, ys) = (padded_range(chart.x, chart, true), padded_range(chart.y, chart, false));
    let counts = tick_counts(chart, ys, (width, height));
    let steps = (tick_step(xs, counts.0), tick_step(ys, counts.1));
    let left = longest_label(ys, counts.1, steps.1) * 10 + 14;
    let right = longest_label(xs, counts.0, steps.0) * 5 + 12;
    let mut builder = ChartBuilder::on(&area);
    builder.margin(10).margin_right(right).margin_top(14);
    builder.x_label_area_size(30).y_label_area_size(left);
    let title = fit_title(&chart.title, width);
    if !title.is_empty() {
        builder.caption(title, (FONT, TITLE).into_font());
    }
    let mut plot = builder.build_cartesian_2d(xs.0..xs.1, ys.0..ys.1).ok()?;
    let (x_label, y_label) = (|x: &f64| tick_label(*x, steps.0), |y: &f64| tick_label(*y, steps.1));
    let mut mesh = plot.configure_mesh();
    mesh.x_labels(counts.0).y_labels(counts.1).max_light_lines(0);
    mesh.label_style((FONT, TEXT).into_font()).axis_style(RGBColor(90, 90, 90));
    mesh.bold_line_style(RGBColor(225, 225, 225));
    mesh.x_label_formatter(&x_label).y_label_formatter(&y_label);
    mesh.draw().ok()?;
    for (index, line) in chart.lines.iter().enumerate() {
        let (r, g, b) = chart.line_color(index);
        let colour = RGBColor(r, g, b);
        match chart.kind {
            PlotKind::Scatter => {
                let points = line.iter().filter(|point| point.1.is_finite());
                plot.draw_series(points.map(|point| Circle::new(*point, 3, colour.filled())))
                    .ok()?;
            }
            PlotKind::Line => {
                let style = ShapeStyle::from(colour).stroke_width(2);
                for part in line.split(|point| !point.1.is_finite()) {
                    plot.draw_series(LineSeries::new(part.iter().copied(), style)).ok()?;
                    // A line of one point is drawn as a dot.
                    let alone = part.iter().filter(|_| part.len() == 1);
                    plot.draw_series(alone.map(|point| Circle::new(*point, 3, colour.filled())))
                        .ok()?;
                }
            }
            PlotKind::Bars => {
                let bars = bar_corners(line, (ys.1 - ys.0) / f64::from(height.max(1)) * 2.0);
                let filled = bars.iter().map(|bar| Rectangle::new(*bar, colour.mix(0.75).filled()));
                plot.draw_series(filled).ok()?;
                let sides = bars.iter().flat_map(|[left, right]| {
                    [left.0, right.0].map(|x| PathElement::new(vec![(x, 0.0), (x, right.1)], WHITE))
                });
                plot.draw_series(sides).ok()?;
            }
        }
    }
    drop(plot);
    area.present().ok()
}

/// Returns the corners of bars. A bar that is not empty is visible, however low. Bars are separated
/// at their sides only, so that a low bar is not covered.
fn bar_corners(line: &[(f64, f64)], least: f64) -> Vec<[(f64, f64); 2]> {
    let bar = |pair: &[(f64, f64)]| match pair {
        [(left, value), (right, _)] => {
            let value = if *value > 0.0 { value.max(least) } else { *value };
            Some([(*left, 0.0), (*right, value)])
        }
        _ => None,
    };
    line.windows(2).filter_map(bar).collect()
}

/// Returns the number of ticks that fit on each axis. Bars use integer steps only, since they are
/// counts.
fn tick_counts(chart: &Chart, ys: (f64, f64), (width, height): (u32, u32)) -> (usize, usize) {
    let (along, up) = ((width / 90).clamp(2, 12) as usize, (height / 45).clamp(2, 12) as usize);
    let whole = |count: &usize| chart.kind != PlotKind::Bars || tick_step(ys, *count) >= 1.0;
    (along, (1..=up).rev().find(whole).unwrap_or(1))
}

/// Returns the characters of the longest label.
fn longest_label(range: (f64, f64), count: usize, step: f64) -> u32 {
    let labels = axis_ticks(range, count).into_iter().map(|tick| tick_label(tick, step));
    labels.map(|text| u32::try_from(text.chars().count()).unwrap_or(0)).max().unwrap_or(1)
}

/// Pads a range around points; not below bars.
fn padded_range((least, most): (f64, f64), chart: &Chart, along: bool) -> (f64, f64) {
    let room = (most / 2.0 - least / 2.0) * 0.08;
    match chart.kind {
        PlotKind::Line if along => (least, most),
        PlotKind::Bars if !along => (least, most + room),
        _ => (least - room, most + room),
    }
}

fn tick_step(range: (f64, f64), count: usize) -> f64 {
    match axis_ticks(range, count).as_slice() {
        [first, second, ..] => second - first,
        _ => range.1 - range.0,
    }
}

/// Truncates a title to the available width.
fn fit_title(title: &str, width: u32) -> String {
    let most = (width as usize).saturating_sub(40) / 12;
    let clean: String = title.chars().filter(|c| !c.is_control()).collect();
    if clean.chars().count() <= most {
        return clean;
    }
    let cut: String = clean.chars().take(most.saturating_sub(1)).collect();
    format!("{cut}…")
}
