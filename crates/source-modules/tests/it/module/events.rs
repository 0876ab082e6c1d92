//! The lines of the log that the module API names, with their fields.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use source_layers::RetrySource;
use source_layers::ToolSelection;
use source_modules::HttpModuleOptions;
use tool::{Source as _, SourceName};
use tracing_subscriber::fmt::MakeWriter;

use super::{append, manifest, module, options};
use testkit::executor_run::{find_offer, run_call};
use testkit::http_server::{MockResponse, MockServer};

/// A log, line by line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    /// Takes what this thread tells from here on, until the guard is dropped.
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let told = tracing_subscriber::fmt().json().flatten_event(true).without_time();
        let told = told.with_target(false).with_writer(log.clone()).finish();
        (log, tracing::subscriber::set_default(told))
    }

    /// All there is since the last look.
    fn told(&self) -> Vec<Value> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_discovered_module_is_told_with_its_tools() {
    let (log, _told) = Log::start();
    let server = MockServer::start_server(vec![manifest(&json!([append()]))]).await;
    let module = module(options(&server));
    module.list_offers().await.unwrap();
    let expected = json!({
        "level": "INFO", "message": "module_discovered", "module": "notes", "tools": 1,
    });
    assert_eq!(log.told(), std::slice::from_ref(&expected));
    // Asked again by itself it has nothing new to tell; asked by someone it tells.
    module.list_offers().await.unwrap();
    assert_eq!(log.told(), [Value::Null; 0]);
    module.reset_backoff();
    module.list_offers().await.unwrap();
    assert_eq!(log.told(), [expected]);
}

#[tokio::test]
async fn another_status_is_told_as_an_error_of_the_manifest() {
    let (log, _told) = Log::start();
    let server = MockServer::start_server(vec![MockResponse::Body(503, String::new())]).await;
    module(options(&server)).list_offers().await.unwrap_err();
    let expected = json!({
        "level": "WARN", "message": "module_manifest_error", "module": "notes", "status": 503,
    });
    assert_eq!(log.told(), [expected]);
}

#[tokio::test]
async fn a_manifest_that_does_not_parse_is_told_with_its_error() {
    let (log, _told) = Log::start();
    let server = MockServer::start_server(vec![MockResponse::Body(200, "<html>".into())]).await;
    module(options(&server)).list_offers().await.unwrap_err();
    let expected = json!({
        "level": "WARN", "message": "module_manifest_error", "module": "notes",
        "error": "cannot parse the manifest: expected value at line 1 column 1",
    });
    assert_eq!(log.told(), [expected]);
}

#[tokio::test]
async fn a_module_that_is_away_is_told_as_unreachable() {
    let (log, _told) = Log::start();
    let away = HttpModuleOptions::new(SourceName::new("notes").unwrap(), "http://127.0.0.1:9");
    module(away).list_offers().await.unwrap_err();
    let told = log.told();
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&told[0]["level"], &told[0]["message"], &told[0]["module"]),
        (&json!("WARN"), &json!("module_unreachable"), &json!("notes"))
    );
    assert!(told[0]["error"].as_str().unwrap().contains("refused"), "{}", told[0]);
    assert_eq!(told[0].as_object().unwrap().len(), 4);
}

/// After the last of the module API's tries, once; it goes on, and the same failure is no line any
/// more until someone asks.
#[tokio::test]
async fn discovery_that_is_exhausted_is_told_once_and_goes_on() {
    let (log, _told) = Log::start();
    let away = HttpModuleOptions::new(SourceName::new("notes").unwrap(), "http://127.0.0.1:9");
    let module = module(away);
    let mut exhausted = Vec::new();
    for _ in 0..5 {
        module.list_offers().await.unwrap_err();
        let told = log.told();
        assert_eq!(told[0]["message"], "module_unreachable");
        exhausted.push(told.get(1).cloned());
    }
    let expected = json!({
        "level": "WARN", "message": "delayed_discovery_exhausted", "module": "notes", "tries": 5,
    });
    let all: Vec<_> = std::iter::repeat_n(None, 4).chain([Some(expected)]).collect();
    assert_eq!(exhausted, all);
    for _ in 0..3 {
        module.list_offers().await.unwrap_err();
        assert_eq!(log.told(), [Value::Null; 0]);
    }
    module.reset_backoff();
    module.list_offers().await.unwrap_err();
    assert_eq!(log.told()[0]["message"], "module_unreachable");
}

/// Another failure is told, however often the one before it was.
#[tokio::test]
async fn another_failure_of_a_module_is_told() {
    let (log, _told) = Log::start();
    let mut answers = vec![MockResponse::Body(503, String::new()); 7];
    answers.push(MockResponse::Body(500, String::new()));
    let server = MockServer::start_server(answers).await;
    let module = module(options(&server));
    for _ in 0..8 {
        module.list_offers().await.unwrap_err();
    }
    let told: Vec<_> = log.told().into_iter().map(|line| line["status"].clone()).collect();
    let statuses: Vec<_> = told.iter().filter(|status| !status.is_null()).collect();
    assert_eq!(statuses, [503, 503, 503, 503, 503, 500]);
}

/// One that was there once is away, which is told as often as the module API tries; it was
/// discovered.
#[tokio::test]
async fn a_module_that_was_discovered_exhausts_nothing() {
    let gone = || MockResponse::Body(503, String::new());
    let mut answers = vec![manifest(&json!([append()]))];
    answers.extend(std::iter::repeat_with(gone).take(6));
    let server = MockServer::start_server(answers).await;
    let module = module(options(&server));
    module.list_offers().await.unwrap();
    let (log, _told) = Log::start();
    for _ in 0..6 {
        module.list_offers().await.unwrap_err();
    }
    let told: Vec<_> = log.told().into_iter().map(|line| line["message"].clone()).collect();
    assert_eq!(told, vec![json!("module_manifest_error"); 5]);
}

#[tokio::test]
async fn a_call_that_is_made_again_is_told_with_tool_and_error() {
    let failed = json!({ "tool_name": "notes.append", "success": false, "error": "try later" });
    let good = json!({ "tool_name": "notes.append", "success": true, "result": 1 });
    let answers = vec![
        manifest(&json!([append()])),
        MockResponse::from_json(&failed),
        MockResponse::from_json(&good),
    ];
    let server = MockServer::start_server(answers).await;
    let mut options = options(&server);
    options.read_only = ToolSelection::All;
    let source = RetrySource::new(Arc::new(module(options)));
    let (tool, executor) = find_offer(&source.list_offers().await.unwrap(), "notes.append");
    let (log, _told) = Log::start();
    let outcome = run_call(&tool, executor.as_ref(), r#"{"text":"hi"}"#).await.unwrap();
    assert!(!outcome.is_error);
    let expected = json!({
        "level": "WARN", "message": "tool_call_failed_retrying", "tool": "notes.append",
        "error": "try later",
    });
    assert_eq!(log.told(), [expected]);
    assert_eq!(server.received_requests().len(), 3);
}
