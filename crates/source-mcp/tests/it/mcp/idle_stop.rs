//! Servers that start with their first call: real child processes that are listed without running.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use sandbox::process::{CommandSpec, ProcessLauncher};
use source_mcp::{ListingStore, McpOptions, McpSource, ServerLimits, StartMode, StdioConnector};
use testkit::condition::wait_until;
use tokio::time::timeout;
use tool::{BoxFuture, CatalogItem, ErrorCode, Source as _, SourceListing, SourceName};

use super::marks::{carriers, mark};
use super::runs::{pick, runner, said};

const BIN: &str = env!("CARGO_BIN_EXE_fake-mcp");
const SOON: Duration = Duration::from_secs(20);

/// The listing that a former process of Toolkeep has left.
#[derive(Debug, Default)]
struct KeptListing(Mutex<Option<Bytes>>);

impl ListingStore for KeptListing {
    fn load_listing(&self) -> BoxFuture<'_, Option<Bytes>> {
        let kept = self.0.lock().unwrap().clone();
        Box::pin(async move { kept })
    }

    fn store_listing(&self, listing: Bytes) -> BoxFuture<'_, ()> {
        *self.0.lock().unwrap() = Some(listing);
        Box::pin(async {})
    }
}

struct LazyTest {
    store: Arc<KeptListing>,
    mark: String,
    folder: tempfile::TempDir,
}

impl LazyTest {
    fn new(name: &str) -> Self {
        let test =
            Self { store: Arc::default(), mark: mark(name), folder: tempfile::tempdir().unwrap() };
        test.describe("Says it again.");
        test
    }

    fn description_file(&self) -> PathBuf {
        self.folder.path().join("description")
    }

    fn describe(&self, text: &str) {
        std::fs::write(self.description_file(), text).unwrap();
    }

    /// The source as a process of Toolkeep has it.
    fn source(&self, mode: &str, idle_stop: Duration) -> McpSource {
        let spec = CommandSpec {
            command: BIN.to_owned(),
            args: vec![mode.to_owned()],
            env: vec![
                ("TK_MARK".to_owned(), self.mark.as_str().into()),
                ("TK_DESCRIPTION".to_owned(), path_text(&self.description_file()).into()),
            ],
            ..CommandSpec::default()
        };
        let launcher = ProcessLauncher::new(PathBuf::from(BIN), vec![OsString::from("__launch")]);
        let limits =
            ServerLimits { shutdown_grace: Duration::from_millis(300), ..ServerLimits::default() };
        let start_mode = StartMode::OnFirstCall { idle_stop };
        let options = McpOptions { limits, start_mode, ..McpOptions::default() };
        let connector = Arc::new(StdioConnector::new(launcher, spec));
        let source = McpSource::with_pipes(SourceName::new("s").unwrap(), options, connector);
        source.with_listing_store(Arc::clone(&self.store) as Arc<dyn ListingStore>)
    }

