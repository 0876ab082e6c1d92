use policy::{At, Effect, Layer, Pattern, Rules, Word};
use tool::Safety;

use crate::tests::{faults, good, reading};

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
    let rules = good(text).policy.rules().global.clone();
    let word = |text: &str| Word { text: text.to_owned(), at: At::default() };
    let expected = Layer {
        safety_limit: Some(Safety::Cautious),
        categories: Some(vec![word("math"), word("system")]),
        allow: Some(patterns(&["files.read_*", "source:local"])),
        deny: patterns(&["*.delete"]),
        ..Layer::default()
    };
    assert_eq!(rules, expected);
    for none in ["version: 1\n", "version: 1\npolicy: {}\n"] {
        assert_eq!(*good(none).policy.rules(), Rules::default());
    }
    let nothing = good("version: 1\npolicy: { allow: [], categories: [] }\n").policy;
    let nothing = nothing.rules().global.clone();
    assert_eq!((nothing.allow, nothing.categories), (Some(Vec::new()), Some(Vec::new())));
}

#[test]
fn every_slip_in_a_rule_is_told_with_its_place() {
    let advice = "use a tool's name, `*` for any characters, `source:NAME`, or `group:NAME`";
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
    let list = "write a list: `[one, two]`, or each item on a line of its own after `- `";
    assert_eq!(bad("  deny: a\n"), [format!("3:9 expected a list, found `a` = {list}")]);
}

#[test]
fn a_rule_that_holds_nothing_is_a_fault_and_not_no_rule() {
    let list = "remove it, or write `[]` for an empty list";
    let level = "remove it, or say `safe`, `cautious` or `dangerous`";
    let empty = bad("  allow:\n  safety_limit: ${EMPTY}\n  deny: [a, \"${EMPTY}\", '']\n");
    let pattern = "use a tool's name, `*` for any characters, `source:NAME`, or `group:NAME`";
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
    assert_eq!(
        good(&format!("version: 1\npolicy:\n{}", list(1_000))).policy.rules().global.deny.len(),
        1_000
    );
}

#[test]
fn a_star_without_quotes_is_told_as_what_it_is() {
    let told = bad("  deny: [*.delete]\n").remove(0);
    assert!(told.contains("quotes"), "{told}");
}

/// All that a policy may say.
const WHOLE: &str = r#"
  deny: [raw_exec]
  groups: { mine: ["db.*", "group:math"] }
  orgs: { acme: { allow: [group:read] } }
  roles:
    worker: { allow: ["group:read", "group:mine"], safety_limit: cautious }
    frontdoor:
      web_access: true
      allowed_categories: [web, file, data]
      forbidden_tools: [write_file]
  default_role: worker
  personas: { coder: { deny: ["group:web"] } }
  tasks: { chat: { read_only: true } }
  own_categories: [billing]
  features: { scripts: false, parallel_tools: true }
  permissions:
    network: { description: Can make network requests, requires_approval: false }
    filesystem:
      description: Can read/write files
      requires_approval: true
      allowed_paths: ["/mnt/raid0/llm/", "/tmp/"]
    shell: { description: Can execute shell commands, requires_approval: true }
    compute: { description: Can execute computation, requires_approval: false }
  rules:
    - name: not in production
      effect: deny
      tools: ["db.*"]
      when: args.env == 'prod' && args.n < -1.5
      examples:
        - { args: { env: prod, n: -2, none: null }, applies: true }
        - { args: { env: prod, n: 7 }, applies: false }
    - name: closed at night
      effect: deny
      time: { days: [sat, sun], hours: "22:00-06:00", zone: Europe/Berlin }
"#;

#[test]
fn a_whole_policy_is_read_with_the_permissions_of_spec_3_as_written() {
    let policy = good(&format!("version: 1\npolicy:{WHOLE}")).policy;
    let rules = policy.rules();
    assert_eq!(rules.roles.keys().collect::<Vec<_>>(), ["frontdoor", "worker"]);
    assert!(rules.roles["frontdoor"].permissions.as_ref().is_some_and(|own| own.web_access));
    assert!(rules.roles["worker"].permissions.is_none());
    let files = &rules.scopes[&tool::Scope::Filesystem];
    assert_eq!(files.requires_approval, Some(true));
    assert_eq!(files.allowed_paths.as_ref().map(Vec::len), Some(2));
    assert!(rules.off.scripts && !rules.off.parallel_tools);
    let rule = &rules.global.rules[0];
    assert_eq!((rule.effect, rule.examples.len(), rule.at.line), (Effect::Deny, 2, 26));
    assert_eq!(rules.global.deny[0].place().line, 3);
    assert!(policy.has_times() && policy.knows_task("chat"));
}

