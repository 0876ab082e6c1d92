use serde_json::{Value as Json, json};

use tool::{CallerType, Org, PermissionLevel, ToolTraits, WallTime};

use super::{ConditionInputs, OperandTable, ReferencedFields, RuleCondition, empty_context};
use crate::tests::{enter, key};
use crate::{PolicyRequest, SessionTaint, ToolFacts};

fn holds(text: &str, args: &Json) -> Result<bool, String> {
    let condition =
        RuleCondition::parse(text, &mut OperandTable::default()).map_err(|error| error.message)?;
    let facts = serde_json::Map::new();
    let given = ConditionInputs::from_example(args, &facts).map_err(|fault| fault.0)?;
    condition.evaluate(given.cel_context()).map_err(|fault| fault.0)
}

#[test]
fn what_operators_write_is_read() {
    let args = json!({
        "env": "prod", "n": 3, "big": 18_446_744_073_709_551_615_u64, "x": 1.5, "no": null,
        "paths": ["/srv/a", "/srv/b"], "deep": { "a": [{ "b": true }] },
    });
    for (text, expected) in [
        ("args.env == 'prod'", true),
        ("args.env in ['test', 'stage']", false),
        ("args.n > 2 && args.n < 4", true),
        ("args.x == 1.5 || args.missing", true),
        ("has(args.missing) && args.missing", false),
        ("!has(args.no) || args.no == null", true),
        ("args.paths.all(p, p.startsWith('/srv/'))", true),
        ("args.paths.exists(p, p.endsWith('c'))", false),
        ("args['env'].contains('ro')", true),
        ("args.deep.a[0].b", true),
        ("args.env.matches('^(prod|live)$')", true),
        ("size(args.paths) == 2", true),
        ("args.n == 3 ? args.env == 'prod' : false", true),
        ("args.big > 5u", true),
    ] {
        assert_eq!(holds(text, &args), Ok(expected), "{text}");
    }
}

#[test]
fn what_could_cost_or_mean_too_much_is_refused_when_it_is_read() {
    let nested = format!("{}true{}", "(".repeat(17), ")".repeat(17));
    let long = format!("true{}", " || true".repeat(200));
    let dots = format!("args{}", ".a".repeat(400));
    let ternary = format!("{}true", "true ? true : ".repeat(70));
    for (text, told) in [
        ("args.a.all(x, args.b.all(y, x == y))", "a nested loop"),
        ("args.a.map(x, x + x).size() > 1", "a loop other than"),
        ("args.a.filter(x, x > 1).size() > 1", "a loop other than"),
        ("args.a.all(x, x + x > 1)", "`+` is not allowed in a loop"),
        ("args.a.all(x, x.matches('a'))", "steps"),
        ("args.a.matches(args.b)", "requires a literal regular expression"),
        ("args.a.matches('(')", "invalid regular expression"),
        ("args.a.matches('(a{99}){99}')", "too large"),
        ("string(args.a) == 'x'", "unknown function `string`"),
        ("timestamp(args.a) > 1", "unknown function"),
        ("arguments.a == 1", "unknown variable `arguments`"),
        ("principal.name == 'x'", "`principal` has no field `name`"),
        ("{'a': 1}.a == 1", "constructs a map"),
        ("args.a ==", "cannot parse the condition"),
        ("", "cannot parse the condition"),
        (&nested, "nests deeper"),
        (&long, "characters"),
        (&dots, "nests deeper"),
        (&ternary, "nests deeper"),
    ] {
        let Err(error) = RuleCondition::parse(text, &mut OperandTable::default()) else {
            panic!("{text} was read")
        };
        let message = error.message;
        assert!(message.contains(told), "{text}: {message}");
        assert!(message.len() < 400 && !message.contains('\n'), "{message}");
    }
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "args", ".a", ".b", "['a']", "[0]", "==", "!=", "<", ">", "&&", "||", "!", "-", "+", "*", "/", "%",
    "1", "0", "9223372036854775807", "-9223372036854775808", "1.5", "2u", "'x'", "\"\\u00e9\"", "b'x'",
    "true", "null", "(", ")", "[", "]", ",", "?", ":", "in", "size(", ".size()", ".contains(",
    ".exists(x,", ".all(x,", "x", "has(args.a)", "now.hour", "via", "int(", "double(", ".matches('a*')", " ", "principal",
];

/// What comes of a condition where so much of the call is made.
fn told(args: &Json, wants: &ReferencedFields, condition: &RuleCondition) -> Result<bool, ()> {
    let who = enter(key(PermissionLevel::User));
    let traits = ToolTraits::default();
    let org = Org::default();
    let args = &tool::CallArguments::parse(args.to_string()).unwrap();
    let asking = PolicyRequest {
        caller: who.caller(),
        rights: who.rights_class(),
        caller_type: CallerType::Direct,
        tool: ToolFacts { org: &org, source: "s", name: "t", traits: &traits },
        arguments: args,
        now: WallTime(1_795_305_600_000),
        taint: SessionTaint::default(),
    };
    let given = ConditionInputs::from_request(&asking, wants).unwrap();
    condition.evaluate(given.cel_context()).map_err(|_| ())
}

/// Words that conditions are made of, put together at random: no text and no arguments make it panic.
#[test]
fn no_condition_breaks_anything() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    let count = if std::env::var_os("TOOLKEEP_DEEP").is_some() { 200_000 } else { 2_000 };
    let mut read = 0;
    for _ in 0..count {
        let length = 1 + next(9);
        let text: Vec<&str> = (0..length).map(|_| WORDS[next(WORDS.len())]).collect();
        let Ok(condition) = RuleCondition::parse(&text.join(" "), &mut OperandTable::default())
        else {
            continue;
        };
        read += 1;
        for args in [
            json!({}),
            json!({ "a": [1, "x", i64::MIN], "b": { "a": 0 } }),
            json!({ "a": i64::MIN }),
        ] {
            let facts = serde_json::Map::new();
            let given = ConditionInputs::from_example(&args, &facts).unwrap();
            let whole = condition.evaluate(given.cel_context());
            // Nothing is other where no more is made than it names.
            let named = told(&args, &condition.referenced_fields, &condition);
            assert_eq!(named, told(&args, &ReferencedFields::all(), &condition), "{text:?}");
            if condition.referenced_fields.of_args_alone() {
                assert_eq!(named, whole.map_err(|_| ()), "{text:?}");
            }
        }
        drop(condition.evaluate(&empty_context()));
    }
    assert!(read > count / 100, "{read} of {count} could be read");
}
