use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::{Yaml, whole};
use super::read;

/// What the quick reader says, which the whole one must say too.
fn same(text: &str) -> Option<(usize, Yaml)> {
    let quick = read(text)?;
    let whole = whole(text, "tools").map_err(|problem| problem.message);
    assert_eq!(Ok(&quick), whole.as_ref(), "{text}");
    Some(quick)
}

fn taken(text: &str) {
    assert!(same(text).is_some(), "left to the whole reader:\n{text}");
}

#[test]
fn what_people_write_is_read_as_the_whole_reader_does() {
    taken("tools:\n  - name: a\n    description: Does a, and no more\n    flag: yes\n    y: off\n");
    taken("- name: a\n  type: mock\n\n# between\n- name: b\n  parameters:\n    type: object\n");
    taken(
        "version: 2\ntools:\n- name: \"a\"\n  level: 'user'\n  n: 5\n  m: -7\n  f: 0.50\n  none:\n",
    );
    taken(
        "tools:\n  one:\n    description: é ü 世界\n    read_only: true\n  two:\n    tags: [a, \"b c\", 3]\n",
    );
    taken(
        "tools:\n  - name: a\n    parameters: {type: object, properties: {x: {type: string}}, required: []}\n    \
         description: |\n      First line.\n\n        deeper: - line\n      last\n\n    effects: |-\n      x\n",
    );
    taken(
        "tools:\n  enabled: true\n  registry:\n  - name: a\n    list:\n    - x\n    - - y\n      - z\n    - k: v\n",
    );
    taken(
        "tools:\n  - name: a\n    url: http://127.0.0.1:1/x?y=z#part\n    path: /a/b\n    text: (a) b's \"c\" [d]\n",
    );
}

#[test]
fn what_is_not_plain_is_left_alone() {
    for text in [
        "",
        "tools:\n",
        "- a\n",
        "- name: a",
        "---\n- name: a\n",
        "- name: a\n...\n",
        "- &x name: a\n",
        "- name: *x\n",
        "- name: !!str a\n",
        "- <<: {a: b}\n",
        "- name: a\n  name: b\n",
        "- x: {a: 1, a: 2}\n",
        "- name: a\n   deeper\n",
        "- name: a\n  text: >\n    folded\n",
        "- name: a\n  text: |2\n    x\n",
        "- name: a: b\n",
        "- name: a # b\n",
        "- name:\ta\n",
        "- name: a\r\n",
        "- flag: True\n",
        "- null: a\n",
        "- n: 0x10\n",
        "- n: 010\n",
        "- n: 1_000\n",
        "- n: 1e3\n",
        "- n: .5\n",
        "- n: 12345678901234567890\n",
        "- n: \"a\\n\"\n",
        "- n: 'it''s'\n",
        "- n: [a,\n   b]\n",
        "- n: [a, b,]\n",
        "- n: {a}\n",
        "- n: ~\n",
        "-\n  name: a\n",
        "- name: a\n b: c\n",
        "- name: a\n  text: |\n\n    x\n",
        "\u{feff}- name: a\n",
        "- name: a\u{85}b\n",
        "? a\n: b\n",
    ] {
        assert!(read(text).is_none(), "{text:?}");
    }
    let deep: String =
        (0..40).fold("- ".to_owned(), |text, level| format!("{text}a:\n{}", " ".repeat(level + 3)));
    assert!(read(&(deep + "a: b\n")).is_none());
    let mut many = String::new();
    for number in 0..250_000 {
        writeln!(many, "- a: {number}").unwrap();
    }
    assert!(read(&many).is_none());
}

/// Values, plain and not.
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "", "a", "a b", "true", "null", "no", "N", "NULL", "False", "inf", "NaN", "infinity", "yes",
    "5", "-5", "0", "-0", "00", "1.50", "1.", "-", "- a", "|", "|-", "[]", "{}", "[a, b]",
    "[a,b]", "[ a ]", "{a: b}", "{a: {b: [1, c d]}}", "{a: b, a: c}", "[a: b]", "\"q\"", "'q'",
    "\"q", "\"a\\\"b\"", "a: b", "a:b", "a:", "a #b", "a#b", "#a", "&a b", "*a", "!a", "%",
    "@a", "`a`", "é", "a  b", "it's", "http://a/b", "1.0.0", "2020-01-01", "~", ".5", "1e5",
    "+1", "?", "? a", "> a", ">", "(a)", "/a", "a]", "a}", "a, b", "[a, 'b', \"c\"]",
    "{a: , b: c}", "[,]", "{a: -}",
];

/// A line of a file, right or wrong.
fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "name", "a", "b-c", "type", "tools", "x.y", "on", "n", "true", "null", "Inf", "200", "_",
    ]);
    let value = prop::sample::select(VALUES);
    let space = prop::sample::select(vec!["", " ", "  "]);
    let shape = prop_oneof![
        6 => (key.clone(), value.clone()).prop_map(|(key, value)| format!("{key}: {value}")),
        2 => key.clone().prop_map(|key| format!("{key}:")),
        4 => (key, value.clone()).prop_map(|(key, value)| format!("- {key}: {value}")),
        2 => value.clone().prop_map(|value| format!("- {value}")),
        1 => value.prop_map(str::to_owned),
        1 => Just(String::new()),
        1 => Just("# comment".to_owned()),
        1 => Just("---".to_owned()),
    ];
    (0_usize..7, shape, space)
        .prop_map(|(indent, shape, space)| format!("{}{shape}{space}", " ".repeat(indent)))
}

/// A file whose lines stand where they may.
fn file() -> impl Strategy<Value = String> {
    let body = prop::collection::vec(line(), 0..12);
    let head = prop::sample::select(vec![
        "",
        "tools:\n",
        "tools:\n  - name: a\n",
        "- name: a\n",
        "tools:\n  x:\n",
    ]);
    (head, body).prop_map(|(head, body)| format!("{head}{}\n", body.join("\n")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("TOOLKEEP_DEEP").is_some() { 400_000 } else { 6_000 }))]

    /// Whatever it reads, it reads as the whole reader does: value, line and all.
    #[test]
    fn no_two_readings_of_one_text(text in file()) {
        let _read = same(&text);
    }
}
