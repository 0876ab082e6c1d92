//! An rmcp server that sends requests to its client and has a prompt and a changing resource.
//! Tested over pipes and HTTP, in both eras.

#![expect(deprecated, reason = "roots and log lines are what many servers have")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, InputRequiredResult, ListPromptsResult,
    ListResourcesResult, ListToolsResult, LoggingLevel, LoggingMessageNotificationParam,
    PaginatedRequestParams, Prompt, ResourceUpdatedNotificationParam, ServerCapabilities,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use source_mcp::{
    ConnectionError, EraSelection, McpOptions, McpSource, PipeConnection, PipeConnector,
    ServerProcess,
};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tool::{BoxFuture, Source as _, SourceName};

use super::runs::{Client, Setup, Watch, body, declares, done, questions, resume, runner, said};
use super::site::Site;

const SOON: Duration = Duration::from_secs(20);

/// Server whose tool `roots` requests the client's roots and returns them, and whose `log` writes a
/// line.
#[derive(Clone)]
struct Curious {
    stateless: bool,
    /// Notified when its resource changes.
    touched: Arc<Notify>,
    /// Current number of subscribers.
    listening: Arc<AtomicUsize>,
}

impl ServerHandler for Curious {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder().enable_tools().enable_prompts().enable_logging();
        let can = can.enable_resources().enable_resources_subscribe();
        ServerConfig::new(can.build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(json!({"type": "object"}).as_object().unwrap().clone());
        let tool = |name: &'static str| Tool::new(name, "", Arc::clone(&schema));
        Ok(ListToolsResult::with_all_items(["roots", "log", "touch"].map(tool).to_vec()))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new("hello", Some("Greets."), None)]))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::default())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match request.name.as_str() {
            "hello" => Ok(GetPromptResult::new(vec![]).into()),
            _ => Err(ErrorData::invalid_params("no such prompt", Some(json!({"x": 1})))),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (touched, listening) = (Arc::clone(&self.touched), Arc::clone(&self.listening));
        listening.fetch_add(1, Ordering::SeqCst);
        drop(TaskTracker::new().spawn(async move {
            while listening.load(Ordering::SeqCst) > 0 {
                touched.notified().await;
                let params = ResourceUpdatedNotificationParam::new(request.uri.clone());
                drop(context.peer.notify_resource_updated(params).await);
            }
        }));
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.listening.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(wanted.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.listening.fetch_add(1, Ordering::SeqCst);
        loop {
            tokio::select! {
                () = context.cancelled() => break,
                () = self.touched.notified() => {
                    drop(context.sink().notify_resource_updated("a:b").await);
                }
            }
        }
        self.listening.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let told =
            |text: String| Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into());
        if request.name == "touch" {
            self.touched.notify_one();
            return told("touched".to_owned());
        }
        if request.name == "log" {
            let line = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!("a line"));
            drop(context.peer.notify_logging_message(line).await);
            return told("logged".to_owned());
        }
        if !self.stateless {
            let roots = context.peer.list_roots().await;
            return told(roots.map_or_else(|e| e.to_string(), |said| said.roots[0].uri.clone()));
        }
        if let Some(answers) = request.input_responses {
            return told(answers["where"]["roots"][0]["uri"].as_str().unwrap().to_owned());
        }
        let asked = json!({"where": {"method": "roots/list"}});
        let asked: BTreeMap<_, _> = serde_json::from_value(asked).unwrap();
        Ok(InputRequiredResult::new(Some(asked), Some("state".to_owned())).into())
    }
}

#[derive(Debug)]
struct Running(AbortHandle);

impl ServerProcess for Running {
    fn wait_for_exit(&mut self) -> BoxFuture<'_, String> {
        Box::pin(std::future::pending())
    }
    fn terminate_process(self: Box<Self>, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.0.abort() })
    }
    fn stderr_tail(&self) -> String {
        String::new()
    }
}

impl fmt::Debug for Curious {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Curious")
    }
}

impl PipeConnector for Curious {
    fn display_address(&self) -> String {
        "`curious`".to_owned()
    }
    fn connect_pipes(&self) -> BoxFuture<'_, Result<PipeConnection, ConnectionError>> {
        let (reader, theirs_out) = tokio::io::duplex(1 << 16);
        let (theirs_in, writer) = tokio::io::duplex(1 << 16);
        let server = self.clone();
        let task = TaskTracker::new().spawn(async move {
            if let Ok(running) = rmcp::serve_server(server, (theirs_in, theirs_out)).await {
                drop(running.waiting().await);
            }
        });
        let process = Box::new(Running(task.abort_handle()));
        Box::pin(async {
            Ok(PipeConnection { reader: Box::new(reader), writer: Box::new(writer), process })
        })
    }
}

/// Test server in one configuration.
struct Stand {
    source: McpSource,
    _site: Option<Site>,
    listening: Arc<AtomicUsize>,
    manner: String,
}

