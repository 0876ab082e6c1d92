use std::fmt::Write as _;
use std::path::Path;

use super::parse_document;
use crate::yaml_tree::{NodeKind, YamlNode};

fn read(text: &str) -> YamlNode {
    parse_document(Path::new("t.yaml"), text).unwrap()
}

fn error(text: &str) -> String {
    parse_document(Path::new("t.yaml"), text).unwrap_err().to_string()
}

fn scalar<'a>(node: &'a YamlNode, key: &str) -> (&'a str, bool, usize, usize) {
    let node = node.find_value(key).unwrap();
    let NodeKind::Scalar(scalar) = &node.kind else { panic!("{node:?}") };
    (&scalar.text, scalar.is_plain, node.position.line, node.position.column)
}

#[test]
fn scalars_keep_their_text_and_their_place() {
    let node =
        read("a: 0x10\nb: 1.50\nc: \"yes\"\nü: 'x'\ne: yes\nf: |\n  two\n  lines\ng: true\n");
    assert_eq!(scalar(&node, "a"), ("0x10", true, 1, 4));
    assert_eq!(scalar(&node, "b"), ("1.50", true, 2, 4));
    assert_eq!(scalar(&node, "c"), ("yes", false, 3, 4));
    assert_eq!(scalar(&node, "ü"), ("x", false, 4, 4));
    assert_eq!(scalar(&node, "e"), ("yes", true, 5, 4));
    assert_eq!(scalar(&node, "f").0, "two\nlines\n");
    assert_eq!(scalar(&node, "g"), ("true", true, 9, 4));
}

#[test]
fn an_alias_stands_where_it_is_used() {
    let node = read("base: &b { p: 1 }\nuse: *b\nmerged:\n  <<: *b\n  q: 2\n");
    assert_eq!(node.find_value("use").unwrap().position.line, 2);
    assert_eq!(scalar(node.find_value("merged").unwrap(), "p").0, "1");
}

#[test]
fn json_is_read_with_its_places() {
    let node = read("{\"a\":\t\"x\\/y\\ud83d\\ude00\",\n\t\"b\": [1,],}");
    assert_eq!(scalar(&node, "a"), ("x/y😀", false, 1, 7));
    assert_eq!(node.find_value("b").unwrap().position.line, 2);
}

#[test]
fn syntax_faults_have_their_place() {
    assert_eq!(
        error("version: 1\nsources: [\nlisten: x\n"),
        "t.yaml:2:10: unclosed bracket '['\n  |\n2 | sources: [\n  |          ^"
    );
    assert!(error("a: 1\nb: 2\na: 3\n").starts_with("t.yaml:3:1: the key `a` occurs twice"));
    assert!(error("a: *none\n").starts_with("t.yaml:1:4: alias references unknown anchor"));
}

#[test]
fn bombs_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..8 {
        let before = format!("*a{}", level - 1);
        writeln!(bomb, "a{level}: &a{level} [{}]", vec![before; 10].join(", ")).unwrap();
    }
    assert!(parse_document(Path::new("t"), &bomb).is_err());
    assert!(parse_document(Path::new("t"), &"[".repeat(10_000)).is_err());
    assert!(parse_document(Path::new("t"), &"- a\n".repeat(30_000)).is_err());
    assert!(parse_document(Path::new("t"), &"- a\n".repeat(300_000)).is_err());
    assert!(
        parse_document(Path::new("t"), &"- a\n".repeat(10_000)).is_ok(),
        "the bound is not lower"
    );
}
