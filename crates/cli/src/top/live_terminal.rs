//! The terminal while `top` runs: another screen, keys without a line end, and the former state when
//! it ends.

use std::io::{self, IsTerminal as _, Stdout};
use std::time::Duration;

use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::rest_client::RestClient;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::time::Instant;

use super::screen;
use super::server_view::ServerView;
use super::top_state::{TopAction, TopState};

/// Time between two looks at the keyboard.
const KEY_INTERVAL: Duration = Duration::from_millis(40);

/// A terminal in raw mode. Dropping it restores the former state.
pub(super) struct LiveTerminal {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        // Both are tried: there is nobody left to tell.
        drop(disable_raw_mode());
        drop(execute!(self.terminal.backend_mut(), LeaveAlternateScreen));
        drop(self.terminal.show_cursor());
    }
}

fn terminal_error(error: &io::Error) -> CommandError {
    CommandError::new(ExitStatus::Failed, format!("the terminal: {error}"))
}

impl LiveTerminal {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// The output is not a terminal, or cannot be controlled.
    pub(super) fn open() -> Result<Self, CommandError> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            let failure = CommandError::new(ExitStatus::UsageError, "this is not a terminal");
            return Err(failure.with_help("pass `--once` to print one screen"));
        }
        enable_raw_mode().map_err(|error| terminal_error(&error))?;
        let mut out = io::stdout();
        let entered = execute!(out, EnterAlternateScreen);
        let terminal = entered.and_then(|()| Terminal::new(CrosstermBackend::new(out)));
        match terminal {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                drop(disable_raw_mode());
                Err(terminal_error(&error))
            }
        }
    }

    /// Shows the server until `q` is pressed.
    ///
    /// # Errors
    /// The terminal cannot be read or written.
    pub(super) async fn run(
        mut self,
        client: &RestClient,
        every: Duration,
    ) -> Result<(), CommandError> {
        let mut state = TopState::new(ServerView::fetch(client).await);
        let mut fetched_at = Instant::now();
        let mut is_drawn = false;
        loop {
            if !is_drawn {
                let drawn = self.terminal.draw(|frame| screen::draw(frame, &state));
                drawn.map_err(|error| terminal_error(&error))?;
                is_drawn = true;
            }
            if let Some(key) = read_key().map_err(|error| terminal_error(&error))? {
                is_drawn = false;
                match self.handle_key(&mut state, key) {
                    TopAction::Quit => return Ok(()),
                    TopAction::Redraw => continue,
                    TopAction::Refresh => {}
                    TopAction::Decide(decision) => {
                        state.set_message(decision.send(client).await);
                    }
                }
            } else if fetched_at.elapsed() < every {
                tokio::time::sleep(KEY_INTERVAL).await;
                continue;
            }
            state.replace_view(ServerView::fetch(client).await);
            (fetched_at, is_drawn) = (Instant::now(), false);
        }
    }

    /// Handles a key. A call whose arguments do not fit on the screen is not approved here.
    fn handle_key(&self, state: &mut TopState, key: KeyCode) -> TopAction {
        let width = self.terminal.size().map_or(0, |size| size.width);
        let is_cut = state
            .selected_approval()
            .is_some_and(|approval| !screen::shows_all_arguments(approval, width));
        if key == KeyCode::Char('a') && is_cut {
            let message =
                "the arguments do not fit here: see `toolkeep approval show`, or the console";
            state.set_message(message.to_owned());
            return TopAction::Redraw;
        }
        state.handle_key(key)
    }
}

/// Returns a key that was pressed, without waiting. Control-C is `q`; a new size is a key without
/// an effect.
fn read_key() -> io::Result<Option<KeyCode>> {
    while event::poll(Duration::ZERO)? {
        match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Press => {
                let is_interrupt =
                    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                return Ok(Some(if is_interrupt { KeyCode::Char('q') } else { key.code }));
            }
            Event::Resize(..) => return Ok(Some(KeyCode::Null)),
            _ => {}
        }
    }
    Ok(None)
}
