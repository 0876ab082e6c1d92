//! `read_artefact` and `search_artefact`: read and search a stored result that was too large to
//! return inline.
//!
//! A caller has access to its own artifacts only.

use std::sync::Arc;

use serde_json::{Value, json};
use tool::artifact::{ArtifactError, ArtifactStore, ByteRange};
use tool::{
    BoxFuture, CallContext, Caller, ExecuteError, ExecutionState, Executor, Json, Outcome,
    RecordedCall,
};

use tool_manifest::BuiltinTool;
use tool_manifest::{ManifestRegistry, NumericLimit};

/// Bytes of context on each side of a match.
const CONTEXT_BYTES: usize = 120;
/// Bytes that are searched at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Builds `read_artefact` and `search_artefact`.
pub(crate) fn build_tools(
    registry: &ManifestRegistry,
    artifacts: &Arc<dyn ArtifactStore>,
) -> [Option<BuiltinTool>; 2] {
    let with = |name: &str, looks, bound: &str| {
        let declared = registry.find_tool(name)?;
        let (artifacts, bound) = (Arc::clone(artifacts), declared.numeric_limit(bound));
        Some(declared.with_executor(ArtifactToolExecutor {
            artifacts,
            operation: looks,
            limit: bound,
        }))
    };
    [
        with("read_artefact", ArtifactOperation::Read, "length"),
        with("search_artefact", ArtifactOperation::Search, "limit"),
    ]
}

#[derive(Debug, Clone, Copy)]
enum ArtifactOperation {
    Read,
    Search,
}

#[derive(Debug)]
struct ArtifactToolExecutor {
    artifacts: Arc<dyn ArtifactStore>,
    operation: ArtifactOperation,
    /// Limit of bytes of a part, or of reported matches.
    limit: NumericLimit,
}

impl ArtifactToolExecutor {
    async fn run_operation(&self, args: &Value, caller: &Caller) -> Result<Value, ArtifactError> {
        let word = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| args.get(key).and_then(Value::as_u64);
        match self.operation {
            ArtifactOperation::Read => {
                let length = self.limit.value_in(args, "length");
                self.read_part(caller, word("id"), (number("offset").unwrap_or(0), length)).await
            }
            ArtifactOperation::Search => {
                let limit = self.limit.value_in(args, "limit");
                self.search_text(caller, word("id"), (word("query"), limit)).await
            }
        }
    }

    async fn read_part(
        &self,
        caller: &Caller,
        id: &str,
        (offset, length): (u64, u64),
    ) -> Result<Value, ArtifactError> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let part =
            self.artifacts.read_chunk(caller, id, ByteRange { offset, max_bytes: length }).await?;
        // A part ends before an incomplete character.
        let whole = match std::str::from_utf8(&part.bytes) {
            Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
                error.valid_up_to()
            }
            _ => part.bytes.len(),
        };
        let bytes = part.bytes.get(..whole).unwrap_or_default();
        let next = offset.saturating_add(whole as u64);
        let next = (next < part.total_bytes && whole > 0).then_some(next);
        let text = String::from_utf8_lossy(bytes);
        Ok(json!({"text": text, "offset": offset, "next_offset": next, "total": part.total_bytes}))
    }

    async fn search_text(
        &self,
        caller: &Caller,
        id: &str,
        (query, limit): (&str, u64),
    ) -> Result<Value, ArtifactError> {
        let query = query.as_bytes().to_ascii_lowercase();
        let (mut found, mut from, mut seen) = (Vec::new(), 0_u64, 0_u64);
        loop {
            let range = ByteRange { offset: from, max_bytes: CHUNK_BYTES };
            let part = self.artifacts.read_chunk(caller, id, range).await?;
            let lower = part.bytes.to_ascii_lowercase();
            let mut at = 0;
            while let Some(next) = find_bytes(lower.get(at..).unwrap_or_default(), &query) {
                let place = at + next;
                at = place + 1;
                let offset = from + place as u64;
                // Chunks overlap, so that no match at their edge is missed or reported twice.
                if offset >= seen {
                    let text = surrounding_text(&part.bytes, place, query.len());
                    found.push(json!({"offset": offset, "text": text}));
                    seen = offset + 1;
                }
                if found.len() as u64 >= limit {
                    return Ok(json!({"found": found, "total": part.total_bytes}));
                }
            }
            let end = from + part.bytes.len() as u64;
            if end >= part.total_bytes || part.bytes.is_empty() {
                return Ok(json!({"found": found, "total": part.total_bytes}));
            }
            from = end - (query.len() as u64 - 1).min(part.bytes.len() as u64 - 1);
        }
    }
}

fn find_bytes(text: &[u8], query: &[u8]) -> Option<usize> {
    text.windows(query.len().max(1)).position(|window| window == query)
}

