//! Sixel encoder: DEC's terminal graphics, six pixel rows at a time.

use super::PixelSize;

/// Levels per channel of the colour cube that pixels are rounded to.
const EDGE: u8 = 6;

/// Encodes pixels as a complete escape sequence.
pub(super) fn encode_sixel(pixels: &[u8], size: PixelSize) -> String {
    let PixelSize { width, height } = size;
    let mut text = format!("\u{1b}Pq\"1;1;{width};{height}");
    let rounded: Vec<u8> = pixels.chunks_exact(3).map(round_color).collect();
    let mut used = [false; 216];
    for colour in &rounded {
        if let Some(used) = used.get_mut(usize::from(*colour)) {
            *used = true;
        }
    }
    let colours = || (0..216_u8).filter(|colour| used.get(usize::from(*colour)) == Some(&true));
    for colour in colours() {
        let part = |value: u8| u32::from(value) * 100 / u32::from(EDGE - 1);
        let (r, g, b) = (colour / 36, colour / 6 % 6, colour % 6);
        text.extend(["#", &format!("{colour};2;{};{};{}", part(r), part(g), part(b))]);
    }
    for top in (0..height).step_by(6) {
        for colour in colours() {
            if let Some(row) = encode_band(&rounded, size, top, colour) {
                text.extend(["#", &colour.to_string(), &row, "$"]);
            }
        }
        text.push('-');
    }
    text.push_str("\u{1b}\\");
    text
}

/// Encodes one colour of a six-row band with run lengths; `None` if it does not occur.
fn encode_band(
    pixels: &[u8],
    PixelSize { width, height }: PixelSize,
    top: usize,
    colour: u8,
) -> Option<String> {
    let mut text = String::new();
    let (mut last, mut run, mut seen) = ('?', 0_usize, false);
    let mut write = |sign: char, run: usize| match run {
        0 => {}
        1..=3 => text.extend(std::iter::repeat_n(sign, run)),
        _ => text.extend(["!", &run.to_string(), sign.encode_utf8(&mut [0; 4])]),
    };
    for x in 0..width {
        let bits = (0..6.min(height - top)).fold(0, |bits, row| {
            let same = pixels.get((top + row) * width + x) == Some(&colour);
            bits | (u8::from(same) << row)
        });
        seen |= bits > 0;
        let sign = char::from(63 + bits);
        if sign == last {
            run += 1;
        } else {
            write(last, run);
            (last, run) = (sign, 1);
        }
    }
    if last != '?' {
        write(last, run);
    }
    seen.then_some(text)
}

fn round_color(pixel: &[u8]) -> u8 {
    let part = |value: &u8| {
        u8::try_from((u32::from(*value) * u32::from(EDGE - 1) + 127) / 255).unwrap_or(0)
    };
    pixel.iter().fold(0, |colour, value| colour * EDGE + part(value))
}
