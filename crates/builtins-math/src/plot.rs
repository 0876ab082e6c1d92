//! Plots: as Braille text, sixels, PNG and SVG.
//!
//! A tool converts its arguments to a [`Chart`], which every renderer accepts, so that all show the
//! same content.

mod axis_ticks;
mod braille;
mod plot_tools;
mod raster;
mod sixel;

pub(crate) use plot_tools::{plot_braille, plot_function, plot_histogram, plot_sixel};

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::image_content::EncodedImage;
use crate::tool_arguments::ToolArguments;
use crate::tool_execution::Answer;

/// Maximum points of all lines together.
const POINTS: usize = 50_000;
/// Maximum lines of a chart.
const LINES: usize = 12;
/// Limits of columns and rows of a text plot.
const COLUMNS: RangeInclusive<usize> = 24..=400;
const ROWS: RangeInclusive<usize> = 6..=200;
/// Limits of an image's width and height in pixels.
const WIDTHS: RangeInclusive<usize> = 160..=2_000;
const HEIGHTS: RangeInclusive<usize> = 120..=1_500;
/// Pixels per character of a text plot, in width and height.
const CELL_WIDTH: usize = 10;
const CELL_HEIGHT: usize = 20;

/// Size of an image in pixels.
#[derive(Debug, Clone, Copy)]
struct PixelSize {
    width: usize,
    height: usize,
}

/// Drawing style of the points in a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlotKind {
    Line,
    Scatter,
    /// Bars: each point is the left edge and height of a bar; the last one is only the right edge.
    Bars,
}

/// Data of a chart, independent of its renderer.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    title: String,
    kind: PlotKind,
    /// Points of each line; a NaN interrupts the line.
    lines: Vec<Vec<(f64, f64)>>,
    colors: Vec<(u8, u8, u8)>,
    x: (f64, f64),
    y: (f64, f64),
}

/// Line colours by Okabe and Ito, distinguishable with most colour vision deficiencies.
const COLOURS: &[(u8, u8, u8)] =
    &[(0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233)];

impl Chart {
    /// Creates a chart whose ranges include all points.
    fn new(title: &str, kind: PlotKind, lines: Vec<Vec<(f64, f64)>>) -> Self {
        let all = || lines.iter().flatten().filter(|point| point.1.is_finite());
        let x = value_range(all().map(|point| point.0));
        let mut y = value_range(all().map(|point| point.1));
        if kind == PlotKind::Bars {
            y = (0.0, if y.1 > 0.0 { y.1 } else { 1.0 });
        }
        let colours = COLOURS.to_vec();
        Self { title: title.chars().take(200).collect(), kind, lines, colors: colours, x, y }
    }

    fn line_color(&self, line: usize) -> (u8, u8, u8) {
        let count = self.colors.len().max(1);
        self.colors.get(line % count).copied().unwrap_or_default()
    }

    fn ranges_json(&self) -> Value {
        json!({ "x_range": [self.x.0, self.x.1], "y_range": [self.y.0, self.y.1] })
    }

    /// Renders the answer in the requested `format`; images include the text plot.
    fn to_result(&self, fields: ToolArguments<'_>, more: Value) -> Result<Answer, String> {
        let format = fields.one_of("format", "text", &["text", "png", "svg"])?;
        let columns = fields.usize_in("width", 80, COLUMNS)?;
        let rows = fields.usize_in("height", 20, ROWS)?;
        let mut value = self.ranges_json();
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.insert("plot".to_owned(), json!(braille::draw_braille(self, (columns, rows))));
            value.insert("format".to_owned(), json!(format));
            value.extend(more);
        }
        if format == "text" {
            return Ok(value.into());
        }
        let size = PixelSize {
            width: (columns * CELL_WIDTH).clamp(*WIDTHS.start(), *WIDTHS.end()),
            height: (rows * CELL_HEIGHT).clamp(*HEIGHTS.start(), *HEIGHTS.end()),
        };
        let picture = self.to_image(format, size)?;
        if let Some(value) = value.as_object_mut() {
            value.insert(
                "dimensions".to_owned(),
                json!({ "width": size.width, "height": size.height }),
            );
        }
        Ok(Answer { value, picture: Some(picture), exact: None })
    }

    fn to_image(&self, format: &str, size: PixelSize) -> Result<EncodedImage, String> {
        Ok(match format {
            "svg" => EncodedImage {
                bytes: raster::render_svg(self, size)?.into(),
                media_type: "image/svg+xml",
            },
            _ => EncodedImage {
                bytes: raster::render_png(self, size)?.into(),
                media_type: "image/png",
            },
        })
    }
}

/// Returns minimum and maximum, widened slightly if they are equal.
fn value_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
    if least > most {
        return (0.0, 1.0);
    }
    if most - least > least.abs().max(most.abs()) * 1e-12 {
        return (least, most);
    }
    let apart = if least == 0.0 { 1.0 } else { least.abs() * 0.1 };
    (least - apart, most + apart)
}

#[cfg(test)]
mod tests;
