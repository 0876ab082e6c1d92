//! The layout of every page: skip link, navigation, title, content, REST twin and keys.

use std::borrow::Cow;

use axum::response::Html;

use crate::assets::{ICON, SCRIPT, STYLE_SHEET};
use crate::form_post::TOKEN_FIELD;
use crate::html::{Element, element, link, text_element};
use crate::session::ConsoleSession;

/// A section of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Approvals,
    Calls,
    Sources,
    Tools,
    Access,
    Record,
}

impl Section {
    const ALL: [Self; 7] = [
        Self::Overview,
        Self::Approvals,
        Self::Calls,
        Self::Sources,
        Self::Tools,
        Self::Access,
        Self::Record,
    ];

    /// The title, the path, and the key that opens it after `g`.
    const fn target(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Overview => ("Overview", "/ui", "o"),
            Self::Approvals => ("Approvals", "/ui/approvals", "a"),
            Self::Calls => ("Calls", "/ui/calls", "c"),
            Self::Sources => ("Sources", "/ui/sources", "s"),
            Self::Tools => ("Tools", "/ui/tools", "t"),
            Self::Access => ("Access", "/ui/access", "k"),
            Self::Record => ("Record", "/ui/record", "e"),
        }
    }
}

/// The user that a page is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PageUser<'a> {
    /// A signed-in user.
    SignedIn(&'a ConsoleSession),
    /// The page does not depend on a user.
    Unknown,
}

/// Everything of a page but its content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLayout<'a> {
    pub(crate) title: &'a str,
    pub(crate) section: Option<Section>,
    pub(crate) user: PageUser<'a>,
    /// The REST request with the same content.
    pub(crate) twin: Option<&'a str>,
}

/// The keys that the script adds, with what they do.
const KEYS: [(&str, &str); 15] = [
    ("/", "Search"),
    ("j and k", "Next and previous entry"),
    ("Enter", "Open the selected entry"),
    ("a", "Go to the approve button of the selected call; Enter approves"),
    ("d", "Go to the reason for a denial; Enter denies"),
    ("r", "Load a list that has changed"),
    ("p", "Go to the button that pauses a live list"),
    ("g o", "Overview"),
    ("g a", "Approvals"),
    ("g c", "Calls"),
    ("g s", "Sources"),
    ("g t", "Tools"),
    ("g k", "Access: keys, users and roles"),
    ("g e", "Record"),
    ("?", "Show these keys"),
];

impl PageLayout<'_> {
    /// Renders the page around its content.
    pub(crate) fn render(self, content: Element) -> Html<String> {
        let page = element("html").attr("lang", "en").child(self.head()).child(self.body(content));
        Html(page.render_document())
    }

    fn head(self) -> Element {
        let title = format!("{} · Toolkeep", self.title);
        let meta = |name: &'static str, content: &'static str| {
            element("meta").attr("name", name).attr("content", content)
        };
        element("head")
            .child(element("meta").attr("charset", "utf-8"))
            .child(meta("viewport", "width=device-width, initial-scale=1"))
            .child(meta("color-scheme", "light dark"))
            .child(text_element("title", &title))
            .child(element("link").attr("rel", "icon").attr("href", ICON))
            .child(element("link").attr("rel", "stylesheet").attr("href", STYLE_SHEET))
            .child(element("script").attr("src", SCRIPT).flag("defer", true))
    }

    fn body(self, content: Element) -> Element {
        let skip = link("#main", "Skip to content").class("skip");
        let mut main = element("main").attr("id", "main").attr("tabindex", "-1");
        main = main.child(text_element("h1", self.title)).child(content);
        if let Some(twin) = self.twin {
            let twin = element("p")
                .class("twin")
                .text("The same over REST: ")
                .child(text_element("code", twin));
            main = main.child(twin);
        }
        let body = element("body").child(skip).child(self.header()).child(main);
        match self.user {
            PageUser::SignedIn(_) => body.child(key_list()),
            PageUser::Unknown => body,
        }
    }

    fn header(self) -> Element {
        let home = element("a").class("home").attr("href", "/ui").text("Toolkeep");
        let header = element("header").child(home);
        let PageUser::SignedIn(session) = self.user else { return header };
        let entry = |section: Section| {
            let (title, path, key) = section.target();
            let entry = link(path, title).attr("data-go", key);
            let is_current = self.section == Some(section);
            let entry = if is_current { entry.attr("aria-current", "page") } else { entry };
            element("li").child(entry)
        };
        let entries = element("ul").children(Section::ALL.map(entry));
        let navigation = element("nav").attr("aria-label", "Sections").child(entries);
        header.child(navigation).child(user_menu(session))
    }
}

