//! The calls of a program as a waterfall: each as a bar from its start to its end.

use server_core::child_calls::{ChildCallReply, ChildCallsReply};

use crate::html::{Element, element, link, text_element};
use crate::page_layout::data_table;
use crate::record_view::call_path;

/// Width of the drawing in its own units.
const WIDTH: u64 = 1_000;
/// Height of a bar in its own units.
const HEIGHT: u64 = 10;
/// Minimum width of a bar, so that a short call is visible.
const MIN_BAR: u64 = 4;

/// Renders the calls that a call made; `None` without any.
pub(crate) fn waterfall(children: &ChildCallsReply) -> Option<Element> {
    if children.calls.is_empty() {
        return None;
    }
    let start = children.calls.iter().map(|call| call.offset_ms).min().unwrap_or_default();
    let span = children.calls.iter().map(|call| end_of(call).saturating_sub(start)).max();
    let span = span.unwrap_or_default().max(1);
    let rows = children.calls.iter().map(|call| call_row(call, start, span));
    let titles = ["Tool", "Status", "Start", "Duration", "Time"];
    let table = data_table("Calls that it made", &titles, rows);
    let message = "These are the newest calls; older ones are in the record.";
    let hint = (!children.complete).then(|| text_element("p", message).class("hint"));
    Some(element("div").child(text_element("h2", "Calls")).child(table).children(hint))
}

/// End of a call in milliseconds. One that still runs has no length.
fn end_of(call: &ChildCallReply) -> u64 {
    call.offset_ms.saturating_add(call.elapsed_ms.unwrap_or_default())
}

fn call_row(call: &ChildCallReply, start: u64, span: u64) -> Element {
    let tool = link(call_path(call.call_id), &call.tool).attr("data-open", "");
    let code = call.code.map(|code| format!(", {}", code.as_str())).unwrap_or_default();
    let status = format!("{}{code}", call.status.as_str());
    let elapsed = call.elapsed_ms.map(|ms| format!("{ms} ms")).unwrap_or_default();
    let offset = call.offset_ms.saturating_sub(start);
    let bar = bar(offset, call.elapsed_ms.unwrap_or_default(), span);
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(element("th").attr("scope", "row").child(tool))
        .child(text_element("td", &status))
        .child(text_element("td", &format!("+{offset} ms")))
        .child(text_element("td", &elapsed))
        .child(element("td").class("bar").child(bar))
}

/// Draws a bar. The numbers are in the other cells of its row.
fn bar(offset: u64, elapsed: u64, span: u64) -> Element {
    let scale = |ms: u64| ms.saturating_mul(WIDTH) / span;
    let width = scale(elapsed).clamp(MIN_BAR, WIDTH);
    let x = scale(offset).min(WIDTH - width);
    let bar = element("rect")
        .attr("x", x.to_string())
        .attr("y", "0")
        .attr("width", width.to_string())
        .attr("height", HEIGHT.to_string());
    element("svg")
        .attr("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .attr("preserveAspectRatio", "none")
        .attr("aria-hidden", "true")
        .child(bar)
}

#[cfg(test)]
mod tests {
    use server_core::child_calls::{ChildCallReply, ChildCallsReply};
    use tool::CallId;
    use tool::call_outcome::CallStatus;

    use super::waterfall;

    fn call(offset_ms: u64, elapsed_ms: Option<u64>) -> ChildCallReply {
        ChildCallReply {
            call_id: CallId(uuid::Uuid::from_u128(u128::from(offset_ms))),
            status: CallStatus::Succeeded,
            tool: "t".to_owned(),
            chain_index: None,
            started: String::new(),
            offset_ms,
            elapsed_ms,
            code: None,
        }
    }

    #[test]
    fn a_bar_is_where_its_time_is() {
        let calls = vec![call(1_000, Some(500)), call(1_500, Some(500)), call(2_000, None)];
        let drawn = waterfall(&ChildCallsReply { calls, complete: true }).unwrap();
        let html = drawn.render_document();
        for bar in [
            r#"<rect x="0" y="0" width="500""#,
            r#"<rect x="500" y="0" width="500""#,
            r#"<rect x="996" y="0" width="4""#,
        ] {
            assert!(html.contains(bar), "{bar}: {html}");
        }
        assert!(html.contains("+500 ms") && !html.contains("newest"), "{html}");
        // All at once, and none.
        let calls = vec![call(u64::MAX, Some(u64::MAX)), call(u64::MAX, Some(0))];
        let html = waterfall(&ChildCallsReply { calls, complete: false }).unwrap();
        assert!(html.render_document().contains("newest"));
        assert!(waterfall(&ChildCallsReply { calls: Vec::new(), complete: true }).is_none());
    }
}
