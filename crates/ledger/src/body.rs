//! The bodies of intents and outcomes, written by hand: there are two of them for every call.
//!
//! The text is to the byte what serde writes of the same types, by a test: who reads a record knows no
//! other form.

use tool::json::is_plain;
use tool::{Actor, Caged, CallId, CallerType, Digest, End, Intent};

/// The body of an intent.
pub(crate) fn intent(out: &mut Vec<u8>, intent: &Intent) {
    let Intent {
        call,
        parent,
        continues,
        at,
        caller,
        door,
        caller_type,
        tool,
        definition,
        catalog,
        policy,
        reason,
        args,
        args_bytes,
        effects,
    } = intent;
    id(out, "{\"call\":", *call);
    if let Some(parent) = parent {
        id(out, ",\"parent\":", *parent);
    }
    if let Some(continues) = continues {
        id(out, ",\"continues\":", *continues);
    }
    number(out, ",\"at\":", at.0);
    name(out, ",\"caller\":{\"org\":", caller.org.as_str());
    text(out, ",\"subject\":", &caller.subject);
    text(out, ",\"key\":", &caller.key);
    name(out, ",\"level\":", caller.level.as_str());
    truth(out, ",\"agent\":", caller.agent);
    actors(out, &caller.actors);
    text(out, "},\"door\":", door);
    let by = match caller_type {
        CallerType::Direct => "direct",
        CallerType::Chain => "chain",
    };
    name(out, ",\"caller_type\":", by);
    name(out, ",\"tool\":{\"org\":", tool.org.as_str());
    name(out, ",\"source\":", tool.source.as_str());
    name(out, ",\"name\":", tool.name.as_str());
    digest(out, "},\"definition\":", definition);
    number(out, ",\"catalog\":", *catalog);
    digest(out, ",\"policy\":", policy);
    text(out, ",\"reason\":", reason);
    digest(out, ",\"args\":", args);
    number(out, ",\"args_bytes\":", *args_bytes as u64);
    truth(out, ",\"effects\":", *effects);
    out.push(b'}');
}

/// Who acts on behalf of the subject; nothing for most calls.
fn actors(out: &mut Vec<u8>, actors: &[Actor]) {
    let mut before = ",\"actors\":[{\"subject\":";
    for Actor { subject, key } in actors {
        text(out, before, subject);
        text(out, ",\"key\":", key);
        out.push(b'}');
        before = ",{\"subject\":";
    }
    if !actors.is_empty() {
        out.push(b']');
    }
}

/// The body of an outcome.
pub(crate) fn end(out: &mut Vec<u8>, end: &End) {
    let End { at, status, code, elapsed_ms, bytes, result, cage } = end;
    number(out, "{\"at\":", at.0);
    name(out, ",\"status\":", status.as_str());
    if let Some(code) = code {
        name(out, ",\"code\":", code.as_str());
    }
    number(out, ",\"elapsed_ms\":", *elapsed_ms);
    number(out, ",\"bytes\":", *bytes as u64);
    if let Some(result) = result {
        digest(out, ",\"result\":", result);
    }
    if let Some(Caged { tier, cpu_ms, peak_kib }) = cage {
        text(out, ",\"cage\":{\"tier\":", tier);
        for (before, took) in [(",\"cpu_ms\":", cpu_ms), (",\"peak_kib\":", peak_kib)] {
            if let Some(took) = took {
                number(out, before, *took);
            }
        }
        out.push(b'}');
    }
    out.push(b'}');
}

fn text(out: &mut Vec<u8>, before: &str, text: &str) {
    if is_plain(text) {
        return name(out, before, text);
    }
    out.extend_from_slice(before.as_bytes());
    // A string is always written.
    serde_json::to_writer(out, text).unwrap_or_default();
}

/// A word of this program's own, or a name that was checked: of letters, digits, `_`, `.` and `-`.
fn name(out: &mut Vec<u8>, before: &str, name: &str) {
    out.extend_from_slice(before.as_bytes());
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
}

fn number(out: &mut Vec<u8>, before: &str, number: u64) {
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn truth(out: &mut Vec<u8>, before: &str, truth: bool) {
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(if truth { b"true" } else { b"false" });
}

fn id(out: &mut Vec<u8>, before: &str, id: CallId) {
    let mut room = [0; uuid::fmt::Hyphenated::LENGTH];
    name(out, before, id.0.as_hyphenated().encode_lower(&mut room));
}

fn digest(out: &mut Vec<u8>, before: &str, digest: &Digest) {
    out.extend_from_slice(before.as_bytes());
    out.push(b'"');
    out.extend_from_slice(&digest.ascii());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tool::{
        Actor, Caged, CallId, Caller, CallerType, Code, Digest, End, Intent, Level, Org,
        SourceName, ToolKey, ToolName, Wall, outcome::Status,
    };
    use uuid::Uuid;

    fn digest() -> impl Strategy<Value = Digest> {
        any::<[u8; 32]>().prop_map(Digest)
    }

    fn call() -> impl Strategy<Value = CallId> {
        any::<u128>().prop_map(|id| CallId(Uuid::from_u128(id)))
    }

    fn caller() -> impl Strategy<Value = Caller> {
        let level =
            prop::sample::select(vec![Level::Guest, Level::User, Level::Admin, Level::Owner]);
        let actor = ("\\PC{0,6}", ".{0,6}").prop_map(|(subject, key)| Actor { subject, key });
        let actors = prop::collection::vec(actor, 0..3);
        ("\\PC{0,12}", ".{0,12}", level, any::<bool>(), actors).prop_map(
            |(subject, key, level, agent, actors)| {
                let org = Org::default();
                Caller { org, subject, key, level, agent, actors }
            },
        )
    }

    prop_compose! {
        fn intent()(
            (call, parent, continues) in (call(), prop::option::of(call()), prop::option::of(call())),
            (at, catalog, args_bytes) in any::<(u64, u64, usize)>(),
            caller in caller(),
            (door, reason) in ("[a-z]{1,7}", ".{0,9}"),
            (chain, effects) in any::<(bool, bool)>(),
            (definition, policy, args) in (digest(), digest(), digest()),
        ) -> Intent {
            let tool = ToolKey {
                org: Org::default(),
                source: SourceName::new("files").unwrap(),
                name: ToolName::new("files.read").unwrap(),
            };
            let caller_type = if chain { CallerType::Chain } else { CallerType::Direct };
            Intent { call, parent, continues, at: Wall(at), caller, door: door.into(), caller_type, tool, definition, catalog, policy, reason: reason.into(), args, args_bytes, effects }
        }
    }

    prop_compose! {
        fn end()(
            (at, elapsed_ms, bytes) in any::<(u64, u64, usize)>(),
            status in prop::sample::select(Status::ALL.to_vec()),
            code in prop::option::of(prop::sample::select(Code::ALL.to_vec())),
            result in prop::option::of(digest()),
            cage in prop::option::of(("\\PC{0,6}", any::<(Option<u64>, Option<u64>)>())),
        ) -> End {
            let cage = cage.map(|(tier, (cpu_ms, peak_kib))| Caged { tier, cpu_ms, peak_kib });
            End { at: Wall(at), status, code, elapsed_ms, bytes, result, cage }
        }
    }

    proptest! {
        #[test]
        fn an_intent_is_what_serde_writes(intent in intent()) {
            let mut written = Vec::new();
            super::intent(&mut written, &intent);
            prop_assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&intent).unwrap());
        }

        #[test]
        fn an_outcome_is_what_serde_writes(end in end()) {
            let mut written = Vec::new();
            super::end(&mut written, &end);
            prop_assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&end).unwrap());
        }
    }
}