/// Creates the server over pipes and over HTTP, in both eras.
fn everywhere() -> Vec<Stand> {
    let mut all = Vec::new();
    for (dialect, stateless) in [(EraSelection::Handshake, false), (EraSelection::Stateless, true)]
    {
        let new = || Curious { stateless, touched: Arc::default(), listening: Arc::default() };
        let curious = new();
        let options = || McpOptions { era_selection: dialect, ..McpOptions::default() };
        let name = SourceName::new("web").unwrap();
        let pipes = McpSource::with_pipes(name, options(), Arc::new(curious.clone()));
        let (source, listening) = (pipes, curious.listening);
        let manner = format!("pipes {dialect:?}");
        all.push(Stand { source, _site: None, listening, manner });
        let curious = new();
        let listening = Arc::clone(&curious.listening);
        let sessions = Arc::new(LocalSessionManager::default());
        let config = StreamableHttpServerConfig::default();
        let service = StreamableHttpService::new(move || Ok(curious.clone()), sessions, config);
        let site = Site::serve(Router::new().route_service("/mcp", service));
        let source = site.source(options());
        let manner = format!("http {dialect:?}");
        all.push(Stand { source, _site: Some(site), listening, manner });
    }
    all
}

#[tokio::test]
async fn questions_of_rmcps_server_are_answered_live() {
    for Stand { source, _site, manner, .. } in everywhere() {
        let (client, can) = (Client::default(), declares(r#"{"roots":{}}"#));
        let setup = Setup { ask: Some(&client), client: Some(&can), ..Setup::default() };
        let tool = runner(&source, "web.roots").await;
        for _ in 0..3 {
            let step = timeout(SOON, tool.step("{}", setup)).await.expect(&manner).unwrap();
            assert_eq!(said(&done(step)), "file:///home", "{manner}");
        }
        assert_eq!(client.asked.lock().unwrap().len(), 3, "{manner}");
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}

#[tokio::test]
async fn questions_of_rmcps_server_are_answered_between_two_calls() {
    for Stand { source, _site, manner, .. } in everywhere() {
        let can = declares(r#"{"roots":{}}"#);
        let setup = Setup { client: Some(&can), ..Setup::default() };
        let tool = runner(&source, "web.roots").await;
        let first = timeout(SOON, tool.step("{}", setup)).await.expect(&manner).unwrap();
        let asked: serde_json::Value = serde_json::from_str(&questions(&first)).unwrap();
        let (key, question) = asked.as_object().unwrap().iter().next().unwrap();
        assert_eq!(question["method"], "roots/list", "{manner}");
        let answers = json!({key: {"roots": [{"uri": "file:///there"}]}}).to_string();
        let resumed = resume(first, &answers);
        let again = Setup { resume: Some(&resumed), ..setup };
        let second = timeout(SOON, tool.step("{}", again)).await.expect(&manner).unwrap();
        assert_eq!(said(&done(second)), "file:///there", "{manner}");
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}

#[tokio::test]
async fn prompts_and_log_lines_of_rmcps_server() {
    for Stand { source, _site, manner, .. } in everywhere() {
        let get = runner(&source, "mcp.prompts.get").await;
        let outcome = timeout(SOON, get.call(r#"{"name":"hello"}"#)).await.unwrap().unwrap();
        assert!(body(&outcome).contains(r#""messages":[]"#), "{manner}");
        let rpc = get.call(r#"{"name":"other"}"#).await.unwrap_err().rpc_error.expect(&manner);
        assert_eq!((rpc.code, &*rpc.message), (-32602, "no such prompt"), "{manner}");
        assert_eq!(rpc.data.unwrap().as_str(), r#"{"x":1}"#);

        let watch = Watch::default();
        // Since 2026-07-28, each call requests its log level.
        let meta = super::runs::json(r#"{"io.modelcontextprotocol/logLevel":"debug"}"#);
        let setup = Setup { watch: Some(&watch), meta: Some(&meta), ..Setup::default() };
        let step = runner(&source, "web.log").await.step("{}", setup).await.unwrap();
        assert_eq!(said(&done(step)), "logged");
        let heard = watch.notices.lock().unwrap().clone();
        if manner == "http Handshake" {
            // rmcp sends it on the server stream, which may be slower than the answer.
            assert!(heard.len() <= 1);
            continue;
        }
        assert_eq!(heard.len(), 1, "{manner}");
        assert_eq!(
            (&*heard[0].0, &heard[0].1["data"]),
            ("notifications/message", &json!("a line"))
        );
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}

#[tokio::test]
async fn resources_of_rmcps_server_are_listened_to_and_left() {
    for Stand { source, _site, listening, manner } in everywhere() {
        let subscribe = runner(&source, "mcp.resources.subscribe").await;
        let touch = runner(&source, "web.touch").await;
        let watch = Watch::default();
        let (ended, ()) = tokio::join!(subscribe.watched(r#"{"uri":"a:b"}"#, &watch), async {
            let begun = watch.heard("notifications/subscriptions/acknowledged", 1);
            timeout(SOON, begun).await.expect(&manner);
            for count in 1..4 {
                touch.call("{}").await.unwrap();
                let told = watch.heard("notifications/resources/updated", count);
                timeout(SOON, told).await.expect(&manner);
            }
            assert_eq!(listening.load(Ordering::SeqCst), 1, "{manner}");
            watch.cancel.cancel();
        });
        assert_eq!(body(&ended.unwrap()), "{}", "{manner}");
        let left = async {
            while listening.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, left).await.expect(&manner);
        timeout(SOON, source.shut_down()).await.unwrap();
    }
}
