//! Tests against rmcp's own server, in each of its configurations.

use std::time::Duration;

use rmcp::transport::StreamableHttpServerConfig;
use source_mcp::{EraSelection, McpOptions};
use tokio::time::timeout;
use tool::executor::DispatchState;
use tool::{ErrorCode, Source as _};

use super::peer::names;
use super::runs::{Watch, runner, said};
use super::site::{Echo, Site};

const SOON: Duration = Duration::from_secs(20);

fn speaking(dialect: EraSelection) -> McpOptions {
    McpOptions { era_selection: dialect, ..McpOptions::default() }
}

/// Configurations: sessions with event streams, JSON without sessions, and the newest version.
fn manners(echo: &Echo) -> Vec<(Site, McpOptions, &'static str)> {
    let sessions = StreamableHttpServerConfig::default();
    let plain = sessions.clone().with_legacy_session_mode(false).with_json_response(true);
    vec![
        (echo.site(sessions.clone()), speaking(EraSelection::Detect), "sessions"),
        (echo.site(plain), speaking(EraSelection::Detect), "plain"),
        (echo.site(sessions), speaking(EraSelection::Stateless), "2026-07-28"),
    ]
}

#[tokio::test]
async fn lists_calls_and_progress_in_every_manner() {
    for (site, options, manner) in manners(&Echo::default()) {
        let source = site.source(options);
        assert_eq!(names(&source).await, ["web.echo", "web.slow", "web.steps"], "{manner}");
        let echo = runner(&source, "web.echo").await;
        assert_eq!(
            said(&echo.call(r#"{"a":[1,"é"]}"#).await.unwrap()),
            r#"{"a":[1,"é"]}"#,
            "{manner}"
        );
        let watch = Watch::default();
        let steps = runner(&source, "web.steps").await;
        assert_eq!(said(&steps.watched("{}", &watch).await.unwrap()), "done", "{manner}");
        let told = watch.progress.lock().unwrap().clone();
        assert_eq!(told, [(1.0, Some(2.0), None), (2.0, Some(2.0), None)], "{manner}");
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}

#[tokio::test]
async fn cancelling_reaches_the_server_in_every_manner() {
    let echo = Echo::default();
    for (site, options, manner) in manners(&echo) {
        if manner == "plain" {
            // Without sessions a handshake-era server cannot identify the cancelled call.
            continue;
        }
        let source = site.source(options);
        let slow = runner(&source, "web.slow").await;
        let watch = Watch::default();
        let (result, ()) = tokio::join!(slow.watched("{}", &watch), async {
            timeout(SOON, echo.begun.notified()).await.expect(manner);
            watch.cancel.cancel();
        });
        assert_eq!(result.unwrap_err().code, ErrorCode::Cancelled, "{manner}");
        timeout(SOON, echo.cancelled.notified()).await.expect(manner);
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}

#[tokio::test]
async fn changed_lists_are_news_where_the_server_can_tell() {
    for (index, dialect) in [EraSelection::Detect, EraSelection::Stateless].into_iter().enumerate()
    {
        let echo = Echo::default();
        let site = echo.site(StreamableHttpServerConfig::default());
        let source = site.source(speaking(dialect));
        let seen = source.list_offers().await.unwrap().revision;
        // The server stream is opened in parallel with the first listing.
        let news = async {
            loop {
                echo.grow().await;
                if timeout(Duration::from_millis(200), source.wait_for_change(seen)).await.is_ok() {
                    return;
                }
            }
        };
        timeout(SOON, news).await.unwrap_or_else(|_| panic!("no news {index}"));
        assert!(names(&source).await.contains(&"web.extra0".to_owned()));
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    for (site, options, manner) in manners(&Echo::default()) {
        let source = site.source(options);
        let echo = runner(&source, "web.echo").await;
        for n in 0..200 {
            let args = format!("{{\"n\":{n}}}");
            assert_eq!(said(&echo.call(&args).await.unwrap()), args, "{manner}");
        }
        // One connection for calls, one for the server stream, and those of the start.
        assert!(site.connections() <= 8, "{manner}: {}", site.connections());
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}

#[tokio::test]
async fn many_calls_at_once_over_http() {
    for (site, options, manner) in manners(&Echo::default()) {
        let source = site.source(options);
        let echo = runner(&source, "web.echo").await;
        let calls = (0..100).map(|n| {
            let echo = echo.clone();
            async move {
                said(&echo.call(&format!("{{\"n\":{n}}}")).await.unwrap())
                    == format!("{{\"n\":{n}}}")
            }
        });
        let right = futures_util::future::join_all(calls).await;
        assert!(right.iter().all(|right| *right), "{manner}");
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_found_again() {
    let echo = Echo::default();
    let site = echo.site(StreamableHttpServerConfig::default());
    let address = site.address.to_string();
    let source = site.source(McpOptions::default());
    let seen = source.list_offers().await.unwrap().revision;
    let tool = runner(&source, "web.echo").await;
    drop(site);
    // A call on a connection that is being closed may have been received; the next ones were not.
    let lost = async {
        loop {
            let error = tool.call("{}").await.unwrap_err();
            assert!(error.message.starts_with("the source `web`: "), "{error}");
            if error.dispatch == DispatchState::NotSent {
                return error;
            }
        }
    };
    assert_eq!(timeout(SOON, lost).await.unwrap().code, ErrorCode::UpstreamLost);
    // The server is back at its address, without the old session.
    let _site = echo.site_at(&address, StreamableHttpServerConfig::default());
    assert_eq!(said(&timeout(SOON, tool.call("{}")).await.unwrap().unwrap()), "{}");
    // Its tools may have changed.
    timeout(SOON, source.wait_for_change(seen)).await.unwrap();
    timeout(SOON, source.shut_down()).await.unwrap();
}
