//! A zero-copy CSV cell reader that matches the defaults of the crate `csv` (RFC 4180, rows of any
//! length, any line ending, empty lines skipped). Only cells with doubled quotes are copied.

/// Reads the cells of a text in order.
#[derive(Debug)]
pub(super) struct Rows<'t> {
    text: &'t str,
    at: usize,
    delimiter: u8,
    /// Buffer for a cell that differs from its source text.
    room: String,
}

impl<'t> Rows<'t> {
    /// Creates a reader. `delimiter` is ASCII, and neither a quote nor a line ending.
    pub(super) fn of(text: &'t str, delimiter: u8) -> Self {
        Self { text, at: 0, delimiter, room: String::new() }
    }

    /// Moves to the next row; returns whether there is one.
    pub(super) fn more(&mut self) -> bool {
        while let Some(b'\r' | b'\n') = self.next() {
            self.at += 1;
        }
        self.next().is_some()
    }

    /// Returns the next cell, and whether the row continues after it.
    pub(super) fn cell(&mut self) -> (&str, bool) {
        if self.next() != Some(b'"') {
            let cell = self.plain();
            return (cell, self.goes_on());
        }
        self.at += 1;
        let begin = self.at;
        let close = self.quote();
        self.at = close + 1;
        if self.ends() {
            let cell = self.text.get(begin..close).unwrap_or_default();
            return (cell, self.goes_on());
        }
        self.room.clear();
        self.odd(begin, close);
        let more = self.goes_on();
        (&self.room, more)
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reads an unquoted cell.
    fn plain(&mut self) -> &'t str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = memchr::memchr3(self.delimiter, b'\n', b'\r', rest.as_bytes());
        let cell = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        self.at += cell.len();
        cell
    }

    /// Returns the position of the next quote, or the end of the text.
    fn quote(&self) -> usize {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at + memchr::memchr(b'"', rest).unwrap_or(rest.len())
    }

    fn ends(&self) -> bool {
        self.next().is_none_or(|byte| byte == self.delimiter || matches!(byte, b'\n' | b'\r'))
    }

    /// Skips the delimiter or line ending after a cell; returns whether the row continues.
    fn goes_on(&mut self) -> bool {
        let more = self.next() == Some(self.delimiter);
        self.at += usize::from(self.next().is_some());
        more
    }

    /// Reads the rest of a quoted cell that contains a doubled quote or continues without quotes.
    fn odd(&mut self, mut begin: usize, mut close: usize) {
        loop {
            self.room.push_str(self.text.get(begin..close).unwrap_or_default());
            if self.next() != Some(b'"') {
                if !self.ends() {
                    let rest = self.plain();
                    self.room.push_str(rest);
                }
                return;
            }
            // The second quote belongs to the cell.
            begin = self.at;
            self.at += 1;
            close = self.quote();
            self.at = (close + 1).min(self.text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use csv::ReaderBuilder;
    use proptest::prelude::*;

    use super::Rows;

    fn rows(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut all) = (Rows::of(text, b','), Vec::new());
        while rows.more() {
            let mut row = Vec::new();
            loop {
                let (cell, more) = rows.cell();
                row.push(cell.to_owned());
                if !more {
                    break;
                }
            }
            all.push(row);
        }
        all
    }

    fn by_the_crate(text: &str) -> Vec<Vec<String>> {
        let mut reader =
            ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        let row = |row: csv::StringRecord| row.iter().map(str::to_owned).collect();
        reader.records().map(Result::unwrap).map(row).collect()
    }

    #[test]
    fn odd_texts_are_read_as_the_crate_reads_them() {
        for text in [
            "",
            "\n\n",
            ",",
            "a,",
            "a,\n",
            "\"\"",
            "\"",
            "\"a",
            "\"a\"\"",
            "\"a\"b\"c,d",
            "a\"b\"",
            "a\rb\r\nc",
            "\"a\"\"b\"c\"\"\n",
            "\"\"\"\"",
            "\"\r\n\",x\n\n,\n",
            " \n",
            "\"é\"\"\",ü",
            "\"a\"\n\"b\"",
        ] {
            assert_eq!(rows(text), by_the_crate(text), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn any_text_is_read_as_the_crate_reads_it(text in "[a\",\n\r é;]{0,24}") {
            prop_assert_eq!(rows(&text), by_the_crate(&text));
        }
    }
}
