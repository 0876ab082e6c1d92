use proptest::prelude::*;
use tool::call_outcome::CallStatus;
use tool::{
    Actor, Caller, CallerType, Digest, ErrorCode, Interface, Org, PermissionLevel, SandboxUsage,
    SourceName, ToolKey, ToolName, WallTime,
};

use super::{
    BodyEncoding, CallId, FRAME_HEADER_BYTES, FrameBuilder, FrameError, IntentRecord,
    MAX_BODY_BYTES, MAX_SEQ, OutcomeRecord, RecordKind, Uuid, decode_frame, iter_frames,
};
use crate::record_reader::decode_record;

fn sealed(seq: u64, body: &str) -> Vec<u8> {
    let call = CallId(Uuid::from_u128(9));
    FrameBuilder::json(RecordKind::Intent, Some(call), &body).unwrap().finish(seq).to_vec()
}

#[test]
fn frames_read_back() {
    let bytes = [sealed(7, "a"), sealed(8, ""), vec![1, 2, 3]].concat();
    let read = iter_frames(&bytes).map(|f| (f.seq, f.body.to_vec())).collect::<Vec<_>>();
    assert_eq!(read, [(7, b"\"a\"".to_vec()), (8, b"\"\"".to_vec())]);
    let gap = FrameBuilder::json(RecordKind::Gap, None, &1).unwrap().finish(MAX_SEQ - 1).to_vec();
    let gap = decode_frame(&gap).unwrap();
    let none = FrameBuilder::json(RecordKind::Gap, None, &1).unwrap().finish(MAX_SEQ).to_vec();
    assert_eq!(decode_frame(&none).unwrap_err(), FrameError::InvalidSequence);
    assert_eq!((gap.seq, gap.kind, gap.call_id), (MAX_SEQ - 1, RecordKind::Gap, None));
}

#[test]
fn every_changed_bit_is_seen() {
    let good = sealed(7, "hello");
    decode_frame(&good).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_frame(&bad).is_err(), "bit {bit}");
    }
    for cut in 0..good.len() {
        assert_eq!(decode_frame(&good[..cut]).unwrap_err(), FrameError::Truncated, "cut at {cut}");
    }
}

