//! Text renderer of a chart: two by four Braille dots per character, with a frame and axis limits.

use super::axis_ticks::range_label;
use super::{Chart, PlotKind};

/// Canvas of Braille dots.
struct BrailleCanvas {
    columns: usize,
    rows: usize,
    cells: Vec<u8>,
}

/// Unicode's bits for the dots of a character, by row and column.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

impl BrailleCanvas {
    fn new(columns: usize, rows: usize) -> Self {
        Self { columns, rows, cells: vec![0; columns * rows] }
    }

    /// Returns width and height in dots.
    fn size(&self) -> (i64, i64) {
        let wide = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        (wide(self.columns * 2), wide(self.rows * 4))
    }

    /// Sets a dot, counted from the lower left. Ignores dots outside.
    fn dot(&mut self, x: i64, y: i64) {
        let (width, height) = self.size();
        if x < 0 || y < 0 || x >= width || y >= height {
            return;
        }
        let from_above = height - 1 - y;
        let place = |value: i64| usize::try_from(value).unwrap_or(0);
        let (x, y) = (place(x), place(from_above));
        let bits = DOTS.get(y % 4).and_then(|row| row.get(x % 2)).copied().unwrap_or(0);
        if let Some(cell) = self.cells.get_mut(y / 4 * self.columns + x / 2) {
            *cell |= bits;
        }
    }

    /// Draws a line by Bresenham's algorithm.
    fn line(&mut self, (mut x, mut y): (i64, i64), (to_x, to_y): (i64, i64)) {
        let (wide, high) = ((to_x - x).abs(), -(to_y - y).abs());
        let (right, up) = ((to_x - x).signum(), (to_y - y).signum());
        let mut error = wide + high;
        loop {
            self.dot(x, y);
            if x == to_x && y == to_y {
                return;
            }
            let twice = 2 * error;
            if twice >= high {
                error += high;
                x += right;
            }
            if twice <= wide {
                error += wide;
                y += up;
            }
        }
    }

    fn row(&self, row: usize) -> String {
        let cells =
            self.cells.get(row * self.columns..(row + 1) * self.columns).unwrap_or_default();
        cells.iter().filter_map(|bits| char::from_u32(0x2800 + u32::from(*bits))).collect()
    }
}

/// Renders a chart in at most this many columns and rows.
pub(super) fn draw_braille(chart: &Chart, (columns, rows): (usize, usize)) -> String {
    let (low, high) = (range_label(chart.y.0, chart.y), range_label(chart.y.1, chart.y));
    let margin = low.chars().count().max(high.chars().count());
    let titled = usize::from(!chart.title.is_empty());
    let mut canvas = BrailleCanvas::new(columns.saturating_sub(margin + 1), rows - 2 - titled);
    fill_canvas(&mut canvas, chart);
    let mut lines = Vec::with_capacity(rows);
    if titled > 0 {
        let title: String = chart.title.chars().take(columns).collect();
        let before = columns.saturating_sub(title.chars().count()) / 2;
        lines.push(format!("{}{title}", " ".repeat(before)));
    }
    for row in 0..canvas.rows {
        let (label, edge) = if row == 0 {
            (high.as_str(), '┤')
        } else if row + 1 == canvas.rows {
            (low.as_str(), '┤')
        } else {
            ("", '│')
        };
        lines.push(format!("{label:>margin$}{edge}{}", canvas.row(row)));
    }
    lines.push(format!("{:margin$}└{}", "", "─".repeat(canvas.columns)));
    let (left, right) = (range_label(chart.x.0, chart.x), range_label(chart.x.1, chart.x));
    // Shows both limits if there is room for a space between them, else only the left one.
    match (canvas.columns + 1).checked_sub(left.chars().count() + right.chars().count()) {
        Some(between @ 1..) => {
            lines.push(format!("{:margin$}{left}{}{right}", "", " ".repeat(between)));
        }
        _ => lines.push(format!("{:margin$}{left}", "")),
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

fn fill_canvas(canvas: &mut BrailleCanvas, chart: &Chart) {
    let (width, height) = canvas.size();
    let x = |value: f64| scale_to_dots(value, chart.x, width);
    let y = |value: f64| scale_to_dots(value, chart.y, height);
    for line in &chart.lines {
        match chart.kind {
            PlotKind::Scatter => {
                for point in line.iter().filter(|point| point.1.is_finite()) {
                    canvas.dot(x(point.0), y(point.1));
                }
            }
            PlotKind::Line => {
                if let [(px, py)] = line.as_slice() {
                    canvas.dot(x(*px), y(*py));
                }
                for pair in line.windows(2) {
                    if let [(ax, ay), (bx, by)] = pair
                        && ay.is_finite()
                        && by.is_finite()
                    {
                        canvas.line((x(*ax), y(*ay)), (x(*bx), y(*by)));
                    }
                }
            }
            PlotKind::Bars => {
                for pair in line.windows(2) {
                    let [(left, value), (right, _)] = pair else { continue };
                    let top = if *value > 0.0 { y(*value).max(0) } else { -1 };
                    for column in x(*left)..x(*right).max(x(*left) + 1) {
                        (0..=top).for_each(|row| canvas.dot(column, row));
                    }
                }
            }
        }
    }
}

/// Maps a value to a dot index; values outside the range stay just outside.
#[expect(clippy::cast_possible_truncation, reason = "clamped to some thousands")]
fn scale_to_dots(value: f64, (least, most): (f64, f64), dots: i64) -> i64 {
    let last = (dots - 1) as f64;
    let part = (value / 2.0 - least / 2.0) / (most / 2.0 - least / 2.0);
    (part * last).round().clamp(-2.0, last + 2.0) as i64
}
