//! Tool implementations for embeddings. A model computes vectors in its worker; all other work runs
//! on blocking threads, one per core.

use std::sync::Arc;
use std::time::Duration;

use builtins::{WorkerError, WorkerQuota};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tool::{
    BoxFuture, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, Json, Outcome,
    RecordedCall,
};
use tool_manifest::{GIVEN_UP, cancelled_error, run_blocking, run_until_cancelled};
use word_vectors::{TextEmbedding, cosine_similarity};

use crate::embedder::Embedder;
use crate::embedding_model::InstalledModel;
use crate::model_worker::{describe_error, encode_request};
use crate::model_worker_main::VECTORS;

/// Grace time of a request whose caller has cancelled: about as long as starting another worker
/// takes.
const GRACE: Duration = Duration::from_millis(250);

/// Functions of one tool: texts to embed, and answer from the vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmbeddingFunction {
    /// Returns the texts whose vectors the tool needs, or an error for invalid arguments.
    texts: for<'a> fn(&'a Value) -> Result<Vec<&'a str>, String>,
    /// Computes the answer from the arguments, the vectors in the same order, and the model's name.
    answer: fn(&Value, &[TextEmbedding], &str) -> Result<Value, String>,
}

pub(crate) const EMBED: EmbeddingFunction =
    EmbeddingFunction { texts: embed_texts, answer: embed_answer };
pub(crate) const SEARCH: EmbeddingFunction =
    EmbeddingFunction { texts: search_texts, answer: search_answer };
pub(crate) const CLASSIFY: EmbeddingFunction =
    EmbeddingFunction { texts: classify_texts, answer: classify_answer };

/// Limit of texts that are embedded by word vectors at the same time.
static QUOTA: std::sync::LazyLock<WorkerQuota> = std::sync::LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    WorkerQuota::new(cores.max(2))
});

fn embed_texts(args: &Value) -> Result<Vec<&str>, String> {
    Ok(vec![require_text("text", string_arg(args, "text")?)?])
}

fn embed_answer(_args: &Value, vectors: &[TextEmbedding], _label: &str) -> Result<Value, String> {
    // Only the numbers, as the contract requires. The tool's description names the model.
    Ok(json!(split_query(vectors)?.0))
}

fn search_texts(args: &Value) -> Result<Vec<&str>, String> {
    let mut all = vec![require_text("query", string_arg(args, "query")?)?];
    for (index, item) in string_list_arg(args, "items")?.into_iter().enumerate() {
        all.push(require_text(&format!("items[{index}]"), item)?);
    }
    Ok(all)
}

/// Item of a search answer.
#[derive(Debug, Serialize)]
struct ScoredItem<'a> {
    item: &'a str,
    score: f64,
    index: usize,
    model: &'a str,
}

fn search_answer(args: &Value, vectors: &[TextEmbedding], label: &str) -> Result<Value, String> {
    let (query, vectors) = split_query(vectors)?;
    let max_items = args.get("top_k").and_then(Value::as_u64).unwrap_or(5);
    let items = string_list_arg(args, "items")?.into_iter().zip(vectors).enumerate();
    let scored = items.map(|(index, (item, vector))| {
        let score = cosine_similarity(query, vector);
        ScoredItem { item, score, index, model: label }
    });
    let mut scored: Vec<ScoredItem<'_>> = scored.collect();
    // Equal scores keep the order of the input.
    scored.sort_by(|a, b| b.score.total_cmp(&a.score));
    scored.truncate(usize::try_from(max_items).unwrap_or(usize::MAX));
    serde_json::to_value(scored).map_err(|error| error.to_string())
}

fn classify_texts(args: &Value) -> Result<Vec<&str>, String> {
    let mut all = vec![require_text("text", string_arg(args, "text")?)?];
    for (index, category) in string_list_arg(args, "categories")?.into_iter().enumerate() {
        if all.iter().skip(1).any(|known| *known == category) {
            return Err(format!("`categories[{index}]` occurs twice"));
        }
        all.push(require_text(&format!("categories[{index}]"), category)?);
    }
    Ok(all)
}

fn classify_answer(args: &Value, vectors: &[TextEmbedding], label: &str) -> Result<Value, String> {
    let (about, vectors) = split_query(vectors)?;
    let categories = string_list_arg(args, "categories")?.into_iter().zip(vectors);
    let scores = categories.map(|(category, vector)| (category, cosine_similarity(about, vector)));
    let scores: Vec<(&str, f64)> = scores.collect();
    let best = scores.iter().copied().reduce(|best, it| if it.1 > best.1 { it } else { best });
    let (category, score) = best.ok_or("`categories` is empty")?;
    // Scaled by ten, since cosines of short texts lie close together.
    let weight = |other: f64| (10.0 * (other - score)).exp();
    let confidence = 1.0 / scores.iter().map(|(_, it)| weight(*it)).sum::<f64>();
    let scores: Map<String, Value> =
        scores.into_iter().map(|(name, score)| (name.to_owned(), json!(score))).collect();
    Ok(json!({ "category": category, "confidence": confidence, "scores": scores, "model": label }))
}

