//! The client side of the conformance suites, with Toolkeep as the client: a program that the suite
//! starts with the URL of a server. It starts a Toolkeep with that server as its only source and
//! runs the scenario through it.

mod argument_headers;
mod oauth_steps;
mod scenario_steps;
mod toolkeep_client;
mod toolkeep_process;

pub(crate) use argument_headers::encode_base64;

use std::process::ExitCode;

use serde_json::Value;

/// Runs `driver TOOLKEEP URL`, or `driver direct URL` to call the server without Toolkeep, as a
/// control that the driver runs the scenario correctly. The suite passes the scenario and its data
/// in the environment.
#[tokio::main(flavor = "current_thread")]
#[expect(clippy::disallowed_methods, reason = "the suite speaks by variables")]
pub async fn run_driver() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [program, url] = words.as_slice() else {
        eprintln!("driver TOOLKEEP|direct URL");
        return ExitCode::from(2);
    };
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let mut context: Value = serde_json::from_str(&context).unwrap_or_default();
    if context.is_null() {
        context = serde_json::json!({});
    }
    context["scenario"] = scenario.clone().into();
    match run_scenario(program, url, &scenario, &context).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{scenario}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run_scenario(
    program: &str,
    url: &str,
    scenario: &str,
    context: &Value,
) -> Result<(), String> {
    if program == "direct" {
        return scenario_steps::run_steps(
            &toolkeep_client::ToolkeepClient::for_server(url),
            scenario,
            context,
        )
        .await;
    }
    let toolkeep = toolkeep_process::ToolkeepProcess::start_process(program, url, context)?;
    let done = match toolkeep.connect_client().await {
        Ok(door) if scenario.starts_with("auth/") => {
            oauth_steps::run_authorized(&toolkeep, &door, scenario).await
        }
        Ok(door) => scenario_steps::run_steps(&door, scenario, context).await,
        Err(error) => Err(error),
    };
    let said = toolkeep.stop_process().await;
    done.map_err(|error| format!("{error}\n{said}"))
}