/// Creates a form that posts to `path` with the token of the session.
pub(crate) fn post_form(session: &ConsoleSession, path: String) -> Element {
    let token = element("input").attr("type", "hidden").attr("name", TOKEN_FIELD);
    let token = token.attr("value", session.form_token());
    element("form").attr("method", "post").attr("action", path).child(token)
}

/// Creates a button that sends its form.
pub(crate) fn submit_button(text: &str) -> Element {
    text_element("button", text).attr("type", "submit")
}

/// Creates a button that opens before it acts, so that one slip changes nothing.
pub(crate) fn guarded_button(
    session: &ConsoleSession,
    path: String,
    what: &str,
    subject: &str,
) -> Element {
    let button = submit_button(what).class("danger");
    let form =
        post_form(session, path).child(button.attr("aria-label", format!("{what} {subject}")));
    let summary = text_element("summary", what).attr("aria-label", format!("{what} {subject}…"));
    element("details").child(summary).child(form)
}

/// Creates a field that is checked or not.
pub(crate) fn check_field(name: &str, text: &str, is_checked: bool) -> Element {
    let input = element("input").attr("type", "checkbox").attr("name", name.to_owned());
    let input = input.attr("value", "on").flag("checked", is_checked);
    element("p").child(element("label").class("check").child(input).text(" ").text(text))
}

/// Creates a table of rows below these titles, which scrolls if it is wider than the window.
pub(crate) fn data_table(
    label: &'static str,
    titles: &[&str],
    rows: impl IntoIterator<Item = Element>,
) -> Element {
    let head = titles.iter().map(|title| text_element("th", title).attr("scope", "col"));
    let head = element("thead").child(element("tr").children(head));
    wide_table(label, element("table").child(head).child(element("tbody").children(rows)))
}

/// Creates a choice of pages as path, text, and whether it is the current one.
pub(crate) fn page_tabs<'a>(
    label: &'static str,
    pages: impl IntoIterator<Item = (impl Into<Cow<'static, str>>, &'a str, bool)>,
) -> Element {
    let tabs = pages.into_iter().map(|(path, text, is_current)| {
        let tab = link(path, text);
        element("li").child(if is_current { tab.attr("aria-current", "true") } else { tab })
    });
    let tabs = element("ul").children(tabs);
    element("nav").attr("aria-label", label).class("tabs").child(tabs)
}

/// Wraps a table that may be wider than the window, so that it scrolls, by keyboard too.
pub(crate) fn wide_table(label: &'static str, table: Element) -> Element {
    let region = element("div").class("scroll").attr("role", "region").attr("aria-label", label);
    region.attr("tabindex", "0").child(table)
}

fn user_menu(session: &ConsoleSession) -> Element {
    let principal = &session.principal;
    let kind = if principal.is_agent() { "agent" } else { "person" };
    let details = format!("{kind}, {}, key {}", principal.level(), principal.key_id());
    let user = element("p").child(text_element("strong", principal.subject())).text(" ");
    let user = user.child(text_element("span", &details));
    let sign_out = post_form(session, "/ui/sign-out".to_owned()).child(submit_button("Sign out"));
    element("div").class("user").child(user).child(sign_out)
}

/// The keys, which the script opens with `?`.
fn key_list() -> Element {
    let row = |(key, what): (&str, &str)| {
        let key = text_element("dt", key);
        [key, text_element("dd", what)]
    };
    let keys = element("dl").children(KEYS.into_iter().flat_map(row));
    let summary = text_element("summary", "Keyboard");
    let details = element("details").attr("id", "keys").child(summary).child(keys);
    element("footer").child(details)
}
