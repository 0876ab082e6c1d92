//! The state between two screens: the selected approval, and a decision that waits for its second
//! key.

use ratatui_crossterm::crossterm::event::KeyCode;
use serde_json::Value;

use cli_core::json_fields;

use super::server_view::{Decision, ServerView};

/// An action that a key asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopAction {
    /// Only the screen changes.
    Redraw,
    /// The server is asked at once.
    Refresh,
    Decide(Decision),
    Quit,
}

/// The state of the command.
#[derive(Debug)]
pub(super) struct TopState {
    view: ServerView,
    /// Index of the selected approval.
    selected: usize,
    /// A decision that waits for `y`.
    unconfirmed: Option<Decision>,
    /// The result of the last decision.
    message: String,
    shows_help: bool,
}

impl TopState {
    pub(super) fn new(view: ServerView) -> Self {
        Self { view, selected: 0, unconfirmed: None, message: String::new(), shows_help: false }
    }

    pub(super) fn view(&self) -> &ServerView {
        &self.view
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn shows_help(&self) -> bool {
        self.shows_help
    }

    pub(super) fn unconfirmed(&self) -> Option<&Decision> {
        self.unconfirmed.as_ref()
    }

    pub(super) fn set_message(&mut self, message: String) {
        self.message = message;
    }

    /// The approval that is selected.
    pub(super) fn selected_approval(&self) -> Option<&Value> {
        self.view.approvals.entries().get(self.selected)
    }

    pub(super) fn selected_index(&self) -> usize {
        self.selected
    }

    /// Shows a newer view. The selection stays with its call. A decision that waits for its second
    /// key ends if its call is no longer there, or has other arguments.
    pub(super) fn replace_view(&mut self, view: ServerView) {
        let id = self.selected_approval().map(|approval| field(approval, "id"));
        self.view = view;
        let approvals = self.view.approvals.entries();
        let at = approvals.iter().position(|approval| Some(field(approval, "id")) == id);
        self.selected = at.unwrap_or(self.selected).min(approvals.len().saturating_sub(1));
        let still_there = self
            .unconfirmed
            .as_ref()
            .is_none_or(|decision| approvals.iter().any(|approval| is_about(decision, approval)));
        if !still_there {
            self.unconfirmed = None;
            "the call is no longer pending with these arguments".clone_into(&mut self.message);
        }
    }

    /// Handles a key, and says what to do.
    pub(super) fn handle_key(&mut self, key: KeyCode) -> TopAction {
        if let Some(decision) = self.unconfirmed.take() {
            // Any other key than the second one is a no.
            return if key == KeyCode::Char('y') {
                TopAction::Decide(decision)
            } else {
                "not decided".clone_into(&mut self.message);
                TopAction::Redraw
            };
        }
        let last = self.view.approvals.entries().len().saturating_sub(1);
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return TopAction::Quit,
            KeyCode::Char('r') => return TopAction::Refresh,
            KeyCode::Char('j') | KeyCode::Down => self.selected = (self.selected + 1).min(last),
            KeyCode::Char('k') | KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Char('a') => self.unconfirmed = self.decide_selected(true),
            KeyCode::Char('d') => self.unconfirmed = self.decide_selected(false),
            KeyCode::Char('?') => self.shows_help = !self.shows_help,
            _ => {}
        }
        TopAction::Redraw
    }

    fn decide_selected(&mut self, is_approval: bool) -> Option<Decision> {
        self.message.clear();
        let approval = self.selected_approval()?;
        Some(Decision {
            id: field(approval, "id"),
            tool: field(approval, "tool"),
            is_approval,
            arguments_sha256: field(approval, "arguments_sha256"),
        })
    }
}

/// Whether a decision is about this call with these arguments.
fn is_about(decision: &Decision, approval: &Value) -> bool {
    field(approval, "id") == decision.id
        && field(approval, "arguments_sha256") == decision.arguments_sha256
}

fn field(value: &Value, key: &str) -> String {
    json_fields::field_line(value, key, 128)
}
