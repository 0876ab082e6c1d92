//! Text blocks: rectangles of characters with a baseline, and their composition.

/// Rows of one width.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    rows: Vec<Vec<char>>,
    width: usize,
    /// The row that lines up with its neighbours.
    base: usize,
}

impl Block {
    pub(super) fn of(text: &str) -> Self {
        let row: Vec<char> = text.chars().collect();
        Self { width: row.len(), rows: vec![row], base: 0 }
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

    pub(super) fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
        rows.collect::<Vec<_>>().join("\n")
    }

    /// One line of a sign, as wide as is asked.
    pub(super) fn bar(sign: char, width: usize) -> Self {
        Self { rows: vec![vec![sign; width]], width, base: 0 }
    }

    /// Its right neighbour on the same baseline.
    pub(super) fn beside(self, right: &Self) -> Self {
        if self.width == 0 {
            return right.clone();
        }
        let above = self.base.max(right.base);
        let below = (self.height() - self.base).max(right.height() - right.base);
        let (left, right) = (self.placed(above, below), right.clone().placed(above, below));
        let width = left.width + right.width;
        let join = |(mut a, b): (Vec<char>, Vec<char>)| {
            a.extend(b);
            a
        };
        let rows = left.rows.into_iter().zip(right.rows).map(join).collect();
        Self { rows, width, base: above }
    }

    /// With so many rows above the baseline, and so many from it on.
    fn placed(mut self, above: usize, below: usize) -> Self {
        let blank = vec![' '; self.width];
        let mut rows = vec![blank.clone(); above.saturating_sub(self.base)];
        rows.append(&mut self.rows);
        rows.resize(above + below, blank);
        Self { rows, base: above, ..self }
    }

    /// Blocks below each other, each in the middle; the baseline is that of the `base`-th.
    pub(super) fn stacked(blocks: &[Self], base: usize) -> Self {
        let width = blocks.iter().map(|block| block.width).max().unwrap_or(0);
        let mut all = Self { width, ..Self::default() };
        for (index, block) in blocks.iter().enumerate() {
            if index == base {
                all.base = all.rows.len() + block.base;
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

    /// In the middle of at least so many columns.
    pub(super) fn widened(self, width: usize) -> Self {
        let more = width.saturating_sub(self.width);
        let (before, after) = (more / 2, more - more / 2);
        let wide = |row: Vec<char>| {
            let mut all = vec![' '; before];
            all.extend(row);
            all.resize(all.len() + after, ' ');
            all
        };
        let rows = self.rows.into_iter().map(wide).collect();
        Self { rows, width: self.width + more, base: self.base }
    }

    /// The baseline of the middle row.
    pub(super) fn centred(self) -> Self {
        let base = self.height() / 2;
        Self { base, ..self }
    }

    /// What stands above the upper right, and below the lower right.
    pub(super) fn scripted(self, above: Option<&Self>, below: Option<&Self>) -> Self {
        let (up, down) = (above.map_or(0, Self::height), below.map_or(0, Self::height));
        let wide = above.map_or(0, Self::width).max(below.map_or(0, Self::width));
        let (base, middle) = (self.base + up, self.height());
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
        Self { rows, width: self.width + wide, base }
    }

    /// Inside of brackets that are as high as it is.
    pub(super) fn fenced(self, open: &str, close: &str, ascii: bool) -> Self {
        let (height, base) = (self.height(), self.base);
        let side = |sign: &str, left: bool| {
            let column = fence(sign, height, left, ascii);
            let width = column.first().map_or(0, |row| row.chars().count());
            let rows = column.iter().map(|row| row.chars().collect()).collect();
            Self { rows, width, base }
        };
        let (left, right) = (side(open, true), side(close, false));
        if left.is_empty() { self.beside(&right) } else { left.beside(&self).beside(&right) }
    }
}

/// A bracket, row by row.
fn fence(sign: &str, height: usize, left: bool, ascii: bool) -> Vec<String> {
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
