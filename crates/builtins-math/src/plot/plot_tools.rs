//! Tools `plot_braille`, `plot_sixel`, `plot_function` and `histogram`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{
    Chart, HEIGHTS, LINES, POINTS, PixelSize, PlotKind, WIDTHS, braille, raster, sixel as encoded,
};
use crate::descriptive_statistics::interpolate_quantile;
use crate::histogram_bins::HistogramBins;
use crate::tool_arguments::{ToolArguments, compile_expression, escape_for_message};
use crate::tool_execution::{Answer, RunContext};

/// Maximum bins of a histogram.
const BINS: usize = 1_000;
/// Points at which a function is evaluated.
const LOOKS: u32 = 2_000;

/// Runs the tool `plot_braille` with its arguments.
pub(crate) fn plot_braille(
    arguments: ToolArguments<'_>,
    _run: &RunContext,
) -> Result<Answer, String> {
    let title = arguments.string_or("title", "Plot")?;
    let chart = Chart::new(title, plot_kind(arguments)?, read_series(arguments)?);
    let count: usize = chart.lines.iter().map(Vec::len).sum();
    chart.to_result(arguments, json!({ "n_points": count }))
}

/// Runs the tool `plot_sixel` with its arguments.
pub(crate) fn plot_sixel(
    arguments: ToolArguments<'_>,
    _run: &RunContext,
) -> Result<Answer, String> {
    let format = arguments.one_of("format", "sixel", &["sixel", "braille", "png", "svg"])?;
    let mut chart = Chart::new(
        arguments.string_or("title", "")?,
        plot_kind(arguments)?,
        read_series(arguments)?,
    );
    if arguments.has_value("colors") {
        chart.colors = parse_colors(arguments.array_value("colors")?)?;
    }
    let width = arguments.usize_in("width", 800, WIDTHS)?;
    let height = arguments.usize_in("height", 400, HEIGHTS)?;
    let size = PixelSize { width, height };
    let count: usize = chart.lines.iter().map(Vec::len).sum();
    let mut value = chart.ranges_json();
    let mut add = |name: &str, more: Value| {
        if let Some(value) = value.as_object_mut() {
            value.insert(name.to_owned(), more);
        }
    };
    add("format", json!(format));
    add("dimensions", json!({ "width": width, "height": height }));
    add("n_points", json!(count));
    let picture = match format {
        "sixel" => {
            let text = encoded::encode_sixel(&raster::render_rgb(&chart, size)?, size);
            // Answers contain no control characters, since a terminal would execute them.
            add("sixel", json!(STANDARD.encode(text)));
            add("encoding", json!("base64"));
            None
        }
        "braille" => {
            add("plot", json!(braille::draw_braille(&chart, (80, 20))));
            None
        }
        _ => Some(chart.to_image(format, size)?),
    };
    Ok(Answer { value, picture, exact: None })
}

/// Runs the tool `histogram` with its arguments.
pub(crate) fn plot_histogram(
    arguments: ToolArguments<'_>,
    _run: &RunContext,
) -> Result<Answer, String> {
    let data = arguments.f64_list("data", 1..=crate::descriptive_statistics::MAX_VALUES)?;
    let bins = arguments.usize_in("bins", 20, 1..=BINS)?;
    let title = arguments.string_or("title", "Histogram")?;
    let bins = HistogramBins::from_values(&data, bins);
    if !bins.edges.is_sorted_by(|left, right| left < right) {
        let many = bins.counts.len();
        return Err(format!(
            "the values of `data` are too close together for {many} bins; use fewer"
        ));
    }
    let heights = bins.counts.iter().map(|count| *count as f64).chain([0.0]);
    let line = bins.edges.iter().copied().zip(heights).collect();
    let chart = Chart::new(title, PlotKind::Bars, vec![line]);
    let more = json!({
        "n_bins": bins.counts.len(), "bin_edges": bins.edges, "counts": bins.counts,
        "n_points": data.len(),
    });
    chart.to_result(arguments, more)
}

/// Default bounds of a function plot, with the digits of the research registry.
#[expect(clippy::approx_constant, reason = "no more digits than the research registry has")]
const AROUND: f64 = 3.14159;

