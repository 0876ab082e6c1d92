//! Helper processes around the measured server: `bench part NAME …`.

mod bare_proxy;
mod echo_node;
mod echo_server;
mod static_server;

use tokio::signal::unix::{SignalKind, signal};

use crate::http_loop::listen_announced;

/// Runs one helper process until SIGTERM, so that a profiler can write its data, or until the
/// parent ends.
pub(crate) async fn run_helper(args: &[&str]) -> Result<(), String> {
    // A helper process must never outlive the measurement, however that ends.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|e| format!("cannot ask for an end with the parent: {e}"))?;
    let mut end = signal(SignalKind::terminate()).map_err(|e| format!("no signals: {e}"))?;
    tokio::select! {
        _ = end.recv() => Ok(()),
        played = play_part(args) => played,
    }
}

async fn play_part(words: &[&str]) -> Result<(), String> {
    match words {
        ["upstream", tools] => {
            let tools = tools.parse().map_err(|_| format!("`{tools}` is no number of tools"))?;
            echo_server::serve_tools(listen_announced().await?, tools).await
        }
        ["pass", to] => {
            let to = to.parse().map_err(|_| format!("`{to}` is no address"))?;
            bare_proxy::serve_proxy(listen_announced().await?, to).await
        }
        ["node"] => echo_node::serve_node(listen_announced().await?).await,
        ["bytes", file] => static_server::serve_bytes(listen_announced().await?, file).await,
        _ => Err(format!("`{}` is no part", words.join(" "))),
    }
}

#[cfg(test)]
mod tests;
