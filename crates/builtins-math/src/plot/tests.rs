use std::sync::OnceLock;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::tool_execution::tests::{answer, endless, fault, outcome};

/// Writes an image to the folder of `TOOLKEEP_PICTURES`, if it is set.
fn shown(name: &str, bytes: &[u8]) {
    static FOLDER: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| std::env::var_os("TOOLKEEP_PICTURES").map(Into::into));
    if let Some(folder) = folder {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

fn wave() -> (Vec<f64>, Vec<f64>) {
    (0..200).map(|i| f64::from(i) / 20.0).map(|x| (x, x.sin() * 1_000.0)).unzip()
}

/// Charts of every kind: tool, arguments, name.
fn gallery() -> Vec<(&'static str, Value, &'static str)> {
    let (x, y) = wave();
    let other: Vec<f64> = y.iter().map(|y| y / 2.0 + 300.0).collect();
    let bell: Vec<f64> = (1..500).map(|i| (f64::from(i) / 500.0 * 3.1 - 1.5).tan()).collect();
    vec![
        ("plot_braille", json!({ "x": x, "y": y, "title": "A wave of a thousand" }), "line"),
        ("plot_braille", json!({ "x": x, "y": y, "plot_type": "scatter" }), "scatter"),
        (
            "plot_braille",
            json!({ "x": x, "y": [y, other], "title": "Two lines, and a title that is much too long to be shown above a chart of eight hundred pixels" }),
            "two",
        ),
        (
            "plot_braille",
            json!({ "x": [1e-9, 2e-9, 3e-9], "y": [1.5e12, 1.25e12, 3e12], "title": "Small and large" }),
            "small",
        ),
        (
            "plot_braille",
            json!({ "x": [1_000_000, 1_000_001], "y": [-123_456.75, -123_456.25], "title": "Far from zero" }),
            "far",
        ),
        ("plot_function", json!({ "function": "tan(x)", "x_min": -5, "x_max": 5 }), "tan"),
        ("plot_function", json!({ "function": "sigmoid", "x_min": -8, "x_max": 8 }), "sigmoid"),
        (
            "plot_function",
            json!({ "function": "sqrt(x) * sin(5 * x)", "x_min": -1, "x_max": 4 }),
            "roots",
        ),
        ("histogram", json!({ "data": bell, "bins": 30, "title": "Heavy tails" }), "histogram"),
        ("histogram", json!({ "data": [1, 2, 2, 3, 3, 3, 4, 4, 5], "bins": 5 }), "few"),
    ]
}

#[test]
fn text_fits_its_columns_and_rows() {
    for (tool, args, name) in gallery() {
        for (width, height) in [(80, 20), (40, 10), (24, 6)] {
            let mut args = args.clone();
            args["width"] = json!(width);
            args["height"] = json!(height);
            let found = answer(tool, &args);
            let plot = found["plot"].as_str().unwrap();
            shown(&format!("{name}-{width}.txt"), plot.as_bytes());
            let lines: Vec<&str> = plot.lines().collect();
            assert_eq!(lines.len(), height, "{name}\n{plot}");
            let longest = lines.iter().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width, "{name}: {longest}\n{plot}");
            assert!(lines[lines.len() - 2].ends_with('─'), "{plot}");
            let dots = plot.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count();
            assert!(dots > 0, "{plot}");
        }
    }
}

#[test]
fn a_line_is_where_its_points_are() {
    let args = json!({ "x": [0, 1], "y": [0, 1], "title": "", "width": 24, "height": 6 });
    let found = answer("plot_braille", &args);
    let plot = found["plot"].as_str().unwrap();
    let lines: Vec<&str> = plot.lines().collect();
    // From the lower left to the upper right, and nowhere else.
    assert!(
        lines[0].starts_with("1┤⠀") && lines[0].ends_with(['⠉', '⠁', '⠊', '⠋', '⠔', '⠒']),
        "{plot}"
    );
    assert!(lines[3].starts_with("0┤⡠") || lines[3].starts_with("0┤⣀"), "{plot}");
    assert_eq!((&found["x_range"], &found["y_range"]), (&json!([0.0, 1.0]), &json!([0.0, 1.0])));
    assert!(plot.ends_with('1') && lines[5].trim_start().starts_with('0'), "{plot}");
}

#[test]
fn pictures_are_what_they_say_and_show_every_label() {
    for (tool, args, name) in gallery() {
        for format in ["png", "svg"] {
            let mut args = args.clone();
            args["format"] = json!(format);
            let found = outcome(tool, &args, &endless()).unwrap();
            let picture = found.picture.unwrap();
            shown(&format!("{name}.{format}"), &picture.bytes);
            assert_eq!(found.value["dimensions"], json!({ "width": 800, "height": 400 }));
            assert!(found.value["plot"].is_string(), "the text stands beside it");
            if format == "png" {
                assert_eq!(
                    (picture.media_type, &picture.bytes[..4]),
                    ("image/png", &b"\x89PNG"[..])
                );
                edges_are_white(&picture.bytes, name);
            } else {
                let text = std::str::from_utf8(&picture.bytes).unwrap();
                assert!(text.starts_with("<svg width=\"800\" height=\"400\""), "{text}");
                assert!(text.matches("<text").count() >= 5, "{name}");
            }
        }
    }
}

