//! `read_artefact` and `search_artefact`: read and search a stored result that was too large to
//! return inline.
//!
//! A caller has access to its own artifacts only.

use std::sync::Arc;

use serde_json::{Value, json};
use tool::artefact::{ArtefactError, Artefacts};
use tool::{Boxed, Caller, Context, ExecuteError, Executor, Granted, Json, Outcome, Step};

use tool_manifest::Builtin;
use tool_manifest::{Bound, Registry};

/// Bytes of context on each side of a match.
const AROUND: usize = 120;
/// Bytes that are searched at a time.
const CHUNK: usize = 64 << 10;

/// Builds both tools.
pub(crate) fn builtins(
    registry: &Registry,
    artefacts: &Arc<dyn Artefacts>,
) -> [Option<Builtin>; 2] {
    let with = |name: &str, looks, bound: &str| {
        let declared = registry.get(name)?;
        let (artefacts, bound) = (Arc::clone(artefacts), declared.bound(bound));
        Some(declared.run_by(Reader { artefacts, looks, bound }))
    };
    [with("read_artefact", Looks::Read, "length"), with("search_artefact", Looks::Search, "limit")]
}

#[derive(Debug, Clone, Copy)]
enum Looks {
    Read,
    Search,
}

#[derive(Debug)]
struct Reader {
    artefacts: Arc<dyn Artefacts>,
    looks: Looks,
    /// Limit of bytes of a part, or of reported matches.
    bound: Bound,
}

impl Reader {
    async fn run(&self, args: &Value, caller: &Caller) -> Result<Value, ArtefactError> {
        let word = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| args.get(key).and_then(Value::as_u64);
        match self.looks {
            Looks::Read => {
                let length = self.bound.of(args, "length");
                self.part(caller, word("id"), (number("offset").unwrap_or(0), length)).await
            }
            Looks::Search => {
                let limit = self.bound.of(args, "limit");
                self.places(caller, word("id"), (word("query"), limit)).await
            }
        }
    }

    async fn part(
        &self,
        caller: &Caller,
        id: &str,
        (offset, length): (u64, u64),
    ) -> Result<Value, ArtefactError> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let part = self.artefacts.read(caller, id, (offset, length)).await?;
        // A part ends before an incomplete character.
        let whole = match std::str::from_utf8(&part.bytes) {
            Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
                error.valid_up_to()
            }
            _ => part.bytes.len(),
        };
        let bytes = part.bytes.get(..whole).unwrap_or_default();
        let next = offset.saturating_add(whole as u64);
        let next = (next < part.total && whole > 0).then_some(next);
        let text = String::from_utf8_lossy(bytes);
        Ok(json!({"text": text, "offset": offset, "next_offset": next, "total": part.total}))
    }

    async fn places(
        &self,
        caller: &Caller,
        id: &str,
        (query, limit): (&str, u64),
    ) -> Result<Value, ArtefactError> {
        let query = query.as_bytes().to_ascii_lowercase();
        let (mut found, mut from, mut seen) = (Vec::new(), 0_u64, 0_u64);
        loop {
            let part = self.artefacts.read(caller, id, (from, CHUNK)).await?;
            let lower = part.bytes.to_ascii_lowercase();
            let mut at = 0;
            while let Some(next) = find(lower.get(at..).unwrap_or_default(), &query) {
                let place = at + next;
                at = place + 1;
                let offset = from + place as u64;
                // Chunks overlap, so that no match at their edge is missed or reported twice.
                if offset >= seen {
                    let text = around(&part.bytes, place, query.len());
                    found.push(json!({"offset": offset, "text": text}));
                    seen = offset + 1;
                }
                if found.len() as u64 >= limit {
                    return Ok(json!({"found": found, "total": part.total}));
                }
            }
            let end = from + part.bytes.len() as u64;
            if end >= part.total || part.bytes.is_empty() {
                return Ok(json!({"found": found, "total": part.total}));
            }
            from = end - (query.len() as u64 - 1).min(part.bytes.len() as u64 - 1);
        }
    }
}

fn find(text: &[u8], query: &[u8]) -> Option<usize> {
    text.windows(query.len().max(1)).position(|window| window == query)
}

