//! Tests of the language model worker: its restrictions, its end and its fair use.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use builtins::{SandboxProvider, WorkerCounts, WorkerError, WorkerJob};
use builtins_llm::{LanguageTools, install_model};
use bytes::Bytes;
use sandbox::SandboxLevel;
use sandbox::process::ProcessLauncher;
use serde_json::{Value, json};
use testkit::condition::wait_until;
use testkit::context::{quiet_context, test_caller};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tool::executor::CancelSignal;
use tool::{BoxFuture, CallContext, Caller, ErrorCode, ExecuteError, Outcome};
use tool_manifest::BuiltinTool;

use crate::calls::{BIN, call, sandboxes, tried, value};
use crate::small_model::{Costs, Shape, write};

/// Returns the tools with a model of a few words, with the costs of `shape`.
async fn tools(shape: Shape) -> (tempfile::TempDir, LanguageTools) {
    let home = tempfile::tempdir().unwrap();
    write(&home.path().join("given"), shape);
    install_model(&home.path().join("given"), home.path(), &sandboxes()).await.unwrap();
    let language = builtins_llm::language_tools(home.path(), &sandboxes()).await;
    assert_eq!(language.problem, None);
    (home, language)
}

fn counts(language: &LanguageTools) -> WorkerCounts {
    language.model.as_ref().unwrap().process().counts()
}

async fn embedded(tools: &[BuiltinTool], text: &str) -> Outcome {
    call(tools, "embed_text", &json!({ "text": text })).await
}

struct Token(CancellationToken);

impl CancelSignal for Token {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.cancelled())
    }
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Cancels a call of `text` once its request is in the worker.
async fn cancelled(language: &LanguageTools, text: &str) -> Result<Outcome, ExecuteError> {
    let (caller, token) = (test_caller(), Token(CancellationToken::new()));
    let context = CallContext { cancel: &token, ..quiet_context(&caller) };
    let args = json!({ "text": text });
    let before = counts(language).requests;
    let (ended, ()) =
        tokio::join!(tried(&language.tools, ("embed_text", &args), &context), async {
            while counts(language).requests == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            token.0.cancel();
        });
    ended
}

#[tokio::test]
async fn a_text_that_takes_all_memory_ends_the_worker_and_nothing_else() {
    let (_home, language) = tools(Shape::COSTLY).await;
    let cat = value(&embedded(&language.tools, "cat").await);
    for starts in 1..3 {
        let told = embedded(&language.tools, "boom").await;
        assert!(told.is_error, "{told:?}");
        let told = value(&told);
        assert!(told.as_str().unwrap().contains("exceeded its memory limit"), "{told}");
        assert_eq!(counts(&language).starts, starts);
        // The next call starts another worker with the same model.
        assert_eq!(value(&embedded(&language.tools, "cat").await), cat);
        assert_eq!(counts(&language).starts, starts + 1);
    }
}

#[tokio::test]
async fn a_model_that_is_removed_while_it_is_used_stays_until_the_server_ends() {
    let (home, language) = tools(Shape::COSTLY).await;
    std::fs::remove_dir_all(home.path().join("embedding")).unwrap();
    assert!(!embedded(&language.tools, "cat").await.is_error);
    assert!(embedded(&language.tools, "boom").await.is_error);
    assert!(!embedded(&language.tools, "cat").await.is_error);
    assert_eq!(counts(&language).starts, 2);
}

#[tokio::test]
async fn a_worker_that_dies_at_each_start_is_started_ever_less_often() {
    let home = tempfile::tempdir().unwrap();
    write(&home.path().join("embedding"), Shape { costs: Costs::AtLoad, ..Shape::PUBLIC });
    let facts = json!({ "name": "small", "dimensions": 4 });
    std::fs::write(home.path().join("embedding/model.json"), facts.to_string()).unwrap();
    let language = builtins_llm::language_tools(home.path(), &sandboxes()).await;
    let first = embedded(&language.tools, "cat").await;
    assert!(first.is_error && value(&first).as_str().unwrap().contains("memory"), "{first:?}");
    let (caller, args) = (test_caller(), json!({ "text": "cat" }));
    let again = || async {
        tried(&language.tools, ("embed_text", &args), &quiet_context(&caller))
            .await
            .map(|it| value(&it))
    };
    // Immediately afterwards no other worker is started.
    for _ in 0..10 {
        let busy = again().await.unwrap_err();
        assert_eq!(busy.code, ErrorCode::Busy);
        assert!(busy.message.contains("the last 1 starts of the worker failed"), "{busy:?}");
        assert!(
            busy.message.contains("memory") && busy.message.ends_with("it is restarted in 1 s")
        );
    }
    assert_eq!(counts(&language).starts, 1);
    // Later one is started, and the next delay is longer.
    while counts(&language).starts == 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _either = again().await;
    }
    let busy = again().await.unwrap_err();
    assert!(busy.message.contains("the last 2 starts of the worker failed"), "{busy:?}");
    // Such a model is not installed.
    let given = home.path().join("embedding");
    let to = tempfile::tempdir().unwrap();
    let why = install_model(&given, to.path(), &sandboxes()).await.unwrap_err();
    assert!(
        why.contains("model.onnx: the worker that tested it ended: it exceeded its memory"),
        "{why}"
    );
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_model_that_is_refused_is_refused_for_good_and_starts_one_worker() {
    let (home, _) = tools(Shape::PUBLIC).await;
    std::fs::write(home.path().join("embedding/model.onnx"), b"broken").unwrap();
    let language = builtins_llm::language_tools(home.path(), &sandboxes()).await;
    for _ in 0..3 {
        let told = embedded(&language.tools, "cat").await;
        assert!(told.is_error && value(&told).as_str().unwrap().contains("model.onnx"), "{told:?}");
    }
    assert_eq!(counts(&language).starts, 1);
}

