use std::path::Path;

use super::{ConfigError, ConfigPosition, excerpt_around};

#[test]
fn a_fault_is_drawn_with_its_line_and_a_caret() {
    let text = "version: 1\nsources:\n  - nmae: local\n";
    let error = ConfigError::new(
        Path::new("t.yaml"),
        ConfigPosition { line: 3, column: 5 },
        "unknown key `nmae`",
    );
    assert_eq!(
        error.with_help("did you mean `name`?").with_excerpt(text).to_string(),
        "t.yaml:3:5: unknown key `nmae`\n  |\n3 |   - nmae: local\n  |     ^\n  help: did you mean `name`?"
    );
}

#[test]
fn a_long_line_is_cut_around_its_column() {
    let line = "a".repeat(300) + "X" + &"b".repeat(300);
    let (shown, before) = excerpt_around(&line, 301);
    assert_eq!(shown.chars().nth(before), Some('X'));
    assert!(shown.chars().count() <= 102 && shown.starts_with('…') && shown.ends_with('…'));
    assert_eq!(excerpt_around("short", 3), ("short".to_owned(), 2));
}

#[test]
fn a_line_cannot_move_the_cursor_nor_turn_its_direction() {
    assert_eq!(excerpt_around("a\tb\u{1b}[2J\u{202e}c\u{200b}d", 1).0, "a b [2J c d");
}

#[test]
fn a_line_with_a_secret_is_not_drawn() {
    let text = "credential: { bearer: hunter2 }\n";
    let error =
        ConfigError::new(Path::new("t.yaml"), ConfigPosition::START, "bad").with_excerpt(text);
    assert_eq!(error.to_string(), "t.yaml:1:1: bad");
}