fn around(bytes: &[u8], place: usize, length: usize) -> String {
    let end = (place + length + AROUND).min(bytes.len());
    let shown = bytes.get(place.saturating_sub(AROUND)..end).unwrap_or_default();
    String::from_utf8_lossy(shown).into_owned()
}

impl Executor for Reader {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(async move {
            Ok(Step::Done(match self.run(call.call().args.value(), ctx.caller).await {
                Ok(value) => Outcome::value(Json::of(&value)),
                Err(error) => Outcome::failed(&error.to_string()),
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::{Value, json};
    use tool::artefact::{ArtefactError, Artefacts, Kept, Part};
    use tool::{Boxed, Caller, Level, Org};

    use super::{CHUNK, Looks, Reader};
    use tool_manifest::Bound;

    const BOUND: Bound = Bound { usual: 100, most: 100 };

    /// One artefact, ann's.
    #[derive(Debug)]
    struct One(Bytes);

    impl Artefacts for One {
        fn keep<'a>(&'a self, _: &'a Caller, _: Bytes) -> Boxed<'a, Result<Kept, ArtefactError>> {
            Box::pin(async { Err(ArtefactError::Missing) })
        }
        fn read<'a>(
            &'a self,
            owner: &'a Caller,
            id: &'a str,
            (from, most): (u64, usize),
        ) -> Boxed<'a, Result<Part, ArtefactError>> {
            Box::pin(async move {
                if owner.subject != "ann" || id != "art_1" {
                    return Err(ArtefactError::Missing);
                }
                let from = usize::try_from(from).unwrap().min(self.0.len());
                let bytes = self.0.slice(from..(from + most).min(self.0.len()));
                Ok(Part { bytes, total: self.0.len() as u64 })
            })
        }
    }

    fn caller(subject: &str) -> Caller {
        Caller {
            org: Org::default(),
            subject: subject.to_owned(),
            key: "k".to_owned(),
            level: Level::User,
            agent: true,
            actors: Vec::new(),
            root: None,
        }
    }

    async fn run(text: &str, looks: Looks, args: Value) -> Result<Value, ArtefactError> {
        let artefacts = Arc::new(One(Bytes::copy_from_slice(text.as_bytes())));
        Reader { artefacts, looks, bound: BOUND }.run(&args, &caller("ann")).await
    }

    #[tokio::test]
    async fn parts_together_are_the_whole() {
        let text = "größe 世界 🙂 ".repeat(40);
        let (mut all, mut offset) = (String::new(), json!(0));
        while !offset.is_null() {
            let args = json!({"id": "art_1", "offset": offset, "length": 17});
            let part = run(&text, Looks::Read, args).await.unwrap();
            all += part["text"].as_str().unwrap();
            offset = part["next_offset"].clone();
        }
        assert_eq!(all, text);
        let past = json!({"id": "art_1", "offset": 1_000_000});
        assert_eq!(run(&text, Looks::Read, past).await.unwrap()["text"], "");
    }

    #[tokio::test]
    async fn a_text_is_found_once_also_where_chunks_meet() {
        for shift in 0..8 {
            let mut text = "x".repeat(CHUNK - shift);
            text += "NeedLe";
            text += &"y".repeat(CHUNK);
            text += "needle";
            let args = json!({"id": "art_1", "query": "needle"});
            let found = run(&text, Looks::Search, args).await.unwrap();
            let places: Vec<_> = found["found"]
                .as_array()
                .unwrap()
                .iter()
                .map(|f| f["offset"].as_u64().unwrap())
                .collect();
            let first = (CHUNK - shift) as u64;
            assert_eq!(places, [first, first + 6 + CHUNK as u64], "{shift}");
        }
        let many = json!({"id": "art_1", "query": "a", "limit": 3});
        let found = run(&"a".repeat(50), Looks::Search, many).await.unwrap();
        assert_eq!(found["found"].as_array().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn anothers_is_not_there() {
        let reader =
            Reader { artefacts: Arc::new(One(Bytes::new())), looks: Looks::Read, bound: BOUND };
        let error = reader.run(&json!({"id": "art_1"}), &caller("bob")).await.unwrap_err();
        assert_eq!(error, ArtefactError::Missing);
    }
}
