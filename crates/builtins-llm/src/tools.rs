//! What the tools answer, and where they run: on threads for what takes long, as many as there are cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use builtins::WorkerQuota;
use serde_json::{Map, Value, json};
use tool::{Boxed, Code, Context, ExecuteError, Executor, Granted, Json, Outcome, Step};

use crate::embedder::Embedder;
use crate::vector::likeness;

/// Answers from arguments, or says what is wrong with them; asks before each text whether it may go on.
pub(crate) type Ask = fn(&Value, &Reader<'_>) -> Result<Value, String>;

/// Texts on one machine at the same time.
static QUOTA: std::sync::LazyLock<WorkerQuota> = std::sync::LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    WorkerQuota::new(cores.max(2))
});

/// What makes vectors, for one call.
pub(crate) struct Reader<'a> {
    embedder: &'a Embedder,
    /// Which it is, for the answer.
    label: &'a str,
    stopped: &'a AtomicBool,
}

impl Reader<'_> {
    fn vector(&self, place: &str, text: &str) -> Result<Vec<f32>, String> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err("the call was given up".to_owned());
        }
        if text.trim().is_empty() {
            return Err(format!("`{place}` is empty"));
        }
        self.embedder.embed(text)
    }
}

pub(crate) fn embed(args: &Value, reader: &Reader<'_>) -> Result<Value, String> {
    let vector = reader.vector("text", text(args, "text")?)?;
    // Only the numbers, as its contract has it: the tool's description names the model.
    Ok(json!(vector))
}

pub(crate) fn search(args: &Value, reader: &Reader<'_>) -> Result<Value, String> {
    let query = reader.vector("query", text(args, "query")?)?;
    let most = args.get("top_k").and_then(Value::as_u64).unwrap_or(5);
    let mut scored = Vec::new();
    for (index, item) in texts(args, "items")?.into_iter().enumerate() {
        let vector = reader.vector(&format!("items[{index}]"), item)?;
        scored.push((likeness(&query, &vector), index, item));
    }
    // Equal ones stay in the order that they came in.
    scored.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    scored.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    let shown = |(score, index, item): (f64, usize, &str)| json!({ "item": item, "score": score, "index": index, "model": reader.label });
    Ok(Value::Array(scored.into_iter().map(shown).collect()))
}

pub(crate) fn classify(args: &Value, reader: &Reader<'_>) -> Result<Value, String> {
    let about = reader.vector("text", text(args, "text")?)?;
    let mut scores: Vec<(&str, f64)> = Vec::new();
    for (index, category) in texts(args, "categories")?.into_iter().enumerate() {
        if scores.iter().any(|(known, _)| *known == category) {
            return Err(format!("`categories[{index}]` is there twice"));
        }
        let vector = reader.vector(&format!("categories[{index}]"), category)?;
        scores.push((category, likeness(&about, &vector)));
    }
    let best = scores.iter().copied().reduce(|best, it| if it.1 > best.1 { it } else { best });
    let (category, score) = best.ok_or("`categories` is empty")?;
    // As much as e to ten times the distance: cosines of short texts lie close together.
    let weight = |other: f64| (10.0 * (other - score)).exp();
    let confidence = 1.0 / scores.iter().map(|(_, it)| weight(*it)).sum::<f64>();
    let scores: Map<String, Value> =
        scores.into_iter().map(|(name, score)| (name.to_owned(), json!(score))).collect();
    Ok(
        json!({ "category": category, "confidence": confidence, "scores": scores, "model": reader.label }),
    )
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
        let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
        tokio::select! {
            done = self.computed(call, ctx, &stop.0) => done,
            () = ctx.cancel.cancelled() => {
                Err(ExecuteError::during(Code::Cancelled, "the call was given up"))
            }
        }
    }

    async fn computed(
        &self,
        call: Granted<'_>,
        ctx: &Context<'_>,
        stopped: &Arc<AtomicBool>,
    ) -> Result<Step, ExecuteError> {
        let fault = || ExecuteError::during(Code::Internal, "a fault in the built-in tool");
        let place = QUOTA.enter(ctx.caller.root_key()).await;
        let place = place.map_err(|why| ExecuteError::before(Code::Busy, why))?;
        let (ask, stopped) = (self.ask, Arc::clone(stopped));
        let (embedder, label) = (Arc::clone(&self.embedder), Arc::clone(&self.label));
        let args = call.call().args.clone();
        let computed = tokio::task::spawn_blocking(move || {
            // Kept until the thread is done, even where nobody waits for it any more.
            let _place = place;
            let reader = Reader { embedder: &embedder, label: &label, stopped: &stopped };
            ask(args.value(), &reader)
        });
        let computed: Result<Value, String> = computed.await.map_err(|_| fault())?;
        Ok(Step::Done(match computed {
            Ok(answer) => Outcome::value(Json::of(&answer)),
            Err(why) => Outcome::failed(&why),
        }))
    }
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

/// Stops a computation when the call's future goes.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
