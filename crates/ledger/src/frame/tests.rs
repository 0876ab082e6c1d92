use proptest::prelude::*;
use tool::outcome::Status;
use tool::{
    Actor, Caged, Caller, CallerType, Code, Digest, Interface, Level, Org, SourceName, ToolKey,
    ToolName, Wall,
};

use super::{
    Bad, CallId, Draft, End, Form, HEAD, Intent, Kind, MAX_BODY, MAX_SEQ, Uuid, decode, frames,
};
use crate::records::record;

fn sealed(seq: u64, body: &str) -> Vec<u8> {
    let call = CallId(Uuid::from_u128(9));
    Draft::new(Kind::Intent, Some(call), &body).unwrap().seal(seq).to_vec()
}

#[test]
fn frames_read_back() {
    let bytes = [sealed(7, "a"), sealed(8, ""), vec![1, 2, 3]].concat();
    let read = frames(&bytes).map(|f| (f.seq, f.body.to_vec())).collect::<Vec<_>>();
    assert_eq!(read, [(7, b"\"a\"".to_vec()), (8, b"\"\"".to_vec())]);
    let gap = Draft::new(Kind::Gap, None, &1).unwrap().seal(MAX_SEQ - 1).to_vec();
    let gap = decode(&gap).unwrap();
    let none = Draft::new(Kind::Gap, None, &1).unwrap().seal(MAX_SEQ).to_vec();
    assert_eq!(decode(&none).unwrap_err(), Bad::Seq);
    assert_eq!((gap.seq, gap.kind, gap.call), (MAX_SEQ - 1, Kind::Gap, None));
}

#[test]
fn every_changed_bit_is_seen() {
    let good = sealed(7, "hello");
    decode(&good).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&bad).is_err(), "bit {bit}");
    }
    for cut in 0..good.len() {
        assert_eq!(decode(&good[..cut]).unwrap_err(), Bad::Short, "cut at {cut}");
    }
}

#[test]
fn a_body_has_a_bound() {
    Draft::new(Kind::Intent, None, &"x".repeat(MAX_BODY - 2)).unwrap();
    let error = Draft::new(Kind::Intent, None, &"x".repeat(MAX_BODY - 1)).unwrap_err();
    assert!(error.message.starts_with("a record has 65537 bytes, 65536 are allowed"), "{error}");
    let mut long = sealed(1, "a");
    long[..4].copy_from_slice(&u32::try_from(HEAD + MAX_BODY + 1).unwrap().to_le_bytes());
    assert_eq!(decode(&long).unwrap_err(), Bad::Length);
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

fn call() -> impl Strategy<Value = CallId> {
    any::<u128>().prop_map(|id| CallId(Uuid::from_u128(id)))
}

fn caller() -> impl Strategy<Value = Caller> {
    let level = prop::sample::select(vec![Level::Guest, Level::User, Level::Admin, Level::Owner]);
    let actor = ("\\PC{0,6}", ".{0,6}").prop_map(|(subject, key)| Actor { subject, key });
    let actors = prop::collection::vec(actor, 0..3);
    let root = prop::option::of(".{0,6}");
    ("\\PC{0,12}", ".{0,12}", level, any::<bool>(), actors, root).prop_map(
        |(subject, key, level, agent, actors, root)| {
            let org = Org::default();
            Caller { org, subject, key, level, agent, actors, root }
        },
    )
}

prop_compose! {
    fn intent()(
        (call, parent, continues) in (call(), prop::option::of(call()), prop::option::of(call())),
        (at, catalog, args_bytes) in any::<(u64, u64, usize)>(),
        caller in caller(),
        (door, reason) in (prop::sample::select(Interface::ALL.to_vec()), ".{0,9}"),
        (chain, effects) in any::<(bool, bool)>(),
        (definition, policy, args) in (digest(), digest(), digest()),
    ) -> Intent {
        let tool = ToolKey {
            org: Org::default(),
            source: SourceName::new("files").unwrap(),
            name: ToolName::new("files.read").unwrap(),
        };
        let caller_type = if chain { CallerType::Chain } else { CallerType::Direct };
        let (chain_id, chain_index) = match parent {
            Some(parent) if chain => (Some(parent.chain_id()), u32::try_from(args_bytes).ok()),
            _ => (None, None),
        };
        Intent { call, parent, chain_id, chain_index, continues, at: Wall(at), caller, door, caller_type, tool, definition, catalog, policy, reason: reason.into(), args, args_bytes, effects, unknown_effects: effects && chain }
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

/// What was written of it when intents and outcomes were JSON.
fn as_before<T: serde::Serialize>(kind: Kind, call: CallId, body: &T) -> Vec<u8> {
    Draft::new(kind, Some(call), body).unwrap().seal(1).to_vec()
}

proptest! {
    #[test]
    fn an_intent_reads_back_in_both_forms(intent in intent()) {
        let call = if intent.call.0.is_nil() { CallId(Uuid::from_u128(1)) } else { intent.call };
        let intent = Intent { call, ..intent };
        let packed = Draft::intent(&intent).unwrap().seal(1).to_vec();
        let json = as_before(Kind::Intent, call, &intent);
        for (bytes, form) in [(&packed, Form::MessagePack), (&json, Form::Json)] {
            let frame = decode(bytes).unwrap();
            prop_assert_eq!((frame.form, frame.kind, frame.call), (form, Kind::Intent, Some(call)));
            prop_assert_eq!(frame.read::<Intent>().unwrap(), intent.clone());
            let shown = record(&frame).unwrap().body;
            prop_assert_eq!(shown.as_str(), serde_json::to_string(&intent).unwrap());
        }
        prop_assert!(packed.len() < json.len() * 2 / 3, "{} of {}", packed.len(), json.len());
    }

    #[test]
    fn an_outcome_reads_back_in_both_forms(end in end()) {
        let call = CallId(Uuid::from_u128(7));
        let packed = Draft::outcome(call, &end).unwrap().seal(1).to_vec();
        let json = as_before(Kind::Outcome, call, &end);
        for bytes in [packed, json] {
            let frame = decode(&bytes).unwrap();
            prop_assert_eq!(frame.read::<End>().unwrap(), end.clone());
            let shown = record(&frame).unwrap().body;
            prop_assert_eq!(shown.as_str(), serde_json::to_string(&end).unwrap());
        }
    }
}

/// Written by another version, with a member and words that this one does not know.
#[test]
fn what_is_on_record_is_shown_whatever_it_says() {
    let call = CallId(Uuid::from_u128(7));
    let body = serde_json::json!({"status": "half", "took": [1, -2, 0.5, null, true], "at": {"b": 1, "a": 2}});
    let packed = Draft::packed(Kind::Outcome, call, &body).unwrap().seal(1).to_vec();
    let frame = decode(&packed).unwrap();
    assert_eq!(frame.read::<End>(), None);
    assert_eq!(record(&frame).unwrap().body.as_str(), body.to_string());
    let odd = Draft::packed(Kind::Outcome, call, &Bytes([1; 5])).unwrap().seal(1).to_vec();
    assert_eq!(record(&decode(&odd).unwrap()), None, "nobody writes such bytes");
    let mut unknown = packed;
    unknown[8] = 3;
    assert_eq!(decode(&unknown).unwrap_err(), Bad::Version);
}

struct Bytes([u8; 5]);

impl serde::Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}