#[tokio::test]
async fn the_worker_opens_no_file_reaches_no_net_and_starts_nothing() {
    let (_home, language) = tools(Shape::PUBLIC).await;
    let escape = WorkerJob::new(b'X', Duration::from_secs(10));
    let process = language.model.as_ref().unwrap().process();
    let turn = process.acquire_turn("k").await.unwrap();
    let done = turn.run_job(escape, &Bytes::new()).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&done).unwrap(), json!([]));
    drop(turn);
    // The worker that attempted the escapes is the one with the model.
    assert!(!embedded(&language.tools, "cat").await.is_error);
    assert_eq!(counts(&language), WorkerCounts { starts: 1, requests: 2 });
    // Control: all attempts succeed without the sandbox.
    #[expect(clippy::disallowed_methods, reason = "the control is a program without a sandbox")]
    let control = std::process::Command::new(BIN).arg("__escape").output().unwrap();
    let all = [
        "reads a file",
        "reads its own binary",
        "lists a folder",
        "writes a file",
        "opens a socket",
        "starts a program",
        "starts a thread",
    ];
    assert_eq!(serde_json::from_slice::<Value>(&control.stdout).unwrap(), json!(all));
}

#[tokio::test]
async fn a_caller_who_gives_up_ends_a_long_request_and_not_a_short_one() {
    let (_home, language) = tools(Shape::COSTLY).await;
    assert!(!embedded(&language.tools, "cat").await.is_error);
    // Its answer arrives before another worker could start, so the worker stays.
    let _either = cancelled(&language, "some").await;
    assert!(!embedded(&language.tools, "cat").await.is_error);
    assert_eq!(counts(&language).starts, 1);
    let ended = cancelled(&language, "slow").await;
    assert_eq!(ended.unwrap_err().code, ErrorCode::Cancelled);
    assert!(!embedded(&language.tools, "cat").await.is_error);
    assert_eq!(counts(&language).starts, 2);
}

#[tokio::test]
async fn a_request_over_its_time_limit_ends_the_worker_and_the_next_call_starts_another() {
    let (_home, language) = tools(Shape::PUBLIC).await;
    let endless = WorkerJob::new(b'E', Duration::from_millis(300));
    let process = language.model.as_ref().unwrap().process();
    let turn = process.acquire_turn("k").await.unwrap();
    let error = turn.run_job(endless, &Bytes::new()).await.unwrap_err();
    let WorkerError::Ended(why) = &error else { panic!("{error:?}") };
    assert!(why.starts_with("it ran longer than") && why.ends_with("request less"), "{why}");
    drop(turn);
    assert_eq!(counts(&language).starts, 1);
    assert!(!embedded(&language.tools, "cat").await.is_error);
    assert_eq!(counts(&language).starts, 2);
}

#[tokio::test]
async fn a_worker_that_dies_between_two_calls_is_replaced_and_no_caller_notices() {
    let (_home, language) = tools(Shape::PUBLIC).await;
    let first = value(&embedded(&language.tools, "cat").await);
    assert_eq!(counts(&language).starts, 1);
    let word = builtins_llm::MODEL_WORKER_COMMAND.as_bytes();
    let serves = |command: &[u8]| command.split(|byte| *byte == 0).any(|it| it == word);
    let workers: Vec<_> = processes().into_iter().filter(|(_, it)| serves(it)).collect();
    assert!(!workers.is_empty());
    for (pid, _) in workers {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        // A process that ended with its parent is already gone.
        let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    wait_until("the worker and its supervisor are gone", || processes().is_empty()).await;
    assert_eq!(value(&embedded(&language.tools, "cat").await), first);
    assert_eq!(counts(&language).starts, 2);
}

/// Returns the descendants of this process that still run, with their command lines.
fn processes() -> Vec<(i32, Vec<u8>)> {
    let own = i32::try_from(std::process::id()).unwrap();
    let (mut family, mut known) = (vec![own], 0);
    while let Some(parent) = family.get(known).copied() {
        known += 1;
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten();
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children"));
            let children = children.unwrap_or_default();
            family.extend(children.split_whitespace().map(|it| it.parse::<i32>().unwrap()));
        }
    }
    family.retain(|pid| *pid != own);
    // A process that has exited but was not reaped has no command line.
    let command = |pid| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let running = family.into_iter().map(|pid| (pid, command(pid)));
    running.filter(|(_, command)| !command.is_empty()).collect()
}