#[test]
fn a_body_has_a_bound() {
    FrameBuilder::json(RecordKind::Intent, None, &"x".repeat(MAX_BODY_BYTES - 2)).unwrap();
    let error =
        FrameBuilder::json(RecordKind::Intent, None, &"x".repeat(MAX_BODY_BYTES - 1)).unwrap_err();
    assert!(error.message.starts_with("a record has 65537 bytes; the maximum is 65536"), "{error}");
    let mut long = sealed(1, "a");
    long[..4].copy_from_slice(
        &u32::try_from(FRAME_HEADER_BYTES + MAX_BODY_BYTES + 1).unwrap().to_le_bytes(),
    );
    assert_eq!(decode_frame(&long).unwrap_err(), FrameError::InvalidLength);
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

fn call() -> impl Strategy<Value = CallId> {
    any::<u128>().prop_map(|id| CallId(Uuid::from_u128(id)))
}

fn caller() -> impl Strategy<Value = Caller> {
    let level = prop::sample::select(vec![
        PermissionLevel::Guest,
        PermissionLevel::User,
        PermissionLevel::Admin,
        PermissionLevel::Owner,
    ]);
    let actor = ("\\PC{0,6}", ".{0,6}").prop_map(|(subject, key)| Actor { subject, key_id: key });
    let actors = prop::collection::vec(actor, 0..3);
    let root = prop::option::of(".{0,6}");
    ("\\PC{0,12}", ".{0,12}", level, any::<bool>(), actors, root).prop_map(
        |(subject, key, level, agent, actors, root)| {
            let org = Org::default();
            Caller { org, subject, key_id: key, level, is_agent: agent, actors, root_key_id: root }
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
    ) -> IntentRecord {
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
        IntentRecord { call_id: call, parent_id: parent, chain_id, chain_index, continues_call: continues, recorded_at: WallTime(at), caller, interface: door, caller_type, tool_key: tool, definition_digest: definition, catalog_version: catalog, policy_digest: policy, reason: reason.into(), arguments_digest: args, arguments_bytes: args_bytes, may_change_state: effects, has_unknown_effects: effects && chain, toolset: chain.then(|| "t".to_owned()) }
    }
}

prop_compose! {
    fn end()(
        (at, elapsed_ms, bytes) in any::<(u64, u64, usize)>(),
        status in prop::sample::select(CallStatus::ALL.to_vec()),
        code in prop::option::of(prop::sample::select(ErrorCode::ALL.to_vec())),
        result in prop::option::of(digest()),
        sandbox_spec in prop::option::of(("\\PC{0,6}", any::<(Option<u64>, Option<u64>)>())),
    ) -> OutcomeRecord {
        let sandbox_spec = sandbox_spec.map(|(tier, (cpu_ms, peak_kib))| SandboxUsage { tier, cpu_ms, peak_kib });
        OutcomeRecord { recorded_at: WallTime(at), status, code, elapsed_ms, result_bytes: bytes, result_digest: result, sandbox_usage: sandbox_spec }
    }
}

/// Frames from the time when intents and outcomes were JSON.
fn as_before<T: serde::Serialize>(kind: RecordKind, call: CallId, body: &T) -> Vec<u8> {
    FrameBuilder::json(kind, Some(call), body).unwrap().finish(1).to_vec()
}

proptest! {
    #[test]
    fn an_intent_reads_back_in_both_forms(intent in intent()) {
        let call = if intent.call_id.0.is_nil() { CallId(Uuid::from_u128(1)) } else { intent.call_id };
        let intent = IntentRecord { call_id: call, ..intent };
        let packed = FrameBuilder::intent(&intent).unwrap().finish(1).to_vec();
        let json = as_before(RecordKind::Intent, call, &intent);
        for (bytes, form) in [(&packed, BodyEncoding::MessagePack), (&json, BodyEncoding::Json)] {
            let frame = decode_frame(bytes).unwrap();
            prop_assert_eq!((frame.encoding, frame.kind, frame.call_id), (form, RecordKind::Intent, Some(call)));
            prop_assert_eq!(frame.decode_body::<IntentRecord>().unwrap(), intent.clone());
            let shown = decode_record(&frame).unwrap().body;
            prop_assert_eq!(shown.as_str(), serde_json::to_string(&intent).unwrap());
        }
        prop_assert!(packed.len() < json.len() * 2 / 3, "{} of {}", packed.len(), json.len());
    }

    #[test]
    fn an_outcome_reads_back_in_both_forms(end in end()) {
        let call = CallId(Uuid::from_u128(7));
        let packed = FrameBuilder::outcome(call, &end).unwrap().finish(1).to_vec();
        let json = as_before(RecordKind::Outcome, call, &end);
        for bytes in [packed, json] {
            let frame = decode_frame(&bytes).unwrap();
            prop_assert_eq!(frame.decode_body::<OutcomeRecord>().unwrap(), end.clone());
            let shown = decode_record(&frame).unwrap().body;
            prop_assert_eq!(shown.as_str(), serde_json::to_string(&end).unwrap());
        }
    }
}

/// Written by another version, with a member and words that this one does not know.
#[test]
fn what_is_on_record_is_shown_whatever_it_says() {
    let call = CallId(Uuid::from_u128(7));
    let body = serde_json::json!({"status": "half", "took": [1, -2, 0.5, null, true], "at": {"b": 1, "a": 2}});
    let packed =
        FrameBuilder::message_pack(RecordKind::Outcome, call, &body).unwrap().finish(1).to_vec();
    let frame = decode_frame(&packed).unwrap();
    assert_eq!(frame.decode_body::<OutcomeRecord>(), None);
    assert_eq!(decode_record(&frame).unwrap().body.as_str(), body.to_string());
    let odd = FrameBuilder::message_pack(RecordKind::Outcome, call, &Bytes([1; 5]))
        .unwrap()
        .finish(1)
        .to_vec();
    assert_eq!(decode_record(&decode_frame(&odd).unwrap()), None, "nobody writes such bytes");
    let mut unknown = packed;
    unknown[8] = 3;
    assert_eq!(decode_frame(&unknown).unwrap_err(), FrameError::UnknownVersion);
}

struct Bytes([u8; 5]);

impl serde::Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}
