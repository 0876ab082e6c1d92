//! Small charts of the last hour: calls, failures, and mean duration.

use server_core::call_activity::MinuteActivity;

use crate::html::{Element, element, text_element};

/// Size of a chart in the units of its drawing.
const WIDTH: u64 = 240;
const HEIGHT: u64 = 48;

/// Renders the charts of the kept minutes, and the same numbers as a table.
pub(crate) fn activity_charts(minutes: &[MinuteActivity]) -> Element {
    let section = element("div");
    if minutes.is_empty() {
        let message = "The first minute has not passed yet.";
        return section.child(text_element("p", message).class("empty"));
    }
    let series = |of: fn(&MinuteActivity) -> u64| minutes.iter().map(of).collect::<Vec<_>>();
    let charts = [
        chart("Calls a minute", "", &series(|minute| minute.calls)),
        chart("Failed or refused", "", &series(|minute| minute.failed + minute.refused)),
        chart("Mean duration", " ms", &series(|minute| minute.mean_ms.unwrap_or_default())),
    ];
    section.child(element("div").class("charts").children(charts)).child(number_table(minutes))
}

/// Draws one series as columns. Its label says what a reader of the page cannot see.
fn chart(title: &str, unit: &str, values: &[u64]) -> Element {
    let top = values.iter().copied().max().unwrap_or_default();
    let last = values.last().copied().unwrap_or_default();
    let label = format!("{title}: last {last}{unit}, maximum {top}{unit}");
    let step = WIDTH / u64::try_from(values.len()).unwrap_or(WIDTH).clamp(1, WIDTH);
    let columns = (0..).step_by(usize::try_from(step).unwrap_or(1)).zip(values);
    let columns = columns.map(|(x, value): (u64, _)| {
        let height = (value * HEIGHT).checked_div(top).unwrap_or_default();
        element("rect")
            .attr("x", x.to_string())
            .attr("y", (HEIGHT - height).to_string())
            .attr("width", step.saturating_sub(1).max(1).to_string())
            .attr("height", height.to_string())
    });
    let drawing = element("svg")
        .attr("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .attr("role", "img")
        .attr("aria-label", label.clone())
        .children(columns);
    element("figure").child(text_element("figcaption", &label)).child(drawing)
}

fn number_table(minutes: &[MinuteActivity]) -> Element {
    let titles = ["Until", "Calls", "Failed", "Refused", "Mean duration"];
    let head = titles.map(|title| text_element("th", title).attr("scope", "col"));
    let head = element("thead").child(element("tr").children(head));
    let rows = minutes.iter().rev().map(|minute| {
        let mean = minute.mean_ms.map(|ms| format!("{ms} ms")).unwrap_or_default();
        let counts = [minute.calls, minute.failed, minute.refused].map(|count| count.to_string());
        let cells = counts.iter().chain([&mean]).map(|text| text_element("td", text));
        let until = text_element("th", &minute.until).attr("scope", "row");
        element("tr").child(until).children(cells)
    });
    let table = element("table").child(head).child(element("tbody").children(rows));
    element("details").child(text_element("summary", "The same as a table")).child(table)
}

#[cfg(test)]
mod tests {
    use server_core::call_activity::MinuteActivity;

    use super::activity_charts;

    #[test]
    fn columns_are_as_high_as_their_share_of_the_maximum() {
        let minute = |calls, mean_ms| MinuteActivity {
            until: "2026-01-01T00:00:00.000Z".to_owned(),
            calls,
            failed: 0,
            refused: calls / 2,
            mean_ms,
        };
        let minutes = [minute(0, None), minute(50, Some(3)), minute(100, Some(6))];
        let html = activity_charts(&minutes).render_document();
        assert!(html.contains("Calls a minute: last 100, maximum 100"), "{html}");
        assert!(html.contains("Failed or refused: last 50, maximum 50"), "{html}");
        assert!(html.contains("Mean duration: last 6 ms, maximum 6 ms"), "{html}");
        assert!(html.contains(r#"<rect x="80" y="24" width="79" height="24">"#), "{html}");
        assert!(html.contains(r#"<rect x="160" y="0" width="79" height="48">"#), "{html}");
        // Nothing happened, and more minutes than columns.
        let quiet = vec![minute(0, None); 300];
        let html = activity_charts(&quiet).render_document();
        assert!(html.contains("last 0, maximum 0"), "{html}");
        assert!(activity_charts(&[]).render_document().contains("has not passed"));
    }
}