/// Runs the tool `plot_function` with its arguments.
pub(crate) fn plot_function(
    arguments: ToolArguments<'_>,
    run: &RunContext,
) -> Result<Answer, String> {
    let text = arguments.string_value("function")?.trim();
    let (low, high) = (arguments.f64_or("x_min", -AROUND)?, arguments.f64_or("x_max", AROUND)?);
    if !(low < high && (high - low).is_finite()) {
        return Err(format!("`x_min` is {low}, `x_max` is {high}; the first must be the lower"));
    }
    let known =
        "x; there are also sin, cos, exp, log, sqrt, tanh, sigmoid and gaussian by name alone";
    let slot = |name: &str| (name == "x").then_some(0);
    let program = compile_expression("function", expand_function_name(text), slot, known)?;
    run.check_cancelled()?;
    let mut stack = Vec::new();
    let look = |i: u32| {
        let x = low + (high - low) * f64::from(i) / f64::from(LOOKS);
        (x, program.evaluate_f64(&[x], &mut stack))
    };
    let mut line: Vec<(f64, f64)> = (0..=LOOKS).map(look).collect();
    let undefined = line.iter().filter(|point| !point.1.is_finite()).count();
    if undefined == line.len() {
        return Err(format!("`function` has no finite value from {low} to {high}"));
    }
    let cut = clip_poles(&mut line);
    let mut chart =
        Chart::new(&format!("y = {}", escape_for_message(text)), PlotKind::Line, vec![line]);
    chart.x = (low, high);
    if let Some(range) = cut {
        chart.y = range;
    }
    chart.to_result(arguments, json!({ "undefined": undefined, "clipped": cut.is_some() }))
}

/// Completes a bare function name to an expression in x.
fn expand_function_name(text: &str) -> &str {
    match text {
        "sin" => "sin(x)",
        "cos" => "cos(x)",
        "tan" => "tan(x)",
        "exp" => "exp(x)",
        "log" => "log(x)",
        "sqrt" => "sqrt(x)",
        "tanh" => "tanh(x)",
        "sigmoid" => "1 / (1 + exp(-x))",
        "gaussian" => "exp(-x^2 / 2)",
        _ => text,
    }
}

/// Interrupts a line with poles outside a range that shows its other values, since a pole would
/// flatten them. Returns that range if it was applied.
fn clip_poles(line: &mut [(f64, f64)]) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = line.iter().map(|point| point.1).filter(|y| y.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (interpolate_quantile(&values, 0.05), interpolate_quantile(&values, 0.95));
    let (least, most) = (interpolate_quantile(&values, 0.0), interpolate_quantile(&values, 1.0));
    let width = high - low;
    if most / 2.0 - least / 2.0 <= 10.0 * width || width <= 0.0 {
        return None;
    }
    let (least, most) = (least.max(low - width), most.min(high + width));
    for point in line.iter_mut() {
        if point.1 < least || point.1 > most {
            point.1 = f64::NAN;
        }
    }
    Some((least, most))
}

fn plot_kind(fields: ToolArguments<'_>) -> Result<PlotKind, String> {
    let kind = fields.one_of("plot_type", "line", &["line", "scatter"])?;
    Ok(if kind == "line" { PlotKind::Line } else { PlotKind::Scatter })
}

/// Parses `y`: a list of numbers, or several lists over the same `x`.
fn read_series(fields: ToolArguments<'_>) -> Result<Vec<Vec<(f64, f64)>>, String> {
    let x = fields.f64_list("x", 1..=POINTS)?;
    let y = fields.array_value("y")?;
    let many = y.first().is_some_and(Value::is_array);
    let lines: Vec<Vec<f64>> =
        if many { fields.f64_rows("y", LINES)? } else { vec![fields.f64_list("y", 1..=POINTS)?] };
    let total: usize = lines.iter().map(Vec::len).sum();
    if total > POINTS {
        return Err(format!("{total} points are too many; the maximum is {POINTS}"));
    }
    let joined = |y: Vec<f64>| {
        if y.len() == x.len() {
            return Ok(x.iter().copied().zip(y).collect());
        }
        let (xs, ys) = (x.len(), y.len());
        Err(format!("`x` has {xs} numbers, `y` has {ys}; they must be as many"))
    };
    lines.into_iter().map(joined).collect()
}

/// Parses colours: `#rrggbb` or a few names.
fn parse_colors(list: &[Value]) -> Result<Vec<(u8, u8, u8)>, String> {
    let one = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        let named = match text.to_ascii_lowercase().as_str() {
            "red" => Some((214, 39, 40)),
            "green" => Some((44, 160, 44)),
            "blue" => Some((31, 119, 180)),
            "orange" => Some((255, 127, 14)),
            "purple" => Some((148, 103, 189)),
            "black" => Some((0, 0, 0)),
            "gray" | "grey" => Some((127, 127, 127)),
            _ => None,
        };
        let hex = || {
            let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
            let part = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
            Some((part(0)?, part(2)?, part(4)?))
        };
        named.or_else(hex).ok_or_else(|| {
            let text = escape_for_message(text);
            format!(
                "`colors`: unknown colour `{text}`; write `#1f77b4`, red, green, blue, orange, \
                purple, gray or black"
            )
        })
    };
    let colours = list.iter().take(LINES).map(one).collect::<Result<Vec<_>, _>>()?;
    if colours.is_empty() {
        Err("`colors` is empty; omit it to use the defaults".into())
    } else {
        Ok(colours)
    }
}
