//! `toolkeep serve`: from a configuration to a server, and its end.

use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tool::Problem;

use crate::config::Config;
use crate::data::{DataError, Held, Running};
use crate::wire::{App, Setup, StartError};

/// Why it does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A part of the program.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// An address that others can reach, without TLS.
    #[error("will not listen on {0}: others can reach it, and keys would travel unprotected; \
             listen on 127.0.0.1 and put a TLS proxy in front")]
    Exposed(SocketAddr),
    /// An open server that others can reach.
    #[error("`--open` lets everyone in, so it works on loopback addresses alone")]
    Open,
    /// Signals.
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}

/// What the one who starts it is told.
#[derive(Debug, Clone)]
pub struct Started {
    /// Where it answers.
    pub url: String,
    /// The data directory.
    pub data: PathBuf,
    /// Keys that were made just now, by file.
    pub new_keys: Vec<PathBuf>,
    /// What is wrong and does not keep it from running.
    pub problems: Vec<Problem>,
    /// Tools there are, once every source was asked.
    pub tools: usize,
}

/// Serves until a signal says to stop. `news` brings new configurations, `told` is called once it
/// answers.
///
/// # Errors
/// [`ServeError`] where it cannot begin.
pub async fn serve(
    config: Config,
    setup: Setup,
    news: Option<watch::Receiver<Config>>,
    told: impl FnOnce(&Started),
) -> Result<(), ServeError> {
    if !config.listen.ip().is_loopback() {
        let open = setup.open.is_some();
        return Err(if open { ServeError::Open } else { ServeError::Exposed(config.listen) });
    }
    let held = Held::take(&config.data)?;
    let listener = bind(config.listen).await?;
    let address = listener.local_addr().unwrap_or(config.listen);
    let app = App::start(&config, setup).await?;
    let new_keys = app.first_keys(&held).await?;
    let url = format!("http://{address}");
    held.announce(&Running { url: url.clone(), pid: std::process::id() })?;
    let stop = CancellationToken::new();
    let serving = server::listen(listener, app.router(), stop.clone());
    tokio::pin!(serving);
    let ready = async {
        app.settled().await;
        let (data, tools) = (config.data.clone(), app.tools());
        told(&Started { url, data, new_keys, problems: app.problems.clone(), tools });
        app.follow(news).await;
    };
    tokio::select! {
        () = &mut serving => {}
        () = ready => {}
        ended = asked_to_stop() => ended.map_err(ServeError::Signals)?,
    }
    tracing::info!("stopping: calls in flight may finish; a second signal ends at once");
    stop.cancel();
    tokio::select! {
        () = async { serving.await; app.stop().await; } => {}
        ended = asked_to_stop() => ended.map_err(ServeError::Signals)?,
    }
    drop(held);
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|error| ServeError::Listen { address, error })
}

async fn asked_to_stop() -> std::io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}