#[tokio::test]
async fn a_call_that_is_dropped_takes_its_worker_along() {
    let (_home, language) = tools(Shape::COSTLY).await;
    assert!(!embedded(&language.tools, "cat").await.is_error);
    let before = counts(&language).requests;
    let begun = async {
        while counts(&language).requests == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        ended = embedded(&language.tools, "slow") => panic!("it was to be slow: {ended:?}"),
        () = begun => {}
    }
    assert!(!embedded(&language.tools, "cat").await.is_error);
    assert_eq!(counts(&language).starts, 2);
}

#[tokio::test]
async fn a_search_is_one_request_however_many_texts_it_has() {
    let (_home, language) = tools(Shape::PUBLIC).await;
    let items: Vec<&str> = ["cat", "kitten", "shares", "fell"].repeat(125);
    let args = json!({ "query": "a cat", "items": items, "top_k": 500 });
    let found = value(&call(&language.tools, "similarity_search", &args).await);
    assert_eq!(found.as_array().unwrap().len(), 500);
    assert_eq!(counts(&language), WorkerCounts { starts: 1, requests: 1 });
    let args = json!({ "text": "shares", "categories": ["cat", "kitten", "fell"] });
    let found = value(&call(&language.tools, "classify_text", &args).await);
    assert_eq!(found["category"], "fell");
    // Control: single texts are one request each.
    for text in ["cat", "kitten"] {
        embedded(&language.tools, text).await;
    }
    assert_eq!(counts(&language), WorkerCounts { starts: 1, requests: 4 });
}

/// Counts how many of one caller's 20 runs are done when another caller's three later ones are.
async fn overtaken<F: Future<Output = ()>>(run: impl Fn(&'static str) -> F) -> usize {
    let (done, at_end) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let many = (0..20).map(|_| async {
        run("many").await;
        done.fetch_add(1, Ordering::Relaxed);
    });
    let few = async {
        for _ in 0..3 {
            run("few").await;
        }
        at_end.store(done.load(Ordering::Relaxed), Ordering::Relaxed);
    };
    // The first caller's requests are sent first.
    tokio::join!(biased; futures_util::future::join_all(many), few);
    at_end.into_inner()
}

#[tokio::test]
async fn a_caller_with_many_calls_leaves_every_other_turn_to_another() {
    let (_home, language) = tools(Shape::COSTLY).await;
    assert!(!embedded(&language.tools, "cat").await.is_error);
    let tools = &language.tools;
    let fair = overtaken(|key| async move {
        let caller = Caller { key_id: key.to_owned(), ..test_caller() };
        let args = json!({ "text": "some" });
        let ended = tried(tools, ("embed_text", &args), &quiet_context(&caller)).await.unwrap();
        assert!(!ended.is_error, "{ended:?}");
    })
    .await;
    assert!(fair <= 5, "{fair}");
    assert_eq!(counts(&language), WorkerCounts { starts: 1, requests: 24 });
    // Control: with a common queue the first caller's calls go first.
    let one = Arc::new(Semaphore::new(1));
    let unfair = overtaken(|_| {
        let one = Arc::clone(&one);
        async move {
            let _place = one.acquire().await.unwrap();
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(unfair >= 20, "{unfair}");
}

#[tokio::test]
async fn without_a_sandbox_word_vectors_answer_and_say_so() {
    let (home, _) = tools(Shape::PUBLIC).await;
    let launcher = ProcessLauncher::new("/bin/false".into(), Vec::new());
    let none = Arc::new(SandboxProvider::new(launcher, None, SandboxLevel::NoNamespaces));
    let language = builtins_llm::language_tools(home.path(), &none).await;
    assert!(language.model.is_none());
    let problem = language.problem.unwrap();
    assert_eq!(problem.location, "language model given, 4 dimensions");
    assert!(problem.message.starts_with("is not used: no sandbox is available"), "{problem:?}");
    for builtin in &language.tools {
        let description = &builtin.tool.description;
        assert!(description.contains("Model: toolkeep-word-vectors, 192 dimensions."));
        assert!(description.contains("no sandbox for its language model"), "{description}");
    }
    let vector = value(&embedded(&language.tools, "cat").await);
    assert_eq!(vector.as_array().unwrap().len(), 192);
    // A model that cannot be tested is not installed.
    let (given, to) = (home.path().join("given"), tempfile::tempdir().unwrap());
    let why = install_model(Path::new(&given), to.path(), &none).await.unwrap_err();
    assert!(why.contains("requires a sandbox") && why.contains("word vectors"), "{why}");
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 0);
    let found = builtins_llm::InstalledModel::locate_model(home.path(), &none).unwrap();
    assert!(matches!(found.load_model().await, Err(WorkerError::Blocked(_))));
}
