//! The page of the record: whether calls can be recorded, its files, and the last checkpoint.

use axum::extract::State;
use axum::response::{Html, Redirect};
use server_core::record_storage::{RecordStorageReply, WriterStorageReply, show_storage};
use server_core::record_verification::{VerificationReply, show_verification, start_verification};

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::html::{Element, element, text_element};
use crate::page_layout::{PageLayout, PageUser, Section, data_table, post_form, submit_button};
use crate::session::ConsoleSession;

/// Shows the state of the record.
pub(crate) async fn show_record(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Html<String>, PageError> {
    let storage = show_storage(&state.server, &session.principal).await?;
    let verification = show_verification(&state.server, &session.principal)?;
    let layout = PageLayout {
        title: "Record",
        section: Some(Section::Record),
        user: PageUser::SignedIn(&session),
        twin: Some("GET /v1/records/storage, GET and POST /v1/records/verification"),
    };
    let content = record_content(&storage).child(verification_section(&session, &verification));
    Ok(layout.render(content))
}

/// Starts a verification of the whole record.
pub(crate) async fn verify_record(
    State(state): State<ConsoleState>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    start_verification(&state.server, &form.session.principal)?;
    Ok(Redirect::to("/ui/record"))
}

fn verification_section(session: &ConsoleSession, reply: &VerificationReply) -> Element {
    let section = element("section").child(text_element("h2", "Verification"));
    let class = if matches!(reply.state, "damaged" | "failed") { "badge pending" } else { "badge" };
    let mut line = element("p").child(text_element("span", reply.state).class(class));
    if let Some(since) = &reply.running_since {
        line = line.text(&format!(" since {since}; load the page again for the result"));
    } else if let Some(finished) = &reply.finished {
        let (records, unsealed) = (reply.records, reply.unsealed);
        line = line.text(&format!(
            " at {finished}: {records} records, {unsealed} of them after the last checkpoint"
        ));
    }
    let findings = reply.findings.iter().chain(&reply.problem);
    let findings = findings.map(|finding| text_element("li", finding));
    let findings = element("ul").children(findings);
    let more = (reply.more_findings > 0)
        .then(|| text_element("p", &format!("{} more findings", reply.more_findings)));
    let button = submit_button("Verify every record");
    let form = post_form(session, "/ui/record/verify".to_owned()).child(button);
    let hint = element("p")
        .class("hint")
        .text("Reads every file, in the background. With checkpoints that were kept elsewhere: ")
        .child(text_element("code", "toolkeep record verify --checkpoint FILE"))
        .text(".");
    let has_findings = !reply.findings.is_empty() || reply.problem.is_some();
    section
        .child(line)
        .children(has_findings.then_some(findings))
        .children(more)
        .child(form)
        .child(hint)
}

fn record_content(storage: &RecordStorageReply) -> Element {
    let state = match &storage.problem {
        None => element("p").child(text_element("span", "available").class("badge")),
        Some(problem) => {
            let told = format!("Calls cannot be recorded, so they are refused: {problem}");
            element("div").class("notice error").child(text_element("p", &told))
        }
    };
    let titles = ["Writer", "Files", "Size", "Oldest file since", "Removed by retention"];
    let rows = storage.writers.iter().map(writer_row);
    let files = data_table("Files of the record", &titles, rows);
    let content = element("div").child(state).child(fact_list(storage));
    content.child(text_element("h2", "Files")).child(files)
}

fn writer_row(writer: &WriterStorageReply) -> Element {
    let cell = |text: &str| text_element("td", text);
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(text_element("th", &writer.writer).attr("scope", "row"))
        .child(cell(&writer.files.to_string()))
        .child(cell(&format_bytes(writer.bytes)))
        .child(cell(writer.since.as_deref().unwrap_or_default()))
        .child(cell(&writer.removed.to_string()))
}

fn fact_list(storage: &RecordStorageReply) -> Element {
    let fact = |name: &str, value: &str| [text_element("dt", name), text_element("dd", value)];
    let free = storage.free_bytes.map(|free| {
        let min = format_bytes(storage.min_free_bytes);
        fact("Free on its disk", &format!("{} (at least {min})", format_bytes(free)))
    });
    let growth = storage.bytes_per_day.map(|bytes| {
        let days = storage
            .free_bytes
            .and_then(|free| free.saturating_sub(storage.min_free_bytes).checked_div(bytes));
        let days = days.map(|days| format!("; the disk lasts for {days} days")).unwrap_or_default();
        fact("Growth a day", &format!("{}{days}", format_bytes(bytes)))
    });
    let checkpoint = storage.checkpoint.as_ref().map_or_else(
        || vec![fact("Last checkpoint", "none yet")],
        |last| {
            let sealed = format!("{} at {}", last.through, last.at);
            vec![fact("Sealed up to record", &sealed), fact("Root of the tree", &last.root)]
        },
    );
    let mut facts = checkpoint;
    facts.extend(free);
    facts.extend(growth);
    facts.push(fact("Damaged places found at the start", &storage.damaged.to_string()));
    facts.push(fact("Calls with an unknown outcome", &storage.unknown_calls.to_string()));
    element("dl").class("facts").children(facts.into_iter().flatten())
}

/// Returns a size in the largest unit that leaves a whole part.
fn format_bytes(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} bytes"),
        0x400..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::format_bytes;

    #[test]
    fn a_size_has_the_largest_unit_that_fits() {
        let sizes = [(0, "0 bytes"), (1_023, "1023 bytes"), (1_024, "1 KiB"), (5 << 20, "5 MiB")];
        for (bytes, text) in
            sizes.into_iter().chain([(3 << 30, "3 GiB"), (u64::MAX, "17179869183 GiB")])
        {
            assert_eq!(format_bytes(bytes), text);
        }
    }
}
