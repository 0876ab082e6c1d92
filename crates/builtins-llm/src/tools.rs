//! What the tools answer, and where they run: vectors of a model in its worker, all else on threads for what takes
//! long, as many as there are cores.

use std::sync::Arc;
use std::time::Duration;

use builtins::{WorkerError, WorkerQuota};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tool::{Boxed, Code, Context, ExecuteError, Executor, Granted, Json, Outcome, Step};
use tool_manifest::{GIVEN_UP, given_up, run_blocking, unless_given_up};

use crate::embedder::Embedder;
use crate::model::Installed;
use crate::model_worker::{message, request};
use crate::serve::VECTORS;
use crate::vector::{Vector, likeness};
use crate::word_vectors;

/// How long a request may go on whose caller has given up: about as long as it takes to start another worker.
const GRACE: Duration = Duration::from_millis(250);

/// What one tool makes of its arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// The texts whose vectors it needs, or what is wrong with the arguments.
    texts: for<'a> fn(&'a Value) -> Result<Vec<&'a str>, String>,
    /// The answer, from the arguments, those vectors in the same order, and the model's name.
    answer: fn(&Value, &[Vector], &str) -> Result<Value, String>,
}

pub(crate) const EMBED: Ask = Ask { texts: embed_texts, answer: embed_answer };
pub(crate) const SEARCH: Ask = Ask { texts: search_texts, answer: search_answer };
pub(crate) const CLASSIFY: Ask = Ask { texts: classify_texts, answer: classify_answer };

/// Texts for the word vectors at the same time.
static QUOTA: std::sync::LazyLock<WorkerQuota> = std::sync::LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    WorkerQuota::new(cores.max(2))
});

fn embed_texts(args: &Value) -> Result<Vec<&str>, String> {
    Ok(vec![filled("text", text(args, "text")?)?])
}

fn embed_answer(_args: &Value, vectors: &[Vector], _label: &str) -> Result<Value, String> {
    // Only the numbers, as its contract has it: the tool's description names the model.
    Ok(json!(first(vectors)?.0))
}

fn search_texts(args: &Value) -> Result<Vec<&str>, String> {
    let mut all = vec![filled("query", text(args, "query")?)?];
    for (index, item) in texts(args, "items")?.into_iter().enumerate() {
        all.push(filled(&format!("items[{index}]"), item)?);
    }
    Ok(all)
}

fn search_answer(args: &Value, vectors: &[Vector], label: &str) -> Result<Value, String> {
    let (query, vectors) = first(vectors)?;
    let most = args.get("top_k").and_then(Value::as_u64).unwrap_or(5);
    let items = texts(args, "items")?.into_iter().zip(vectors).enumerate();
    let scored = items.map(|(index, (item, vector))| (likeness(query, vector), index, item));
    let mut scored: Vec<(f64, usize, &str)> = scored.collect();
    // Equal ones stay in the order that they came in.
    scored.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    scored.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    let shown = |(score, index, item): (f64, usize, &str)| json!({ "item": item, "score": score, "index": index, "model": label });
    Ok(Value::Array(scored.into_iter().map(shown).collect()))
}

fn classify_texts(args: &Value) -> Result<Vec<&str>, String> {
    let mut all = vec![filled("text", text(args, "text")?)?];
    for (index, category) in texts(args, "categories")?.into_iter().enumerate() {
        if all.iter().skip(1).any(|known| *known == category) {
            return Err(format!("`categories[{index}]` is there twice"));
        }
        all.push(filled(&format!("categories[{index}]"), category)?);
    }
    Ok(all)
}

fn classify_answer(args: &Value, vectors: &[Vector], label: &str) -> Result<Value, String> {
    let (about, vectors) = first(vectors)?;
    let categories = texts(args, "categories")?.into_iter().zip(vectors);
    let scores = categories.map(|(category, vector)| (category, likeness(about, vector)));
    let scores: Vec<(&str, f64)> = scores.collect();
    let best = scores.iter().copied().reduce(|best, it| if it.1 > best.1 { it } else { best });
    let (category, score) = best.ok_or("`categories` is empty")?;
    // As much as e to ten times the distance: cosines of short texts lie close together.
    let weight = |other: f64| (10.0 * (other - score)).exp();
    let confidence = 1.0 / scores.iter().map(|(_, it)| weight(*it)).sum::<f64>();
    let scores: Map<String, Value> =
        scores.into_iter().map(|(name, score)| (name.to_owned(), json!(score))).collect();
    Ok(json!({ "category": category, "confidence": confidence, "scores": scores, "model": label }))
}