    /// Lists once and stops, as a former process did.
    async fn list_once(&self) {
        let source = self.source("echo", Duration::from_hours(1));
        source.list_offers().await.unwrap();
        timeout(SOON, source.shut_down()).await.unwrap();
        assert!(self.store.0.lock().unwrap().is_some() && carriers(&self.mark) == 0);
    }
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn description(listing: &SourceListing) -> String {
    let tool = listing.offers.iter().find_map(|offer| match &offer.item {
        CatalogItem::Tool(tool) => Some(tool.description.clone()),
        _ => None,
    });
    tool.unwrap()
}

#[tokio::test]
async fn a_server_is_listed_without_running_and_starts_with_its_first_call() {
    let test = LazyTest::new("lazy");
    test.list_once().await;
    let source = test.source("echo", Duration::from_hours(1));
    let listing = source.list_offers().await.unwrap();
    assert_eq!(description(&listing), "Says it again.");
    assert!(listing.initialize_result.as_ref().unwrap().as_str().contains("fake-mcp"));
    assert_eq!(carriers(&test.mark), 0, "it does not run");
    let echo = pick(&listing, "s.echo");
    assert_eq!(said(&echo.call("{\"n\":1}").await.unwrap()), "{\"n\":1}");
    assert_eq!(carriers(&test.mark), 1);
    assert_eq!(said(&echo.call("{}").await.unwrap()), "{}");
    timeout(SOON, source.shut_down()).await.unwrap();
    assert_eq!(carriers(&test.mark), 0);
}

#[tokio::test]
async fn a_server_that_nobody_uses_is_stopped_and_started_again() {
    let test = LazyTest::new("idle");
    let source = test.source("echo", Duration::from_millis(200));
    // Nothing is stored, so that it is started to be listed.
    let echo = runner(&source, "s.echo").await;
    for _ in 0..3 {
        wait_until("it to stop", || carriers(&test.mark) == 0).await;
        assert_eq!(description(&source.list_offers().await.unwrap()), "Says it again.");
        assert_eq!(carriers(&test.mark), 0, "a list starts nothing");
        assert_eq!(said(&echo.call("{}").await.unwrap()), "{}");
    }
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn a_call_in_flight_keeps_its_server() {
    let test = LazyTest::new("busy");
    let source = test.source("hang-call", Duration::from_millis(100));
    let echo = runner(&source, "s.echo").await;
    let stay = async {
        wait_until("the call", || carriers(&test.mark) == 1).await;
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert_eq!(carriers(&test.mark), 1, "eight idle times long");
        timeout(SOON, source.shut_down()).await.unwrap();
    };
    let (called, ()) = timeout(SOON, async { tokio::join!(echo.call("{}"), stay) }).await.unwrap();
    assert_eq!(called.unwrap_err().code, ErrorCode::UpstreamLost, "it was running to the end");
}

#[tokio::test]
async fn a_definition_that_changed_while_the_server_was_away_is_not_called() {
    let test = LazyTest::new("changed");
    test.list_once().await;
    let source = test.source("echo", Duration::from_hours(1));
    let listing = source.list_offers().await.unwrap();
    test.describe("Sends it to somebody.");
    let error = pick(&listing, "s.echo").call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Conflict, "{error:?}");
    assert!(error.message.contains("has changed since it was listed"), "{error:?}");
    // The catalog learns of it as of any change, and what was reviewed then is called.
    timeout(SOON, source.wait_for_change(listing.revision)).await.unwrap();
    let listing = source.list_offers().await.unwrap();
    assert_eq!(description(&listing), "Sends it to somebody.");
    assert!(pick(&listing, "s.echo").call("{}").await.is_ok(), "the control");
    timeout(SOON, source.shut_down()).await.unwrap();
    let later = test.source("echo", Duration::from_hours(1));
    assert_eq!(description(&later.list_offers().await.unwrap()), "Sends it to somebody.");
}

#[tokio::test]
async fn a_refresh_asks_the_server_and_a_broken_listing_is_no_listing() {
    let test = LazyTest::new("refresh");
    test.list_once().await;
    test.describe("Another text.");
    let source = test.source("echo", Duration::from_hours(1));
    assert_eq!(description(&source.list_offers().await.unwrap()), "Says it again.");
    source.reset_backoff();
    assert_eq!(description(&source.list_offers().await.unwrap()), "Another text.");
    timeout(SOON, source.shut_down()).await.unwrap();
    for broken in ["", "{}", "not JSON", "{\"version\":1,\"items\":[]}"] {
        *test.store.0.lock().unwrap() = Some(Bytes::from_static(broken.as_bytes()));
        let source = test.source("echo", Duration::from_hours(1));
        assert_eq!(description(&source.list_offers().await.unwrap()), "Another text.");
        assert_eq!(carriers(&test.mark), 1, "{broken}: it was started");
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}
