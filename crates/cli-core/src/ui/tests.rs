use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::{Output, Ui, clean, line, table};
use crate::failure::{Exit, Failure};

#[test]
fn columns_are_aligned() {
    let rows = [["a".to_owned(), "ünï".to_owned()], ["long".to_owned(), String::new()]];
    assert_eq!(table(["NAME", "X"], &rows), "NAME  X\na     ünï\nlong");
    assert_eq!(table(["NAME"], &[]), "NAME");
}

#[test]
fn text_from_outside_cannot_play_with_the_terminal() {
    let evil = "a\u{1b}[2Jb\r\u{9b}31m\u{202e}c\u{200b}\nd\te";
    assert_eq!(clean(evil), "a\u{fffd}[2Jb\u{fffd}\u{fffd}31m\u{fffd}c\u{fffd}\nd\te");
    assert_eq!(line("one\ttwo\nthree", 80), "one two");
    assert_eq!(line("abcdef", 4), "abc…");
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
    let write =
        |kind| Ui::onto(Output::Text, Broken(kind), io::sink()).answer(&1, || "x".to_owned());
    assert!(write(io::ErrorKind::BrokenPipe).is_ok());
    assert_eq!(write(io::ErrorKind::StorageFull).unwrap_err().exit(), Exit::Failed);
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
    let failure =
        Failure::of_code("unknown_tool", "unknown tool `x`").fix("list them").call(Some("c1"));
    let written = |output| {
        let kept = Kept::default();
        Ui::onto(output, io::sink(), kept.clone()).failure(&failure);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(
        written(Output::Text),
        "error[unknown_tool]: unknown tool `x`\n  call c1\n  = list them\n"
    );
    assert_eq!(written(Output::Table), written(Output::Text));
    let yaml: serde_json::Value = serde_saphyr::from_str(&written(Output::Yaml)).unwrap();
    assert_eq!(yaml["error"]["fix"], "list them");
    let json: serde_json::Value = serde_json::from_str(&written(Output::Json)).unwrap();
    assert_eq!(json["error"]["code"], "unknown_tool");
    assert_eq!(json["error"]["call_id"], "c1");
    assert_eq!(failure.exit(), Exit::Refused);
}
