//! The screen as widgets. Every text of the server is sanitized: it moves no cursor and hides
//! nothing.

use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::{Modifier, Style};
use ratatui_core::terminal::{Frame, Terminal};
use ratatui_core::text::{Line, Span};
use ratatui_core::widgets::Widget as _;
use ratatui_widgets::block::Block;
use ratatui_widgets::paragraph::{Paragraph, Wrap};
use serde_json::Value;

use cli_core::json_fields;
use cli_core::printer::{sanitize_line, sanitize_text};

use super::server_view::ViewPart;
use super::top_state::TopState;
use crate::record::record_row;

/// Size of a screen that is printed as text.
const TEXT_SIZE: (u16, u16) = (120, 40);
/// Maximum characters of a line; the widgets cut it at the edge.
const MAX_LINE: usize = 400;

/// Draws all parts of the screen.
pub(super) fn draw(frame: &mut Frame<'_>, state: &TopState) {
    let area = frame.area();
    let attention = part_height(&state.view().attention, 5);
    let approvals = part_height(&state.view().approvals, 8);
    let [head, urgent, waiting, arguments, sources, calls, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(attention),
        Constraint::Length(approvals),
        Constraint::Length(if state.selected_approval().is_some() { 6 } else { 0 }),
        Constraint::Length(part_height(&state.view().sources, 4)),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    let buffer = frame.buffer_mut();
    Line::from(activity_line(&state.view().minutes)).render(head, buffer);
    draw_part(buffer, urgent, "Needs attention", &state.view().attention, attention_line);
    draw_approvals(buffer, waiting, state);
    draw_arguments(buffer, arguments, state);
    draw_part(buffer, sources, "Sources with problems", &state.view().sources, source_line);
    draw_part(buffer, calls, "Records, newest first", &state.view().records, call_line);
    Line::from(foot_line(state)).render(foot, buffer);
}

/// Renders one screen as text.
pub(super) fn render_text(state: &TopState) -> String {
    let (width, height) = TEXT_SIZE;
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(drawn) = terminal.draw(|frame| draw(frame, state));
    let cells = drawn.buffer.content().chunks(usize::from(width));
    let lines = cells.map(|row| {
        let line: String = row.iter().map(Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Height of a part with its border, between one line and `max` lines.
fn part_height(part: &ViewPart, max: u16) -> u16 {
    let lines = match part {
        ViewPart::Entries(entries) => u16::try_from(entries.len()).unwrap_or(max),
        ViewPart::Error { .. } => 1,
    };
    lines.clamp(1, max) + 1
}

fn titled(title: &str) -> Block<'_> {
    let style = Style::new().add_modifier(Modifier::BOLD);
    Block::new().title(Span::styled(title, style))
}

fn draw_part(
    buffer: &mut Buffer,
    area: Rect,
    title: &str,
    part: &ViewPart,
    line: fn(&Value) -> String,
) {
    let block = titled(title);
    let inner = block.inner(area);
    block.render(area, buffer);
    let lines: Vec<_> = match part {
        ViewPart::Entries(entries) => entries.iter().map(line).map(Line::from).collect(),
        ViewPart::Error { error } => vec![Line::from(sanitize_line(error, MAX_LINE))],
    };
    let lines = if lines.is_empty() { vec![Line::from("none")] } else { lines };
    Paragraph::new(lines).render(inner, buffer);
}

fn draw_approvals(buffer: &mut Buffer, area: Rect, state: &TopState) {
    let ViewPart::Entries(approvals) = &state.view().approvals else {
        return draw_part(buffer, area, "Approvals", &state.view().approvals, approval_line);
    };
    let title = format!("Approvals ({})", approvals.len());
    let block = titled(&title);
    let inner = block.inner(area);
    block.render(area, buffer);
    // The selected one stays in sight.
    let height = usize::from(inner.height).max(1);
    let first = (state.selected_index() + 1).saturating_sub(height);
    let lines = approvals.iter().enumerate().skip(first).take(height).map(|(index, approval)| {
        let is_selected = index == state.selected_index();
        let line = Line::from(format!(
            "{} {}",
            if is_selected { ">" } else { " " },
            approval_line(approval)
        ));
        let style = if is_selected { Modifier::REVERSED } else { Modifier::empty() };
        line.style(Style::new().add_modifier(style))
    });
    let lines: Vec<_> = lines.collect();
    let lines = if lines.is_empty() { vec![Line::from("no call waits")] } else { lines };
    Paragraph::new(lines).render(inner, buffer);
}

fn draw_arguments(buffer: &mut Buffer, area: Rect, state: &TopState) {
    let Some(approval) = state.selected_approval() else { return };
    let block = titled("Arguments of the selected call");
    let inner = block.inner(area);
    block.render(area, buffer);
    let text = shown_arguments(approval);
    Paragraph::new(text).wrap(Wrap { trim: false }).render(inner, buffer);
}

/// The arguments with invisible characters in letters.
fn shown_arguments(approval: &Value) -> String {
    let text = approval.get("arguments").map(Value::to_string).unwrap_or_default();
    sanitize_text(&json::escape_invisible_text(&text).unwrap_or(text))
}

/// Whether the arguments of an approval fit on a screen of this width, with room for lines that end
/// between words.
pub(super) fn shows_all_arguments(approval: &Value, width: u16) -> bool {
    let text = shown_arguments(approval);
    let cells = text.chars().map(|c| if c.is_ascii() { 1 } else { 2 });
    cells.sum::<usize>() <= usize::from(width) * 3
}

fn activity_line(minutes: &ViewPart) -> String {
    let Some(last) = minutes.entries().last() else {
        return "toolkeep top: the first minute has not passed yet".to_owned();
    };
    let count = |key| json_fields::field_line(last, key, 20);
    let mean = count("mean_ms");
    let mean = if mean.is_empty() { mean } else { format!(", mean {mean} ms") };
    format!(
        "last minute: {} calls, {} failed, {} refused{mean}",
        count("calls"),
        count("failed"),
        count("refused")
    )
}

fn attention_line(entry: &Value) -> String {
    let line = |key, width| json_fields::field_line(entry, key, width);
    format!("{}: {}", line("urgency", 10), line("message", MAX_LINE))
}

fn approval_line(approval: &Value) -> String {
    let line = |key, width| json_fields::field_line(approval, key, width);
    let caller =
        approval.get("caller").map(|caller| json_fields::field_line(caller, "subject", 24));
    format!("{}  {}  {}", line("tool", 60), caller.unwrap_or_default(), line("reason_text", 200))
}

fn source_line(source: &Value) -> String {
    let line = |key, width| json_fields::field_line(source, key, width);
    let problems = json_fields::field_items(source, "problems");
    let first = problems.first().map(|problem| json_fields::field_line(problem, "message", 300));
    format!("{}: {}  {}", line("name", 60), line("state", 10), first.unwrap_or_default())
}

fn call_line(record: &Value) -> String {
    let row = record_row(record);
    format!(
        "{:<24}  {:<8}  {:<32}  {:<16}  {}",
        row.time, row.kind, row.tool, row.subject, row.result
    )
}

fn foot_line(state: &TopState) -> String {
    if let Some(decision) = state.unconfirmed() {
        let word = if decision.is_approval { "approve" } else { "deny" };
        return format!("{word} the call of {}? y: yes, any other key: no", decision.tool);
    }
    if state.shows_help() {
        return "j, k: select   a y: approve   d y: deny   r: refresh   q: quit   ?: fewer words"
            .to_owned();
    }
    match state.message() {
        "" => "?: keys   q: quit".to_owned(),
        message => sanitize_line(message, MAX_LINE),
    }
}