fn split_query(vectors: &[TextEmbedding]) -> Result<(&TextEmbedding, &[TextEmbedding]), String> {
    vectors.split_first().ok_or_else(|| "there is no vector".to_owned())
}

fn require_text<'a>(place: &str, text: &'a str) -> Result<&'a str, String> {
    if text.trim().is_empty() { Err(format!("`{place}` is empty")) } else { Ok(text) }
}

fn string_arg<'a>(args: &'a Value, name: &str) -> Result<&'a str, String> {
    args.get(name).and_then(Value::as_str).ok_or_else(|| format!("`{name}` must be text"))
}

fn string_list_arg<'a>(args: &'a Value, name: &str) -> Result<Vec<&'a str>, String> {
    let list = args.get(name).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("`{name}` must be a list of strings"))?;
    let each = |(index, item): (usize, &'a Value)| {
        item.as_str().ok_or_else(|| format!("`{name}[{index}]` must be text"))
    };
    list.iter().enumerate().map(each).collect()
}

/// Executor of one embedding tool.
#[derive(Debug)]
pub(crate) struct EmbeddingToolExecutor {
    ask: EmbeddingFunction,
    embedder: Arc<Embedder>,
    label: Arc<str>,
}

impl EmbeddingToolExecutor {
    pub(crate) fn new(function: EmbeddingFunction, embedder: Arc<Embedder>) -> Self {
        let label = embedder.label().into();
        Self { ask: function, embedder, label }
    }

    async fn run_tool(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let answer = match &*self.embedder {
            Embedder::Model(model) => self.by_model(model, call, ctx).await?,
            Embedder::WordVectors { .. } => {
                run_until_cancelled(ctx, self.by_words(call, ctx)).await?
            }
        };
        Ok(ExecutionState::Completed(match answer {
            Ok(answer) => Outcome::from_value(Json::encode(&answer)),
            Err(why) => Outcome::tool_failure(&why),
        }))
    }

    /// Embeds all texts by the model in its worker, in one request.
    async fn by_model(
        &self,
        model: &InstalledModel,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<Result<Value, String>, ExecuteError> {
        let worker = model.worker();
        let turn = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(cancelled_error()),
            turn = worker.process().acquire_turn(ctx.caller.limit_key_id()) => turn.map_err(worker_error)?,
        };
        let (ask, args) = (self.ask, call.call().arguments.clone());
        let made = run_blocking(CancellationToken::new(), move || {
            let args = args.as_value();
            let texts = (ask.texts)(args)?;
            Ok::<_, String>((encode_request(&texts)?, texts.len()))
        });
        let (request, count) = match made.await? {
            Ok(made) => made,
            Err(why) => return Ok(Err(why)),
        };
        let late = async {
            ctx.cancel.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let answered = tokio::select! {
            answered = turn.run_job(VECTORS, &request) => answered,
            // The worker ends with its request.
            () = late => return Err(cancelled_error()),
        };
        turn.usage().into_iter().for_each(|took| ctx.record_sandbox_usage(took));
        drop(turn);
        let vectors = match answered {
            Ok(answer) => worker.decode_vectors(&answer, count),
            Err(error @ (WorkerError::Busy(_) | WorkerError::Blocked(_))) => {
                return Err(worker_error(error));
            }
            Err(error) => Err(describe_error(error)),
        };
        let (args, label) = (call.call().arguments.clone(), Arc::clone(&self.label));
        let vectors = match vectors {
            Ok(vectors) => vectors,
            Err(why) => return Ok(Err(why)),
        };
        let answer = move || (ask.answer)(args.as_value(), &vectors, &label);
        run_blocking(CancellationToken::new(), answer).await
    }

    /// Embeds the texts by the built-in word vectors, on a blocking thread.
    async fn by_words(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<Result<Value, String>, ExecuteError> {
        let place = QUOTA.acquire_slot(ctx.caller.limit_key_id()).await;
        let place = place.map_err(|why| ExecuteError::not_sent(ErrorCode::Busy, why))?;
        let (ask, stop) = (self.ask, CancellationToken::new());
        let (args, label) = (call.call().arguments.clone(), Arc::clone(&self.label));
        run_blocking(stop.clone(), move || {
            // Held until the thread is done, even if no caller waits any more.
            let _place = place;
            let args = args.as_value();
            let vectors = (ask.texts)(args)?.into_iter().map(|text| {
                if stop.is_cancelled() {
                    Err(GIVEN_UP.to_owned())
                } else {
                    word_vectors::embed(text)
                }
            });
            (ask.answer)(args, &vectors.collect::<Result<Vec<_>, _>>()?, &label)
        })
        .await
    }
}

fn worker_error(error: WorkerError) -> ExecuteError {
    let code = match &error {
        WorkerError::Blocked(_) => ErrorCode::Blocked,
        _ => ErrorCode::Busy,
    };
    ExecuteError::not_sent(code, error.into_message())
}

impl Executor for EmbeddingToolExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_tool(call, ctx))
    }
}
