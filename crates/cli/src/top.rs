//! Implements `toolkeep top`, which shows a running server in the terminal and decides approvals.

mod live_terminal;
mod screen;
mod server_view;
mod top_state;

use std::time::Duration;

use clap::Args;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use cli_core::server_connection::START_SERVER;

use live_terminal::LiveTerminal;
use server_view::ServerView;
use top_state::TopState;

/// Watch a server in the terminal: what needs a person, approvals, sources and calls.
///
/// Requires a running server. `a` and then `y` approves the selected call, `d` and then `y` denies
/// it; `?` lists the keys. Parts for which the key has no right say so.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep top
  toolkeep top --once
  toolkeep top --url http://127.0.0.1:8080 --every-ms 500")]
pub(crate) struct TopArgs {
    /// Polling interval in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(100..=60_000))]
    every_ms: u64,
    /// Print one screen and exit. Needs no terminal.
    #[arg(long)]
    once: bool,
}

impl TopArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let why = "no server is running to watch";
        let session = context.connect().await?.require_running(why, START_SERVER).await?;
        let watched = if self.once {
            let view = ServerView::fetch(&session.client).await;
            let state = TopState::new(view);
            ui.print_result(state.view(), || screen::render_text(&state))
        } else {
            LiveTerminal::open()?.run(&session.client, Duration::from_millis(self.every_ms)).await
        };
        session.close().await?;
        watched.map(|()| ExitStatus::Success)
    }
}

#[cfg(test)]
mod tests;
