use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::{OutputFormat, Printer, format_table, sanitize_line, sanitize_text};
use crate::command_error::{CommandError, ExitStatus};

#[test]
fn columns_are_aligned() {
    let rows = [["a".to_owned(), "ünï".to_owned()], ["long".to_owned(), String::new()]];
    assert_eq!(format_table(["NAME", "X"], &rows), "NAME  X\na     ünï\nlong");
    assert_eq!(format_table(["NAME"], &[]), "NAME");
}

#[test]
fn text_from_outside_cannot_play_with_the_terminal() {
    let evil = "a\u{1b}[2Jb\r\u{9b}31m\u{202e}c\u{200b}\nd\te";
    assert_eq!(sanitize_text(evil), "a\u{fffd}[2Jb\u{fffd}\u{fffd}31m\u{fffd}c\u{fffd}\nd\te");
    assert_eq!(sanitize_text("a\u{ad}\u{2028}\u{e0041}b"), "a\u{fffd}\u{fffd}\u{fffd}b");
    assert_eq!(sanitize_line("one\ttwo\nthree", 80), "one two");
    assert_eq!(sanitize_line("abcdef", 4), "abc…");
}

struct Broken(io::ErrorKind);
impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure_and_a_full_disk_is() {
    let write = |kind| {
        Printer::with_streams(OutputFormat::Text, Broken(kind), io::sink())
            .print_result(&1, || "x".to_owned())
    };
    assert!(write(io::ErrorKind::BrokenPipe).is_ok());
    assert_eq!(write(io::ErrorKind::StorageFull).unwrap_err().exit_status(), ExitStatus::Failed);
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);
impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn failures_are_written_in_the_chosen_form() {
    let failure = CommandError::from_error_code("unknown_tool", "unknown tool `x`")
        .with_help("list them")
        .with_call_id(Some("c1"));
    let written = |output| {
        let kept = Kept::default();
        Printer::with_streams(output, io::sink(), kept.clone()).print_error(&failure);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(
        written(OutputFormat::Text),
        "error[unknown_tool]: unknown tool `x`\n  call c1\n  help: list them\n"
    );
    assert_eq!(written(OutputFormat::Table), written(OutputFormat::Text));
    let yaml: serde_json::Value = serde_saphyr::from_str(&written(OutputFormat::Yaml)).unwrap();
    assert_eq!(yaml["error"]["fix"], "list them");
    let json: serde_json::Value = serde_json::from_str(&written(OutputFormat::Json)).unwrap();
    assert_eq!(json["error"]["code"], "unknown_tool");
    assert_eq!(json["error"]["call_id"], "c1");
    assert_eq!(failure.exit_status(), ExitStatus::Refused);
}
