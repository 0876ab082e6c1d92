use policy::{FilePosition, LocatedName, PolicyDocument, PolicyLayer, RuleEffect, ToolPattern};
use tool::SafetyLevel;

use crate::tests::{error_lines, load_yaml, valid_config};

fn load_errors(policy: &str) -> Vec<String> {
    let report = load_yaml(&format!("version: 1\npolicy:\n{policy}"), &[("EMPTY", "")]);
    assert!(report.config.is_none(), "a server with a faulty policy starts: {policy}");
    error_lines(&report)
}

#[test]
fn rules_are_read_as_they_stand() {
    let patterns = |list: &[&str]| {
        list.iter().map(|text| ToolPattern::new(*text).unwrap()).collect::<Vec<_>>()
    };
    let text = "version: 1\npolicy:\n  safety_limit: moderate\n  categories: [Math, system]\n  \
                allow: ['files.read_*', source:local]\n  deny:\n    - '*.delete'\n";
    let rules = valid_config(text).policy.document().global.clone();
    let word =
        |text: &str| LocatedName { text: text.to_owned(), position: FilePosition::default() };
    let expected = PolicyLayer {
        safety_limit: Some(SafetyLevel::Cautious),
        categories: Some(vec![word("math"), word("system")]),
        allow: Some(patterns(&["files.read_*", "source:local"])),
        deny: patterns(&["*.delete"]),
        ..PolicyLayer::default()
    };
    assert_eq!(rules, expected);
    for none in ["version: 1\n", "version: 1\npolicy: {}\n"] {
        assert_eq!(*valid_config(none).policy.document(), PolicyDocument::default());
    }
    let nothing = valid_config("version: 1\npolicy: { allow: [], categories: [] }\n").policy;
    let nothing = nothing.document().global.clone();
    assert_eq!((nothing.allow, nothing.categories), (Some(Vec::new()), Some(Vec::new())));
}

#[test]
fn every_slip_in_a_rule_is_told_with_its_place() {
    let advice = "use a tool's name, `*` for any characters, `source:NAME`, or `group:NAME`";
    assert_eq!(
        load_errors(
            "  safety_limit: mild\n  categories: [a b]\n  allow: [sorce:x]\n  deny: [fine, 'a b']\n  denny: []\n"
        ),
        [
            "3:17 expected one of safe, cautious, moderate, dangerous, found `mild`".to_owned(),
            "4:16 invalid category `a b` = use letters, digits, `_` and `-`, at most 64 characters"
                .to_owned(),
            format!("5:11 invalid pattern `sorce:x` = {advice}"),
            format!("6:16 invalid pattern `a b` = {advice}"),
            "7:3 unknown key `denny` = did you mean `deny`?".to_owned(),
        ]
    );
    let list = "write a list: `[one, two]`, or each item on its own line after `- `";
    assert_eq!(load_errors("  deny: a\n"), [format!("3:9 expected a list, found `a` = {list}")]);
}

#[test]
fn a_rule_that_holds_nothing_is_a_fault_and_not_no_rule() {
    let list = "remove it, or write `[]` for an empty list";
    let level = "remove it, or write `safe`, `cautious` or `dangerous`";
    let empty = load_errors("  allow:\n  safety_limit: ${EMPTY}\n  deny: [a, \"${EMPTY}\", '']\n");
    let pattern = "use a tool's name, `*` for any characters, `source:NAME`, or `group:NAME`";
    assert_eq!(
        empty,
        [
            format!("3:3 `allow` is empty = {list}"),
            format!("4:3 `safety_limit` is empty = {level}"),
            "5:13 this item is empty = remove it".to_owned(),
            format!("5:25 invalid pattern `` = {pattern}"),
        ]
    );
    let all = error_lines(&load_yaml("version: 1\npolicy:\n", &[]));
    assert_eq!(all, ["2:7 `policy` is empty = remove it, or add a rule"]);
}

#[test]
fn more_rules_than_are_tried_on_every_tool_are_a_fault() {
    let list = |n: usize| format!("  deny: [{}]\n", vec!["a"; n].join(", "));
    let messages = "3:9 1001 rules are too many; at most 1000 are allowed = combine names with `*`";
    assert_eq!(load_errors(&list(1_001)), [messages]);
    assert_eq!(
        valid_config(&format!("version: 1\npolicy:\n{}", list(1_000)))
            .policy
            .document()
            .global
            .deny
            .len(),
        1_000
    );
}

