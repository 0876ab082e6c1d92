use std::path::Path;

use super::{Fault, Place, window};

#[test]
fn a_fault_is_drawn_with_its_line_and_a_caret() {
    let text = "version: 1\nsources:\n  - nmae: local\n";
    let fault = Fault::new(Path::new("t.yaml"), Place { line: 3, column: 5 }, "unknown key `nmae`");
    assert_eq!(
        fault.fix("did you mean `name`?").excerpt(text).to_string(),
        "t.yaml:3:5: unknown key `nmae`\n  |\n3 |   - nmae: local\n  |     ^\n  = did you mean `name`?"
    );
}

#[test]
fn a_long_line_is_cut_around_its_column() {
    let line = "a".repeat(300) + "X" + &"b".repeat(300);
    let (shown, before) = window(&line, 301);
    assert_eq!(shown.chars().nth(before), Some('X'));
    assert!(shown.chars().count() <= 102 && shown.starts_with('…') && shown.ends_with('…'));
    assert_eq!(window("short", 3), ("short".to_owned(), 2));
}

#[test]
fn a_line_cannot_move_the_cursor_nor_turn_its_direction() {
    assert_eq!(window("a\tb\u{1b}[2J\u{202e}c", 1).0, "a b [2J c");
}

#[test]
fn a_line_with_a_secret_is_not_drawn() {
    let text = "credential: { bearer: hunter2 }\n";
    let fault = Fault::new(Path::new("t.yaml"), Place::TOP, "bad").excerpt(text);
    assert_eq!(fault.to_string(), "t.yaml:1:1: bad");
}
