//! `csv_to_json`: converts the rows of a CSV text to JSON objects (RFC 4180).

mod csv_reader;

use std::borrow::Cow;
use std::collections::HashMap;

use tool::{CallArguments, Json};

use csv_reader::CsvCellReader;
use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

/// Largest number of digits of a decimal that becomes a number; a double preserves all of them.
const MAX_NUMBER_DIGITS: usize = 15;
/// Largest result, in bytes of JSON.
const MAX_JSON_BYTES: usize = 256 << 20;
/// Largest number of cells in a row.
const MAX_CELLS_PER_ROW: usize = 100_000;

pub(crate) fn build_tool(registry: &ManifestRegistry) -> Option<BuiltinTool> {
    Some(registry.find_tool("csv_to_json")?.with_blocking(CsvToJson))
}

#[derive(Debug)]
struct CsvToJson;

impl ToolFunction for CsvToJson {
    /// The text may be large, so rows are written while they are read, without a tree.
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let keys = ["csv_content", "delimiter", "has_header", "numbers"];
        let [text, delimiter, header, numbers] = args.as_json().pick(keys);
        let text = text.as_ref().and_then(Json::string_value).unwrap_or_default();
        let delimiter =
            delimiter.as_ref().and_then(Json::string_value).unwrap_or(Cow::Borrowed(","));
        let flag = |given: Option<Json>| given.is_none_or(|given| given.as_str() == "true");
        convert_csv(&text, delimiter_byte(&delimiter)?, flag(header), flag(numbers))
            .map(Json::from_trusted)
    }
}

/// Validates the delimiter, which must be one ASCII byte.
pub(super) fn delimiter_byte(delimiter: &str) -> Result<u8, String> {
    match delimiter.as_bytes() {
        [byte] if !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err(format!(
            "delimiter: `{}` is not allowed; use one ASCII character, such as `,`, but not a quote \
             or a line break",
            delimiter.escape_debug()
        )),
    }
}

fn convert_csv(text: &str, delimiter: u8, header: bool, numbers: bool) -> Result<String, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rows = CsvCellReader::new(text, delimiter);
    let mut columns = ColumnNames::default();
    if header && rows.next_row() {
        columns = ColumnNames::from_header(&mut rows)?;
    }
    let mut out = String::with_capacity(text.len() * 2);
    out.push('[');
    while rows.next_row() {
        out.push_str(if out.len() > 1 { ",{" } else { "{" });
        let mut at = 0;
        loop {
            out.push_str(columns.key_at(at)?);
            let (cell, more) = rows.next_cell();
            if numbers && is_number(cell) {
                out.push_str(cell);
            } else {
                json::write_quoted(&mut out, cell);
            }
            if out.len() > MAX_JSON_BYTES {
                let told = "csv_content: its rows have more than";
                return Err(format!("{told} {MAX_JSON_BYTES} bytes; give a part"));
            }
            if !more {
                break;
            }
            at += 1;
        }
        out.push('}');
    }
    out.push(']');
    Ok(out)
}

/// Column names, each encoded as an object key with its leading comma. Cells beyond the header get
/// generated names, so that none is lost.
#[derive(Default)]
struct ColumnNames {
    keys: Vec<String>,
    /// The next suffix for each repeated name.
    names: HashMap<String, usize>,
}

impl ColumnNames {
    /// Reads the names from the next row.
    fn from_header(header: &mut CsvCellReader<'_>) -> Result<Self, String> {
        let mut columns = Self::default();
        loop {
            let (name, more) = header.next_cell();
            columns.add_column(name)?;
            if !more {
                return Ok(columns);
            }
        }
    }

    fn key_at(&mut self, at: usize) -> Result<&str, String> {
        while self.keys.len() <= at {
            self.add_column("")?;
        }
        Ok(self.keys.get(at).map_or("", String::as_str))
    }

    /// Adds a name. A repeated name gets a number (`price_2`), an empty one becomes `col_0`.
    fn add_column(&mut self, name: &str) -> Result<(), String> {
        let at = self.keys.len();
        if at == MAX_CELLS_PER_ROW {
            return Err(format!("csv_content: a row has more than {MAX_CELLS_PER_ROW} cells"));
        }
        let mut free = if name.is_empty() { format!("col_{at}") } else { name.to_owned() };
        if let Some(mut number) = self.names.get(&free).copied() {
            let name = free;
            loop {
                free = format!("{name}_{number}");
                number += 1;
                if !self.names.contains_key(&free) {
                    break;
                }
            }
            self.names.insert(name, number);
        }
        let mut key = String::from(if at == 0 { "" } else { "," });
        json::write_quoted(&mut key, &free);
        key.push(':');
        self.keys.push(key);
        self.names.insert(free, 2);
        Ok(())
    }
}