#[test]
fn a_star_without_quotes_is_told_as_what_it_is() {
    let messages = load_errors("  deny: [*.delete]\n").remove(0);
    assert!(messages.contains("quotes"), "{messages}");
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
fn a_whole_policy_is_read_with_the_research_registry_permissions_as_written() {
    let policy = valid_config(&format!("version: 1\npolicy:{WHOLE}")).policy;
    let rules = policy.document();
    assert_eq!(rules.roles.keys().collect::<Vec<_>>(), ["frontdoor", "worker"]);
    assert!(rules.roles["frontdoor"].permissions.as_ref().is_some_and(|own| own.allows_web));
    assert!(rules.roles["worker"].permissions.is_none());
    let files = &rules.scopes[&tool::AccessScope::Filesystem];
    assert_eq!(files.requires_approval, Some(true));
    assert_eq!(files.allowed_paths.as_ref().map(Vec::len), Some(2));
    assert!(rules.disabled_features.scripts && !rules.disabled_features.parallel_tools);
    let rule = &rules.global.rules[0];
    assert_eq!((rule.effect, rule.examples.len(), rule.position.line), (RuleEffect::Deny, 2, 26));
    assert_eq!(rules.global.deny[0].position().line, 3);
    assert!(policy.is_time_dependent() && policy.is_known_task_type("chat"));
}

#[test]
fn every_unknown_name_is_told_with_its_place() {
    let messages = load_errors(
        "  deny: [group:wbe]\n  roles:\n    r: { allow: [group:red], allowed_categories: [wbe], allow_tools: [] }\n  \
         default_role: nobody\n  permissions: { netwrk: {} }\n  features: { scrpts: false }\n  \
         tasks: { chat: { deny: [group:nope] } }\n",
    );
    for (position, what) in [
        ("3:10 ", "unknown group `wbe`"),
        ("5:18 ", "unknown group `red`"),
        ("5:51 ", "unknown category `wbe`"),
        ("5:57 ", "unknown key `allow_tools`"),
        ("6:17 ", "unknown role `nobody`"),
        ("7:26 ", "unknown scope `netwrk`"),
        ("8:23 ", "unknown feature `scrpts`"),
        ("9:27 ", "unknown group `nope`"),
    ] {
        let found =
            messages.iter().any(|message| message.starts_with(position) && message.contains(what));
        assert!(found, "{position} {what}: {messages:#?}");
    }
}

#[test]
fn a_condition_and_its_examples_are_tried_when_the_file_is_read() {
    let rule = |when: &str, example: &str| {
        let rule =
            format!("- {{ name: r, effect: deny, when: \"{when}\", examples: [{example}] }}");
        load_errors(&format!("  rules:\n    {rule}\n"))
    };
    for (when, example, what) in [
        ("args.a ==", "", "cannot parse the condition"),
        ("arg.a == 1", "", "unknown variable `arg`"),
        ("args.a.lower() == 'x'", "", "unknown function `lower`"),
        ("principal.name == 'x'", "", "has no field `name`"),
        ("args.a == 1", "{ args: { a: 1 }, applies: false }", "the rule applies to this example"),
        ("args.a == 1", "{ args: { a: 2 }, applies: true }", "the rule does not apply"),
        ("args.a == 1", "{ args: {}, applies: false }", "cannot be evaluated"),
        ("args.a == 1", "{ args: { a: 1 } }", "`applies` is missing"),
    ] {
        let messages = rule(when, example);
        assert!(
            messages.len() == 1 && messages[0].starts_with("4:") && messages[0].contains(what),
            "{messages:?}"
        );
    }
    let messages = load_errors("  rules: [{ name: r, effect: deny, time: { hours: 9-17 } }]\n");
    assert!(messages[0].contains("invalid hours"), "{messages:?}");
    let messages =
        load_errors("  rules: [{ effect: deny }, { name: r }, { name: a, effect: allow }]\n");
    assert_eq!(messages.len(), 3, "{messages:?}");
}

#[test]
fn a_flag_of_the_environment_only_takes_away() {
    let off = |variables: &[(&str, &str)], file: &str| {
        let report = load_yaml(&format!("version: 1\n{file}"), variables);
        report.config.map(|config| config.policy.document().disabled_features)
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
    let policy = valid_config(block.unwrap()).policy;
    assert_eq!(policy.document().roles["clerk"].rules[0].examples.len(), 2);
    assert!(policy.is_time_dependent());
}