/// Checks that no drawing reaches the image's edge, so that no label is cut off.
fn edges_are_white(bytes: &[u8], name: &str) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let (width, height) = (info.width as usize, info.height as usize);
    let white = |x: usize, y: usize| pixels[(y * width + x) * 3..][..3] == [255, 255, 255];
    let rows = (0..height)
        .all(|y| white(0, y) && white(1, y) && white(width - 1, y) && white(width - 2, y));
    let columns = (0..width)
        .all(|x| white(x, 0) && white(x, 1) && white(x, height - 1) && white(x, height - 2));
    assert!(rows && columns, "{name} reaches the edge");
    let drawn = (0..height)
        .flat_map(|y| (0..width).map(move |x| (x, y)))
        .filter(|(x, y)| !white(*x, *y))
        .count();
    assert!(drawn > 1_000, "{name} is empty");
}

#[test]
fn a_title_is_text_and_nothing_else() {
    let args =
        json!({ "x": [0, 1], "y": [0, 1], "title": "<script>alert(1)</script>&", "format": "svg" });
    let picture = outcome("plot_braille", &args, &endless()).unwrap().picture.unwrap();
    let text = std::str::from_utf8(&picture.bytes).unwrap();
    assert!(!text.contains("<script") && text.contains("&lt;script&gt;"), "{text}");
}

#[test]
fn sixels_are_read_back_as_the_pixels_they_were() {
    let (x, y) = wave();
    let args = json!({ "x": x, "y": y, "width": 320, "height": 200, "colors": ["#ff0000"] });
    let found = answer("plot_sixel", &args);
    assert_eq!(
        (&found["format"], &found["encoding"], &found["n_points"]),
        (&json!("sixel"), &json!("base64"), &json!(200))
    );
    let text =
        base64::engine::general_purpose::STANDARD.decode(found["sixel"].as_str().unwrap()).unwrap();
    shown("wave.six", &text);
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("\u{1b}Pq\"1;1;320;200#") && text.ends_with("-\u{1b}\\"));
    let red = painted(&text, (320, 200), "100;0;0");
    assert!((200..20_000).contains(&red), "{red}");
    assert_eq!(painted(&text, (320, 200), ""), 320 * 200, "each pixel is painted once");
    let args = json!({ "x": [1], "y": [1], "format": "braille" });
    assert!(answer("plot_sixel", &args)["plot"].is_string());
}

/// Counts the pixels that a colour of this definition paints; all if there is none.
fn painted(text: &str, (width, height): (usize, usize), colour: &str) -> usize {
    let (_, body) = text.split_once('#').unwrap();
    let body = format!("#{}", body.trim_end_matches("\u{1b}\\"));
    let mut painted = 0;
    let (mut row, mut column, mut number, mut wanted) = (0, 0, String::new(), Vec::new());
    let mut chars = body.chars().peekable();
    let mut counts = false;
    while let Some(c) = chars.next() {
        let mut digits = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            number.clear();
            while let Some(c) = chars.next_if(|c| c.is_ascii_digit() || *c == ';') {
                number.push(c);
            }
            number.clone()
        };
        let mut sign = |c: char, run: usize| {
            let bits = c as usize - 63;
            let inside = (0..6).filter(|bit| bits >> bit & 1 == 1 && row + bit < height).count();
            assert!(column + run <= width);
            column += run;
            if counts {
                painted += inside * run;
            }
        };
        match c {
            '#' => {
                let found = digits(&mut chars);
                if let Some((number, definition)) = found.split_once(";2;") {
                    if definition == colour || colour.is_empty() {
                        wanted.push(number.to_owned());
                    }
                } else {
                    counts = wanted.contains(&found);
                }
            }
            '!' => {
                let run = digits(&mut chars).parse().unwrap();
                sign(chars.next().unwrap(), run);
            }
            '$' => column = 0,
            '-' => (row, column) = (row + 6, 0),
            _ => sign(c, 1),
        }
    }
    painted
}

#[test]
fn what_cannot_be_drawn_is_named() {
    for (tool, args, expected) in [
        (
            "plot_braille",
            json!({ "x": [1, 2], "y": [1] }),
            "`x` has 2 numbers, `y` has 1; they must be as many",
        ),
        (
            "plot_braille",
            json!({ "x": [], "y": [] }),
            "`x` has 0 numbers; it must have from 1 to 50000",
        ),
        (
            "plot_braille",
            json!({ "x": [1], "y": [1], "width": 10 }),
            "`width` is 10; it must be a whole number from 24 to 400",
        ),
        (
            "plot_function",
            json!({ "function": "log(-1 - x^2)" }),
            "`function` has no finite value from",
        ),
        ("plot_function", json!({ "function": "sin(y)" }), "unknown name `y`"),
        (
            "plot_function",
            json!({ "function": "x", "x_min": 1, "x_max": 1 }),
            "the first must be the lower",
        ),
        ("histogram", json!({ "data": [] }), "`data` has 0 numbers"),
        (
            "plot_sixel",
            json!({ "x": [1], "y": [1], "colors": ["reddish"] }),
            "unknown colour `reddish`",
        ),
    ] {
        let error = fault(tool, &args);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_pole_does_not_flatten_all_else() {
    let found = answer("plot_function", &json!({ "function": "1 / x", "x_min": -1, "x_max": 1 }));
    assert_eq!(found["clipped"], true);
    assert!(found["y_range"][1].as_f64().unwrap() < 100.0, "{}", found["y_range"]);
    let found = answer("plot_function", &json!({ "function": "exp", "x_min": -2, "x_max": 2 }));
    assert_eq!((&found["clipped"], &found["undefined"]), (&json!(false), &json!(0)));
}
