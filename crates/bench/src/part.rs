//! The parts around the product, each a process of its own: `bench part NAME …`.

mod bytes;
mod node;
mod pass;
mod upstream;

use tokio::signal::unix::{SignalKind, signal};

use crate::serve::listen;

/// Plays one part until it is asked to end, so that what was watched of it is written, or the parent ends.
pub(crate) async fn run(words: &[&str]) -> Result<(), String> {
    // A part must never outlive the measurement, however that ends.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|e| format!("cannot ask for an end with the parent: {e}"))?;
    let mut end = signal(SignalKind::terminate()).map_err(|e| format!("no signals: {e}"))?;
    tokio::select! {
        _ = end.recv() => Ok(()),
        played = play(words) => played,
    }
}

async fn play(words: &[&str]) -> Result<(), String> {
    match words {
        ["upstream", tools] => {
            let tools = tools.parse().map_err(|_| format!("`{tools}` is no number of tools"))?;
            upstream::run(listen().await?, tools).await
        }
        ["pass", to] => {
            let to = to.parse().map_err(|_| format!("`{to}` is no address"))?;
            pass::run(listen().await?, to).await
        }
        ["node"] => node::run(listen().await?).await,
        ["bytes", file] => bytes::run(listen().await?, file).await,
        _ => Err(format!("`{}` is no part", words.join(" "))),
    }
}

#[cfg(test)]
mod tests;