#[test]
fn every_unknown_name_is_told_with_its_place() {
    let told = bad(
        "  deny: [group:wbe]\n  roles:\n    r: { allow: [group:red], allowed_categories: [wbe], allow_tools: [] }\n  \
         default_role: nobody\n  permissions: { netwrk: {} }\n  features: { scrpts: false }\n  \
         tasks: { chat: { deny: [group:nope] } }\n",
    );
    for (place, what) in [
        ("3:10 ", "unknown group `wbe`"),
        ("5:18 ", "unknown group `red`"),
        ("5:51 ", "unknown category `wbe`"),
        ("5:57 ", "unknown key `allow_tools`"),
        ("6:17 ", "unknown role `nobody`"),
        ("7:26 ", "unknown scope `netwrk`"),
        ("8:23 ", "unknown feature `scrpts`"),
        ("9:27 ", "unknown group `nope`"),
    ] {
        let found = told.iter().any(|told| told.starts_with(place) && told.contains(what));
        assert!(found, "{place} {what}: {told:#?}");
    }
}

#[test]
fn a_condition_and_its_examples_are_tried_when_the_file_is_read() {
    let rule = |when: &str, example: &str| {
        let rule =
            format!("- {{ name: r, effect: deny, when: \"{when}\", examples: [{example}] }}");
        bad(&format!("  rules:\n    {rule}\n"))
    };
    for (when, example, what) in [
        ("args.a ==", "", "the condition cannot be read"),
        ("arg.a == 1", "", "unknown variable `arg`"),
        ("args.a.lower() == 'x'", "", "unknown function `lower`"),
        ("principal.name == 'x'", "", "has no field `name`"),
        ("args.a == 1", "{ args: { a: 1 }, applies: false }", "the rule applies to this example"),
        ("args.a == 1", "{ args: { a: 2 }, applies: true }", "the rule does not apply"),
        ("args.a == 1", "{ args: {}, applies: false }", "cannot be worked out"),
        ("args.a == 1", "{ args: { a: 1 } }", "`applies` is missing"),
    ] {
        let told = rule(when, example);
        assert!(told.len() == 1 && told[0].starts_with("4:") && told[0].contains(what), "{told:?}");
    }
    let told = bad("  rules: [{ name: r, effect: deny, time: { hours: 9-17 } }]\n");
    assert!(told[0].contains("are no hours"), "{told:?}");
    let told = bad("  rules: [{ effect: deny }, { name: r }, { name: a, effect: allow }]\n");
    assert_eq!(told.len(), 3, "{told:?}");
}

#[test]
fn a_flag_of_the_environment_only_takes_away() {
    let off = |variables: &[(&str, &str)], file: &str| {
        let reading = reading(&format!("version: 1\n{file}"), variables);
        reading.config.map(|config| config.policy.rules().off)
    };
    let unset = "ORCHESTRATOR_TOOLS";
    assert!(off(&[(unset, "false")], "").unwrap().tools);
    assert!(off(&[("ORCHESTRATOR_SCRIPTS", "0")], "").unwrap().scripts);
    // What either switches off is off.
    let file = "policy: { features: { tools: false } }\n";
    assert!(off(&[(unset, "true")], file).unwrap().tools);
    assert!(!off(&[(unset, "1"), ("ORCHESTRATOR_HOST", "maybe")], "").unwrap().tools);
    assert!(off(&[(unset, "maybe")], "").is_none());
}

#[test]
fn the_policy_of_the_guide_is_good() {
    let guide = include_str!("../../../../../docs/guide/policy.md");
    let block = guide.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let policy = good(block.unwrap()).policy;
    assert_eq!(policy.rules().roles["clerk"].rules[0].examples.len(), 2);
    assert!(policy.has_times());
}