/// Returns whether a cell is a number that JSON preserves exactly: a 64-bit integer, or a decimal
/// with no more digits than a double keeps.
fn is_number(cell: &str) -> bool {
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    // The first character rules out most cells.
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    if let Some((whole, _)) = digits.split_once('.') {
        let leads = whole.len() > 1 && whole.starts_with('0');
        if let Some(count) = decimal_digits(digits.as_bytes()) {
            return !leads && count <= MAX_NUMBER_DIGITS;
        }
        let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
        let few = mantissa.bytes().filter(u8::is_ascii_digit).count() <= MAX_NUMBER_DIGITS;
        let reads = serde_json::from_str::<f64>(cell).is_ok_and(f64::is_finite);
        return !leads && few && reads;
    }
    let leads = digits.len() > 1 && digits.starts_with('0');
    let whole = cell.parse::<i64>().is_ok() || cell.parse::<u64>().is_ok();
    whole && !leads && cell != "-0"
}

/// Counts the digits of a plain decimal; `None` for any other text.
fn decimal_digits(text: &[u8]) -> Option<usize> {
    let (mut points, mut last) = (0, b'.');
    for byte in text {
        points += usize::from(*byte == b'.');
        if !byte.is_ascii_digit() && *byte != b'.' {
            return None;
        }
        last = *byte;
    }
    (points == 1 && last != b'.').then_some(text.len() - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{convert_csv, is_number};

    fn rows(text: &str) -> String {
        convert_csv(text, b',', true, true).unwrap()
    }

    #[test]
    fn rows_become_objects_in_the_columns_order() {
        assert_eq!(
            rows("b,a\r\n1,x\r\n2.50,\"y, \"\"z\"\"\"\r\n"),
            r#"[{"b":1,"a":"x"},{"b":2.50,"a":"y, \"z\""}]"#
        );
        assert_eq!(
            convert_csv("1;2\n3;4", b';', false, true).unwrap(),
            r#"[{"col_0":1,"col_1":2},{"col_0":3,"col_1":4}]"#
        );
        assert_eq!(convert_csv("a\n1", b',', true, false).unwrap(), r#"[{"a":"1"}]"#);
        assert_eq!(
            (rows(""), rows("a,b\n"), rows("\u{feff}a\n1")),
            ("[]".into(), "[]".into(), r#"[{"a":1}]"#.into())
        );
    }

    #[test]
    fn nothing_is_lost_in_rows_that_do_not_fit_the_header() {
        assert_eq!(
            rows("a,a,,col_3\n1,2,3,4,5\n6\n"),
            r#"[{"a":1,"a_2":2,"col_2":3,"col_3":4,"col_4":5},{"a":6}]"#
        );
        assert_eq!(rows("a\n\"line\nbreak\"\n\n2"), r#"[{"a":"line\nbreak"},{"a":2}]"#);
    }

    #[test]
    fn a_row_without_end_is_refused_and_many_of_one_name_take_no_time() {
        let wide = |cells: usize| ",".repeat(cells - 1);
        assert!(
            convert_csv(&wide(100_001), b',', true, true).unwrap_err().contains("100000 cells")
        );
        assert!(
            convert_csv(&wide(100_001), b',', false, true).unwrap_err().contains("100000 cells")
        );
        let same = vec!["a"; 100_000].join(",");
        let told = convert_csv(&format!("{same}\n1{}", wide(100_000)), b',', true, true).unwrap();
        assert!(told.ends_with(r#","a_100000":""}]"#));
    }

    #[test]
    fn only_what_stays_the_same_becomes_a_number() {
        for number in
            ["0", "-7", "18446744073709551615", "0.5", "-0.25", "1.5e3", "123456789012.345"]
        {
            assert!(is_number(number), "{number}");
        }
        for text in [
            "",
            "007",
            "-0",
            "1e5",
            "+1",
            " 1",
            "1.",
            ".5",
            "00.5",
            "1.5e999",
            "NaN",
            "inf",
            "0x1f",
            "1_000",
            "18446744073709551616",
            "1234567890.1234567",
            "1.2.3",
            "-",
            "١",
        ] {
            assert!(!is_number(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_a_writer_writes_reads_back(cells in proptest::collection::vec(
            proptest::collection::vec("[^\u{feff}]{0,12}", 3), 1..6)) {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(["x", "y", "z"]).unwrap();
            for row in &cells {
                writer.write_record(row).unwrap();
            }
            let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
            let read: Vec<serde_json::Value> =
                serde_json::from_str(&convert_csv(&text, b',', true, false).unwrap()).unwrap();
            let wanted: Vec<_> = cells.iter()
                .map(|row| serde_json::json!({ "x": row[0], "y": row[1], "z": row[2] })).collect();
            prop_assert_eq!(read, wanted);
        }
    }
}
