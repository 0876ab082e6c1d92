//! Scenarios for servers that require tokens, with a simulated user. If Toolkeep names `toolkeep
//! source login`, the user runs it and opens the printed URL. The browser is a plain HTTP client.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use bytes::Bytes;
use http::header::{HOST, LOCATION};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::scenario_steps;
use super::toolkeep_client::ToolkeepClient;
use super::toolkeep_process::{SOURCE_NAME, ToolkeepProcess};
use crate::http_client;

/// Maximum number of logins, more than any server should need.
const MAX_ATTEMPTS: usize = 5;
/// The URL of the client metadata document of the suite.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";
/// The command that Toolkeep prints for a login.
const LOGIN_COMMAND: &str = "toolkeep source login it";

/// The `oauth` settings of the source for the scenario, as an operator would configure them.
pub(super) fn oauth_settings(context: &Value, folder: &Path) -> Result<Option<Value>, String> {
    let get = |name: &str| context[name].as_str();
    let scenario = get("scenario").unwrap_or_default();
    let mut oauth = json!({});
    if let Some(id) = get("client_id") {
        oauth["client_id"] = json!(id);
    }
    if let Some(secret) = get("client_secret") {
        oauth["client_secret"] = json!(secret);
    }
    if let Some(pem) = get("private_key_pem") {
        let file = folder.join("key.pem");
        std::fs::write(&file, pem).map_err(|error| error.to_string())?;
        oauth["private_key_file"] = json!("key.pem");
    }
    if scenario.starts_with("auth/client-credentials") {
        oauth["grant"] = json!("client_credentials");
    }
    if matches!(scenario, "auth/basic-cimd" | "auth/offline-access-scope") {
        oauth["client_metadata"] = json!(CLIENT_METADATA_URL);
    }
    if scenario.starts_with("auth/") {
        // The authorization servers of the suite use random ports.
        oauth["any_loopback_port"] = json!(true);
    }
    Ok(oauth.as_object().filter(|members| !members.is_empty()).map(|_| oauth.clone()))
}

/// Uses the server until it works or no further login is possible.
pub(super) async fn run_authorized(
    toolkeep: &ToolkeepProcess,
    client: &ToolkeepClient,
    scenario: &str,
) -> Result<(), String> {
    // A server that changes its requirements shows that only on the second use.
    let mut more = usize::from(scenario == "auth/authorization-server-migration");
    let mut done = Err("not tried".to_owned());
    for _ in 0..MAX_ATTEMPTS {
        done = try_scenario(toolkeep, client).await;
        match &done {
            Ok(()) if more > 0 => more -= 1,
            Err(why) if why.contains(LOGIN_COMMAND) => log_in(toolkeep).await?,
            _ => return done,
        }
    }
    done
}

/// Lists and calls the tools; returns the problem, if any.
async fn try_scenario(toolkeep: &ToolkeepProcess, client: &ToolkeepClient) -> Result<(), String> {
    let problems = client.source_problems(&toolkeep.owner_key()).await?;
    if problems.contains(LOGIN_COMMAND) {
        return Err(problems);
    }
    let said = scenario_steps::call_all_tools(client).await?;
    if said.contains(LOGIN_COMMAND) { Err(said) } else { Ok(()) }
}

/// Performs the login as the user.
async fn log_in(toolkeep: &ToolkeepProcess) -> Result<(), String> {
    let mut command = toolkeep.operator_command(&["source", "login", SOURCE_NAME]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(error_text)?;
    let said = child.stderr.take().ok_or("no standard error")?;
    let mut lines = BufReader::new(said).lines();
    let mut heard = String::new();
    let url = loop {
        let Some(Ok(line)) = lines.next() else { break None };
        if let Some(url) = line.trim().strip_prefix("http").filter(|_| line.starts_with("  ")) {
            break Some(format!("http{url}"));
        }
        heard.push_str(&line);
        heard.push('\n');
    };
    let followed = match &url {
        Some(url) => follow_redirects(url).await,
        None => Ok(()),
    };
    let ended = child.wait().map_err(error_text)?;
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    followed?;
    if ended.success() { Ok(()) } else { Err(format!("login: {heard}{}", rest.join("\n"))) }
}

/// Follows redirects, as a browser does.
async fn follow_redirects(url: &str) -> Result<(), String> {
    let mut at = url.to_owned();
    for _ in 0..MAX_ATTEMPTS {
        let (authority, path) = http_client::split_url(&at);
        let request = Request::builder().method(Method::GET).uri(path).header(HOST, authority);
        let request = request.body(Full::new(Bytes::new())).map_err(error_text)?;
        let answer = http_client::send_request(authority, request).await.map_err(error_text)?;
        let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
        drop(answer.into_body().collect().await);
        match to {
            Some(to) if to.starts_with("http") => at = to,
            Some(to) => at = format!("http://{}{to}", http_client::split_url(&at).0),
            None => return Ok(()),
        }
    }
    Err(format!("sent on and on: {at}"))
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
