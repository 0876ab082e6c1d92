//! The plots: as text of braille dots, as sixels, and as PNG and SVG.
//!
//! A tool reads its arguments into a [`Chart`], which every way of drawing takes; what is drawn is the
//! same in all of them.

mod axis;
mod braille;
mod pixels;
mod sixel;
mod tools;

pub(crate) use tools::{function, histogram, points, sixel};

use serde_json::{Value, json};

use crate::fields::Fields;
use crate::picture::Picture;
use crate::work::Answer;

/// Points of all lines together.
const POINTS: usize = 50_000;
/// Lines.
const LINES: usize = 12;
/// Columns and rows of a text.
const COLUMNS: (usize, usize) = (24, 400);
const ROWS: (usize, usize) = (6, 200);
/// Pixels of a picture.
const WIDE: (usize, usize) = (160, 2_000);
const HIGH: (usize, usize) = (120, 1_500);
/// Pixels of what is one character in a text.
const CELL: (usize, usize) = (10, 20);

/// How points are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Line,
    Scatter,
    /// Each point is the left edge and the height of a bar, and the last the right edge alone.
    Bars,
}

/// What is drawn.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    title: String,
    kind: Kind,
    /// A line without a value breaks there.
    lines: Vec<Vec<(f64, f64)>>,
    colours: Vec<(u8, u8, u8)>,
    x: (f64, f64),
    y: (f64, f64),
}

/// Colours of lines: those of Okabe and Ito, which stay apart for most eyes.
const COLOURS: &[(u8, u8, u8)] =
    &[(0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233)];

impl Chart {
    /// With ranges that hold all points.
    fn new(title: &str, kind: Kind, lines: Vec<Vec<(f64, f64)>>) -> Self {
        let all = || lines.iter().flatten().filter(|point| point.1.is_finite());
        let x = range(all().map(|point| point.0));
        let mut y = range(all().map(|point| point.1));
        if kind == Kind::Bars {
            y = (0.0, if y.1 > 0.0 { y.1 } else { 1.0 });
        }
        let colours = COLOURS.to_vec();
        Self { title: title.chars().take(200).collect(), kind, lines, colours, x, y }
    }

    fn colour(&self, line: usize) -> (u8, u8, u8) {
        let count = self.colours.len().max(1);
        self.colours.get(line % count).copied().unwrap_or_default()
    }

    fn ranges(&self) -> Value {
        json!({ "x_range": [self.x.0, self.x.1], "y_range": [self.y.0, self.y.1] })
    }

    /// The answer in the form that `format` asks for; pictures come with the text beside them.
    fn answer(&self, fields: Fields<'_>, more: Value) -> Result<Answer, String> {
        let format = fields.choice("format", "text", &["text", "png", "svg"])?;
        let columns = fields.count("width", 80, COLUMNS.0..=COLUMNS.1)?;
        let rows = fields.count("height", 20, ROWS.0..=ROWS.1)?;
        let mut value = self.ranges();
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.insert("plot".to_owned(), json!(braille::draw(self, (columns, rows))));
            value.insert("format".to_owned(), json!(format));
            value.extend(more);
        }
        if format == "text" {
            return Ok(value.into());
        }
        let size =
            ((columns * CELL.0).clamp(WIDE.0, WIDE.1), (rows * CELL.1).clamp(HIGH.0, HIGH.1));
        let picture = self.picture(format, size)?;
        if let Some(value) = value.as_object_mut() {
            value.insert("dimensions".to_owned(), json!({ "width": size.0, "height": size.1 }));
        }
        Ok(Answer { value, picture: Some(picture), exact: None })
    }

    fn picture(&self, format: &str, size: (usize, usize)) -> Result<Picture, String> {
        Ok(match format {
            "svg" => Picture { bytes: pixels::svg(self, size)?.into(), mime: "image/svg+xml" },
            _ => Picture { bytes: pixels::png(self, size)?.into(), mime: "image/png" },
        })
    }
}

/// Least and most, a little apart where they are one.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
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
