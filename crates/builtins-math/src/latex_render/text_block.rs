//! Text blocks: rectangles of characters with a baseline, and their composition.

/// Rectangle of characters with a baseline.
#[derive(Debug, Clone, Default)]
pub(super) struct TextBlock {
    rows: Vec<Vec<char>>,
    width: usize,
    /// Row that aligns with its neighbours.
    baseline: usize,
}

impl TextBlock {
    pub(super) fn from_text(text: &str) -> Self {
        let row: Vec<char> = text.chars().collect();
        Self { width: row.len(), rows: vec![row], baseline: 0 }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn height(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.width == 0
    }

    pub(super) fn to_text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
        rows.collect::<Vec<_>>().join("\n")
    }

    /// Creates one row of `sign`, repeated to this width.
    pub(super) fn horizontal_rule(sign: char, width: usize) -> Self {
        Self { rows: vec![vec![sign; width]], width, baseline: 0 }
    }

    /// Appends a block at the right, on the same baseline.
    pub(super) fn append_right(self, right: &Self) -> Self {
        if self.width == 0 {
            return right.clone();
        }
        let above = self.baseline.max(right.baseline);
        let below = (self.height() - self.baseline).max(right.height() - right.baseline);
        let (left, right) = (self.pad_rows(above, below), right.clone().pad_rows(above, below));
        let width = left.width + right.width;
        let join = |(mut a, b): (Vec<char>, Vec<char>)| {
            a.extend(b);
            a
        };
        let rows = left.rows.into_iter().zip(right.rows).map(join).collect();
        Self { rows, width, baseline: above }
    }

    /// Pads to this many rows above the baseline, and from it on.
    fn pad_rows(mut self, above: usize, below: usize) -> Self {
        let blank = vec![' '; self.width];
        let mut rows = vec![blank.clone(); above.saturating_sub(self.baseline)];
        rows.append(&mut self.rows);
        rows.resize(above + below, blank);
        Self { rows, baseline: above, ..self }
    }

    /// Stacks blocks centred below each other. The baseline is that of block number `base`.
    pub(super) fn stack_blocks(blocks: &[Self], base: usize) -> Self {
        let width = blocks.iter().map(|block| block.width).max().unwrap_or(0);
        let mut all = Self { width, ..Self::default() };
        for (index, block) in blocks.iter().enumerate() {
            if index == base {
                all.baseline = all.rows.len() + block.baseline;
            }
            let before = (width - block.width) / 2;
            for row in &block.rows {
                let mut wide = vec![' '; before];
                wide.extend(row);
                wide.resize(width, ' ');
                all.rows.push(wide);
            }
        }
        all
    }

    /// Centres the block in at least this many columns.
    pub(super) fn pad_columns(self, width: usize) -> Self {
        let more = width.saturating_sub(self.width);
        let (before, after) = (more / 2, more - more / 2);
        let wide = |row: Vec<char>| {
            let mut all = vec![' '; before];
            all.extend(row);
            all.resize(all.len() + after, ' ');
            all
        };
        let rows = self.rows.into_iter().map(wide).collect();
        Self { rows, width: self.width + more, baseline: self.baseline }
    }

    /// Moves the baseline to the middle row.
    pub(super) fn center_baseline(self) -> Self {
        let base = self.height() / 2;
        Self { baseline: base, ..self }
    }

    /// Adds a superscript at the upper right and a subscript at the lower right.
    pub(super) fn with_scripts(self, above: Option<&Self>, below: Option<&Self>) -> Self {
        let (up, down) = (above.map_or(0, Self::height), below.map_or(0, Self::height));
        let wide = above.map_or(0, Self::width).max(below.map_or(0, Self::width));
        let (base, middle) = (self.baseline + up, self.height());
        let mut rows = Vec::with_capacity(up + middle + down);
        let mut push = |row: Option<&Vec<char>>, left: Option<&Vec<char>>| {
            let mut all = left.cloned().unwrap_or_else(|| vec![' '; self.width]);
            all.extend(row.into_iter().flatten());
            all.resize(self.width + wide, ' ');
            rows.push(all);
        };
        above.iter().flat_map(|block| &block.rows).for_each(|row| push(Some(row), None));
        self.rows.iter().for_each(|row| push(None, Some(row)));
        below.iter().flat_map(|block| &block.rows).for_each(|row| push(Some(row), None));
        Self { rows, width: self.width + wide, baseline: base }
    }

    /// Encloses the block in brackets of its height.
    pub(super) fn with_brackets(self, open: &str, close: &str, ascii: bool) -> Self {
        let (height, base) = (self.height(), self.baseline);
        let side = |sign: &str, left: bool| {
            let column = bracket_rows(sign, height, left, ascii);
            let width = column.first().map_or(0, |row| row.chars().count());
            let rows = column.iter().map(|row| row.chars().collect()).collect();
            Self { rows, width, baseline: base }
        };
        let (left, right) = (side(open, true), side(close, false));
        if left.is_empty() {
            self.append_right(&right)
        } else {
            left.append_right(&self).append_right(&right)
        }
    }
}

/// Returns the rows of a bracket.
fn bracket_rows(sign: &str, height: usize, left: bool, ascii: bool) -> Vec<String> {
    if sign.is_empty() || sign == "." {
        return vec![String::new(); height];
    }
    if height < 2 || ascii {
        let tall = match (sign, ascii) {
            ("⟨", true) => "<",
            ("⟩", true) => ">",
            _ => sign,
        };
        return vec![tall.to_owned(); height];
    }
    let parts = match sign {
        "(" => ['⎛', '⎜', '⎝'],
        ")" => ['⎞', '⎟', '⎠'],
        "[" => ['⎡', '⎢', '⎣'],
        "]" => ['⎤', '⎥', '⎦'],
        "{" | "}" if height > 2 => {
            let middle = if left { '⎨' } else { '⎬' };
            let (top, line, bottom) =
                if left { ('⎧', '⎪', '⎩') } else { ('⎫', '⎪', '⎭') };
            let row = |i: usize| match i {
                0 => top,
                _ if i + 1 == height => bottom,
                _ if i == height / 2 => middle,
                _ => line,
            };
            return (0..height).map(|i| row(i).to_string()).collect();
        }
        "|" => ['│', '│', '│'],
        "‖" => ['‖', '‖', '‖'],
        other => return vec![other.to_owned(); height],
    };
    let [top, middle, bottom] = parts;
    let row = |i: usize| match i {
        0 => top,
        _ if i + 1 == height => bottom,
        _ => middle,
    };
    (0..height).map(|i| row(i).to_string()).collect()
}