fn first(vectors: &[Vector]) -> Result<(&Vector, &[Vector]), String> {
    vectors.split_first().ok_or_else(|| "there is no vector".to_owned())
}

fn filled<'a>(place: &str, text: &'a str) -> Result<&'a str, String> {
    if text.trim().is_empty() { Err(format!("`{place}` is empty")) } else { Ok(text) }
}

fn text<'a>(args: &'a Value, name: &str) -> Result<&'a str, String> {
    args.get(name).and_then(Value::as_str).ok_or_else(|| format!("`{name}` must be text"))
}

fn texts<'a>(args: &'a Value, name: &str) -> Result<Vec<&'a str>, String> {
    let list = args.get(name).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("`{name}` must be a list of texts"))?;
    let each = |(index, item): (usize, &'a Value)| {
        item.as_str().ok_or_else(|| format!("`{name}[{index}]` must be text"))
    };
    list.iter().enumerate().map(each).collect()
}

/// Runs one tool.
#[derive(Debug)]
pub(crate) struct Asking {
    ask: Ask,
    embedder: Arc<Embedder>,
    label: Arc<str>,
}

impl Asking {
    pub(crate) fn new(ask: Ask, embedder: Arc<Embedder>) -> Self {
        let label = embedder.label().into();
        Self { ask, embedder, label }
    }

    async fn answered(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let answer = match &*self.embedder {
            Embedder::Model(model) => self.by_model(model, call, ctx).await?,
            Embedder::WordVectors { .. } => unless_given_up(ctx, self.by_words(call, ctx)).await?,
        };
        Ok(Step::Done(match answer {
            Ok(answer) => Outcome::value(Json::of(&answer)),
            Err(why) => Outcome::failed(&why),
        }))
    }

    /// By the model in its worker: all texts in one request.
    async fn by_model(
        &self,
        model: &Installed,
        call: Granted<'_>,
        ctx: &Context<'_>,
    ) -> Result<Result<Value, String>, ExecuteError> {
        let worker = model.worker();
        let turn = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(given_up()),
            turn = worker.process().enter(ctx.caller.root_key()) => turn.map_err(refused)?,
        };
        let (ask, args) = (self.ask, call.call().args.clone());
        let made = run_blocking(CancellationToken::new(), move || {
            let args = args.value();
            let texts = (ask.texts)(args)?;
            Ok::<_, String>((request(&texts)?, texts.len()))
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
            answered = turn.request(VECTORS, &request) => answered,
            // The worker goes with its request.
            () = late => return Err(given_up()),
        };
        turn.took().into_iter().for_each(|took| ctx.ran_caged(took));
        drop(turn);
        let vectors = match answered {
            Ok(answer) => worker.decoded(&answer, count),
            Err(error @ (WorkerError::Busy(_) | WorkerError::Blocked(_))) => {
                return Err(refused(error));
            }
            Err(error) => Err(message(error)),
        };
        let (args, label) = (call.call().args.clone(), Arc::clone(&self.label));
        let vectors = match vectors {
            Ok(vectors) => vectors,
            Err(why) => return Ok(Err(why)),
        };
        let answer = move || (ask.answer)(args.value(), &vectors, &label);
        run_blocking(CancellationToken::new(), answer).await
    }

    /// By the built-in word vectors, on a thread of this process.
    async fn by_words(
        &self,
        call: Granted<'_>,
        ctx: &Context<'_>,
    ) -> Result<Result<Value, String>, ExecuteError> {
        let place = QUOTA.enter(ctx.caller.root_key()).await;
        let place = place.map_err(|why| ExecuteError::before(Code::Busy, why))?;
        let (ask, stop) = (self.ask, CancellationToken::new());
        let (args, label) = (call.call().args.clone(), Arc::clone(&self.label));
        run_blocking(stop.clone(), move || {
            // Kept until the thread is done, even where nobody waits for it any more.
            let _place = place;
            let args = args.value();
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

fn refused(error: WorkerError) -> ExecuteError {
    let code = match &error {
        WorkerError::Blocked(_) => Code::Blocked,
        _ => Code::Busy,
    };
    ExecuteError::before(code, error.into_message())
}

impl Executor for Asking {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.answered(call, ctx))
    }
}
