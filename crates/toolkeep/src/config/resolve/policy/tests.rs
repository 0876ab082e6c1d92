use policy::{Pattern, Rules};
use tool::Safety;

use crate::config::tests::{faults, good, reading};

fn bad(policy: &str) -> Vec<String> {
    let reading = reading(&format!("version: 1\npolicy:\n{policy}"), &[("EMPTY", "")]);
    assert!(reading.config.is_none(), "a server with a faulty policy starts: {policy}");
    faults(&reading)
}

#[test]
fn rules_are_read_as_they_stand() {
    let patterns =
        |list: &[&str]| list.iter().map(|text| Pattern::new(*text).unwrap()).collect::<Vec<_>>();
    let text = "version: 1\npolicy:\n  safety_limit: moderate\n  categories: [Math, system]\n  \
                allow: ['files.read_*', source:local]\n  deny:\n    - '*.delete'\n";
    let rules = good(text).policy;
    let expected = Rules {
        safety_limit: Some(Safety::Cautious),
        categories: Some(vec!["math".to_owned(), "system".to_owned()]),
        allow: Some(patterns(&["files.read_*", "source:local"])),
        deny: patterns(&["*.delete"]),
    };
    assert_eq!(rules, expected);
    for none in ["version: 1\n", "version: 1\npolicy: {}\n"] {
        assert_eq!(good(none).policy, Rules::default());
    }
    let nothing = good("version: 1\npolicy: { allow: [], categories: [] }\n").policy;
    assert_eq!((nothing.allow, nothing.categories), (Some(Vec::new()), Some(Vec::new())));
}

#[test]
fn every_slip_in_a_rule_is_told_with_its_place() {
    let advice = "use a tool's name, `*` for any characters, or `source:NAME`";
    assert_eq!(
        bad(
            "  safety_limit: mild\n  categories: [a b]\n  allow: [sorce:x]\n  deny: [fine, 'a b']\n  denny: []\n"
        ),
        [
            "3:17 expected one of safe, cautious, moderate, dangerous, found `mild`".to_owned(),
            "4:16 `a b` is no category = use letters, digits, `_` and `-`, at most 64".to_owned(),
            format!("5:11 `sorce:x` is no pattern = {advice}"),
            format!("6:16 `a b` is no pattern = {advice}"),
            "7:3 unknown key `denny` = did you mean `deny`?".to_owned(),
        ]
    );
    assert_eq!(bad("  deny: a\n"), ["3:9 expected a list, found `a`"]);
}

#[test]
fn a_rule_that_holds_nothing_is_a_fault_and_not_no_rule() {
    let list = "remove it, or write `[]` for an empty list";
    let level = "remove it, or say `safe`, `cautious` or `dangerous`";
    let empty = bad("  allow:\n  safety_limit: ${EMPTY}\n  deny: [a, \"${EMPTY}\", '']\n");
    let pattern = "use a tool's name, `*` for any characters, or `source:NAME`";
    assert_eq!(
        empty,
        [
            format!("3:3 `allow` holds nothing = {list}"),
            format!("4:3 `safety_limit` holds nothing = {level}"),
            "5:13 this item holds nothing = remove it".to_owned(),
            format!("5:25 `` is no pattern = {pattern}"),
        ]
    );
    let all = faults(&reading("version: 1\npolicy:\n", &[]));
    assert_eq!(all, ["2:7 `policy` holds nothing = remove it, or say a rule"]);
}

#[test]
fn more_rules_than_are_tried_on_every_tool_are_a_fault() {
    let list = |n: usize| format!("  deny: [{}]\n", vec!["a"; n].join(", "));
    let told = "3:9 these are 1001 rules; 1000 are allowed = `*` stands for many names at once";
    assert_eq!(bad(&list(1_001)), [told]);
    assert_eq!(good(&format!("version: 1\npolicy:\n{}", list(1_000))).policy.deny.len(), 1_000);
}

#[test]
fn a_star_without_quotes_is_told_as_what_it_is() {
    let told = bad("  deny: [*.delete]\n").remove(0);
    assert!(told.contains("quotes"), "{told}");
}