fn surrounding_text(bytes: &[u8], place: usize, length: usize) -> String {
    let end = (place + length + CONTEXT_BYTES).min(bytes.len());
    let shown = bytes.get(place.saturating_sub(CONTEXT_BYTES)..end).unwrap_or_default();
    String::from_utf8_lossy(shown).into_owned()
}

impl Executor for ArtifactToolExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(async move {
            Ok(ExecutionState::Completed(
                match self.run_operation(call.call().arguments.as_value(), ctx.caller).await {
                    Ok(value) => Outcome::from_value(Json::encode(&value)),
                    Err(error) => Outcome::tool_failure(&error.to_string()),
                },
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::{Value, json};
    use tool::artifact::{ArtifactChunk, ArtifactError, ArtifactStore, ByteRange, StoredArtifact};
    use tool::{BoxFuture, Caller, Org, PermissionLevel};

    use super::{ArtifactOperation, ArtifactToolExecutor, CHUNK_BYTES};
    use tool_manifest::NumericLimit;

    const BOUND: NumericLimit = NumericLimit { default: 100, max: 100 };

    /// Artifact store with one artifact, owned by ann.
    #[derive(Debug)]
    struct One(Bytes);

    impl ArtifactStore for One {
        fn store_artifact<'a>(
            &'a self,
            _: &'a Caller,
            _: Bytes,
        ) -> BoxFuture<'a, Result<StoredArtifact, ArtifactError>> {
            Box::pin(async { Err(ArtifactError::NotFound) })
        }
        fn read_chunk<'a>(
            &'a self,
            owner: &'a Caller,
            id: &'a str,
            ByteRange { offset, max_bytes }: ByteRange,
        ) -> BoxFuture<'a, Result<ArtifactChunk, ArtifactError>> {
            Box::pin(async move {
                if owner.subject != "ann" || id != "art_1" {
                    return Err(ArtifactError::NotFound);
                }
                let from = usize::try_from(offset).unwrap().min(self.0.len());
                let bytes = self.0.slice(from..(from + max_bytes).min(self.0.len()));
                Ok(ArtifactChunk { bytes, total_bytes: self.0.len() as u64 })
            })
        }
    }

    fn caller(subject: &str) -> Caller {
        Caller {
            org: Org::default(),
            subject: subject.to_owned(),
            key_id: "k".to_owned(),
            level: PermissionLevel::User,
            is_agent: true,
            actors: Vec::new(),
            root_key_id: None,
        }
    }

    async fn run(
        text: &str,
        looks: ArtifactOperation,
        args: Value,
    ) -> Result<Value, ArtifactError> {
        let artefacts = Arc::new(One(Bytes::copy_from_slice(text.as_bytes())));
        ArtifactToolExecutor { artifacts: artefacts, operation: looks, limit: BOUND }
            .run_operation(&args, &caller("ann"))
            .await
    }

    #[tokio::test]
    async fn parts_together_are_the_whole() {
        let text = "größe 世界 🙂 ".repeat(40);
        let (mut all, mut offset) = (String::new(), json!(0));
        while !offset.is_null() {
            let args = json!({"id": "art_1", "offset": offset, "length": 17});
            let part = run(&text, ArtifactOperation::Read, args).await.unwrap();
            all += part["text"].as_str().unwrap();
            offset = part["next_offset"].clone();
        }
        assert_eq!(all, text);
        let past = json!({"id": "art_1", "offset": 1_000_000});
        assert_eq!(run(&text, ArtifactOperation::Read, past).await.unwrap()["text"], "");
    }

    #[tokio::test]
    async fn a_text_is_found_once_also_where_chunks_meet() {
        for shift in 0..8 {
            let mut text = "x".repeat(CHUNK_BYTES - shift);
            text += "NeedLe";
            text += &"y".repeat(CHUNK_BYTES);
            text += "needle";
            let args = json!({"id": "art_1", "query": "needle"});
            let found = run(&text, ArtifactOperation::Search, args).await.unwrap();
            let places: Vec<_> = found["found"]
                .as_array()
                .unwrap()
                .iter()
                .map(|f| f["offset"].as_u64().unwrap())
                .collect();
            let first = (CHUNK_BYTES - shift) as u64;
            assert_eq!(places, [first, first + 6 + CHUNK_BYTES as u64], "{shift}");
        }
        let many = json!({"id": "art_1", "query": "a", "limit": 3});
        let found = run(&"a".repeat(50), ArtifactOperation::Search, many).await.unwrap();
        assert_eq!(found["found"].as_array().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn anothers_is_not_there() {
        let reader = ArtifactToolExecutor {
            artifacts: Arc::new(One(Bytes::new())),
            operation: ArtifactOperation::Read,
            limit: BOUND,
        };
        let error =
            reader.run_operation(&json!({"id": "art_1"}), &caller("bob")).await.unwrap_err();
        assert_eq!(error, ArtifactError::NotFound);
    }
}
