//! A zero-copy CSV cell reader that matches the defaults of the crate `csv` (RFC 4180, rows of any
//! length, any line ending, empty lines skipped). Only cells with doubled quotes are copied.

/// Reads the cells of a text in order.
#[derive(Debug)]
pub(super) struct CsvCellReader<'t> {
    text: &'t str,
    position: usize,
    delimiter: u8,
    /// Buffer for a cell that differs from its source text.
    unquoted: String,
}

impl<'t> CsvCellReader<'t> {
    /// Creates a reader. `delimiter` is ASCII, and neither a quote nor a line ending.
    pub(super) fn new(text: &'t str, delimiter: u8) -> Self {
        Self { text, position: 0, delimiter, unquoted: String::new() }
    }

    /// Moves to the next row; returns whether there is one.
    pub(super) fn next_row(&mut self) -> bool {
        while let Some(b'\r' | b'\n') = self.peek_byte() {
            self.position += 1;
        }
        self.peek_byte().is_some()
    }

    /// Returns the next cell, and whether the row continues after it.
    pub(super) fn next_cell(&mut self) -> (&str, bool) {
        if self.peek_byte() != Some(b'"') {
            let cell = self.read_plain_cell();
            return (cell, self.skip_delimiter());
        }
        self.position += 1;
        let begin = self.position;
        let close = self.find_quote();
        self.position = close + 1;
        if self.is_cell_end() {
            let cell = self.text.get(begin..close).unwrap_or_default();
            return (cell, self.skip_delimiter());
        }
        self.unquoted.clear();
        self.read_mixed_cell(begin, close);
        let more = self.skip_delimiter();
        (&self.unquoted, more)
    }

    fn peek_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    /// Reads an unquoted cell.
    fn read_plain_cell(&mut self) -> &'t str {
        let rest = self.text.get(self.position..).unwrap_or_default();
        let end = memchr::memchr3(self.delimiter, b'\n', b'\r', rest.as_bytes());
        let cell = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        self.position += cell.len();
        cell
    }

    /// Returns the position of the next quote, or the end of the text.
    fn find_quote(&self) -> usize {
        let rest = self.text.as_bytes().get(self.position..).unwrap_or_default();
        self.position + memchr::memchr(b'"', rest).unwrap_or(rest.len())
    }

    fn is_cell_end(&self) -> bool {
        self.peek_byte().is_none_or(|byte| byte == self.delimiter || matches!(byte, b'\n' | b'\r'))
    }

    /// Skips the delimiter or line ending after a cell; returns whether the row continues.
    fn skip_delimiter(&mut self) -> bool {
        let more = self.peek_byte() == Some(self.delimiter);
        self.position += usize::from(self.peek_byte().is_some());
        more
    }

    /// Reads the rest of a quoted cell that contains a doubled quote or continues without quotes.
    fn read_mixed_cell(&mut self, mut begin: usize, mut close: usize) {
        loop {
            self.unquoted.push_str(self.text.get(begin..close).unwrap_or_default());
            if self.peek_byte() != Some(b'"') {
                if !self.is_cell_end() {
                    let rest = self.read_plain_cell();
                    self.unquoted.push_str(rest);
                }
                return;
            }
            // The second quote belongs to the cell.
            begin = self.position;
            self.position += 1;
            close = self.find_quote();
            self.position = (close + 1).min(self.text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use csv::ReaderBuilder;
    use proptest::prelude::*;

    use super::CsvCellReader;

    fn rows(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut all) = (CsvCellReader::new(text, b','), Vec::new());
        while rows.next_row() {
            let mut row = Vec::new();
            loop {
                let (cell, more) = rows.next_cell();
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
