//! The filters of the pages that show records: the form, the query of its address, and that of the
//! record.

use serde::Deserialize;
use server_core::record_list::{self, RecordListQuery};
use tool::call_outcome::CallStatus;
use tool::ledger::RecordKind;
use url::form_urlencoded;

use crate::html::{Element, element, text_element};
use crate::page_layout::submit_button;
use crate::tool_filters::select;

/// Number of records that one look at the record returns.
const PAGE_SIZE: usize = 50;

/// The filters of a list of records. An empty value is no filter, as a form sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CallFilters {
    tool: String,
    caller: String,
    kind: String,
    status: String,
    since: String,
    until: String,
    /// Sequence number before which a page begins.
    pub(crate) cursor: Option<u64>,
    /// Sequence number after which live records begin.
    pub(crate) after: Option<u64>,
}

impl CallFilters {
    fn fields(&self) -> [(&'static str, &str); 6] {
        [
            ("tool", &self.tool),
            ("caller", &self.caller),
            ("kind", &self.kind),
            ("status", &self.status),
            ("since", &self.since),
            ("until", &self.until),
        ]
    }

    /// Returns the query without empty filters, as REST takes it too.
    pub(crate) fn query_string(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.fields().into_iter().filter(|(_, value)| !value.is_empty()));
        query.finish()
    }

    /// Returns `path` with the filters, and further parameters.
    pub(crate) fn path_with(&self, path: &str, further: &str) -> String {
        let query = self.query_string();
        let parts = [query.as_str(), further].into_iter().filter(|part| !part.is_empty());
        let query = parts.collect::<Vec<_>>().join("&");
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }

    /// Returns the query of the newest records before the cursor.
    pub(crate) fn record_query(&self) -> RecordListQuery {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        RecordListQuery {
            limit: Some(PAGE_SIZE),
            cursor: self.cursor,
            tool: given(&self.tool),
            call: None,
            caller: given(&self.caller),
            parent: None,
            kind: given(&self.kind),
            status: given(&self.status),
            since: given(&self.since),
            until: given(&self.until),
        }
    }

    /// Renders the form that opens `path` with other filters.
    pub(crate) fn form(&self, path: &'static str) -> Element {
        let field = |name: &'static str, label: &str, value: &str| {
            let input = element("input").attr("type", "text").attr("id", name).attr("name", name);
            let input = input.attr("value", value.to_owned()).attr("maxlength", "200");
            let input = input.flag("data-search", name == "tool");
            element("p").child(text_element("label", label).attr("for", name)).child(input)
        };
        let kinds = record_list::KINDS.iter().map(|kind: &RecordKind| kind.as_str());
        let statuses = record_list::STATUSES.iter().map(|status: &CallStatus| status.as_str());
        element("form")
            .class("filters")
            .attr("role", "search")
            .attr("action", path)
            .child(field("tool", "Tool", &self.tool))
            .child(field("caller", "Caller", &self.caller))
            .child(select("kind", "Kind", kinds, &self.kind))
            .child(select("status", "Status", statuses, &self.status))
            .child(field("since", "Since (2h, or a time)", &self.since))
            .child(field("until", "Until", &self.until))
            .child(element("p").child(submit_button("Filter")))
    }
}
