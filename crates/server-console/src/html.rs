//! HTML elements as values. Text and attribute values are always escaped, and there is no way to
//! add markup as text.
//!
//! All text goes through [`json::escape_invisible_text`], so that a page shows invisible characters
//! of names, descriptions and arguments in letters. A `textarea` has its text unchanged, because it comes back with the form.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Elements without content and without an end tag.
const VOID_TAGS: [&str; 6] = ["br", "hr", "img", "input", "link", "meta"];

/// An element with its attributes and children.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    tag: &'static str,
    attributes: Vec<(&'static str, Cow<'static, str>)>,
    children: Vec<Node>,
}

#[derive(Debug, Clone)]
enum Node {
    Text(String),
    Element(Element),
}

/// Creates an empty element.
pub(crate) fn element(tag: &'static str) -> Element {
    Element { tag, attributes: Vec::new(), children: Vec::new() }
}

/// Creates an element that contains this text.
pub(crate) fn text_element(tag: &'static str, text: &str) -> Element {
    element(tag).text(text)
}

/// Creates a link. `path` is one of the console's own paths.
pub(crate) fn link(path: impl Into<Cow<'static, str>>, text: &str) -> Element {
    element("a").attr("href", path).text(text)
}

impl Element {
    /// Adds an attribute, whose value is escaped.
    pub(crate) fn attr(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// Adds an attribute without a value if `is_set`.
    pub(crate) fn flag(self, name: &'static str, is_set: bool) -> Self {
        if is_set { self.attr(name, "") } else { self }
    }

    /// Adds the attribute `class`.
    pub(crate) fn class(self, names: &'static str) -> Self {
        self.attr("class", names)
    }

    /// Adds text, which is escaped.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.children.push(Node::Text(text.to_owned()));
        self
    }

    /// Adds a child element.
    pub(crate) fn child(mut self, child: Self) -> Self {
        self.children.push(Node::Element(child));
        self
    }

    /// Adds child elements in order.
    pub(crate) fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children.into_iter().map(Node::Element));
        self
    }

    /// Returns the element as `[tag, attributes, children]`, for a script that creates it. Text is
    /// a string, with invisible characters in letters.
    pub(crate) fn to_json(&self) -> Value {
        let attributes: Map<String, Value> = self
            .attributes
            .iter()
            .map(|(name, value)| ((*name).into(), (**value).into()))
            .collect();
        let children = self.children.iter().flat_map(|child| match child {
            Node::Element(element) => vec![element.to_json()],
            Node::Text(text) => text_parts(&show_hidden(text)).map(|part| part.to_json()).collect(),
        });
        json!([self.tag, attributes, children.collect::<Vec<_>>()])
    }

    /// Renders the element as a document.
    pub(crate) fn render_document(&self) -> String {
        let mut out = "<!doctype html>\n".to_owned();
        self.render(&mut out);
        out
    }

    fn render(&self, out: &mut String) {
        out.push('<');
        out.push_str(self.tag);
        for (name, value) in &self.attributes {
            out.push(' ');
            out.push_str(name);
            if !value.is_empty() {
                out.push_str("=\"");
                push_escaped(out, value);
                out.push('"');
            }
        }
        out.push('>');
        if VOID_TAGS.contains(&self.tag) {
            return;
        }
        // An HTML parser drops the first line end of these elements.
        if matches!(self.tag, "pre" | "textarea") {
            out.push('\n');
        }
        for child in &self.children {
            match child {
                Node::Element(element) => element.render(out),
                Node::Text(text) if self.tag == "title" => push_escaped(out, &show_hidden(text)),
                // It comes back as it is.
                Node::Text(text) if self.tag == "textarea" => push_escaped(out, text),
                Node::Text(text) => {
                    text_parts(&show_hidden(text)).for_each(|part| part.render(out));
                }
            }
        }
        out.push_str("</");
        out.push_str(self.tag);
        out.push('>');
    }
}

/// Returns the text with invisible characters in letters.
fn show_hidden(text: &str) -> Cow<'_, str> {
    json::escape_invisible_text(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// A part of a text.
enum TextPart<'a> {
    Plain(&'a str),
    /// A character in letters (`\u{202e}`).
    Character(&'a str),
}

impl TextPart<'_> {
    fn render(&self, out: &mut String) {
        match self {
            Self::Plain(text) => push_escaped(out, text),
            Self::Character(text) => {
                out.push_str("<mark>");
                push_escaped(out, text);
                out.push_str("</mark>");
            }
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Plain(text) => (*text).into(),
            Self::Character(text) => json!(["mark", {}, [text]]),
        }
    }
}

/// Splits a text at its characters in letters.
fn text_parts(text: &str) -> impl Iterator<Item = TextPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (part, after) = next_part(rest)?;
        rest = after;
        Some(part)
    })
}

fn next_part(text: &str) -> Option<(TextPart<'_>, &str)> {
    if text.is_empty() {
        return None;
    }
    if let Some((character, after)) = text.split_at_checked(character_len(text))
        && !character.is_empty()
    {
        return Some((TextPart::Character(character), after));
    }
    // At least one character, which is ASCII if it is the begin of letters.
    let starts = text.match_indices("\\u{").map(|(at, _)| at).filter(|at| *at > 0);
    let end =
        starts.into_iter().find(|at| text.get(*at..).is_some_and(|rest| character_len(rest) > 0));
    let (plain, after) = text.split_at_checked(end.unwrap_or(text.len()))?;
    Some((TextPart::Plain(plain), after))
}

/// Returns the length of a character in letters that the text begins with; zero without one.
fn character_len(text: &str) -> usize {
    const START: &str = "\\u{";
    let Some(rest) = text.strip_prefix(START) else { return 0 };
    let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    let is_character = (1..=6).contains(&digits) && rest.as_bytes().get(digits) == Some(&b'}');
    if is_character { START.len() + digits + 1 } else { 0 }
}

fn push_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // A parser turns it into a line feed otherwise.
            '\r' => out.push_str("&#13;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{element, text_element};

    fn rendered(element: &super::Element) -> String {
        element.render_document().trim_start_matches("<!doctype html>\n").to_owned()
    }

    #[test]
    fn text_and_attributes_are_escaped() {
        let hostile = "\"'><script>alert(1)</script>&amp;";
        let shown = rendered(&element("a").attr("title", hostile).text(hostile));
        let escaped = "&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;";
        assert_eq!(shown, format!("<a title=\"{escaped}\">{escaped}</a>"));
    }

    #[test]
    fn hidden_characters_are_visible_and_marked() {
        let shown = rendered(&text_element("p", "a\u{202e}b\u{200b}\u{e0041}世界\n"));
        assert_eq!(
            shown,
            "<p>a<mark>\\u{202e}</mark>b<mark>\\u{200b}</mark><mark>\\u{e0041}</mark>世界\n</p>"
        );
        for plain in ["\\u{", "\\u{}", "\\u{zz}", "\\u{1234567}", "\\u{12"] {
            assert_eq!(rendered(&text_element("p", plain)), format!("<p>{plain}</p>"));
        }
        assert_eq!(rendered(&text_element("title", "a\u{202e}")), "<title>a\\u{202e}</title>");
        let field = rendered(&text_element("textarea", "a\u{202e}</textarea>"));
        assert_eq!(field, "<textarea>\na\u{202e}&lt;/textarea&gt;</textarea>");
    }

    #[test]
    fn a_script_gets_the_same_text() {
        let row = element("tr").attr("class", "x").child(text_element("td", "a\u{202e}b\\u{zz}"));
        let expected = serde_json::json!(["tr", {"class": "x"},
            [["td", {}, ["a", ["mark", {}, ["\\u{202e}"]], "b\\u{zz}"]]]]);
        assert_eq!(row.to_json(), expected);
    }

    #[test]
    fn void_elements_have_no_end_and_flags_no_value() {
        let input = element("input").attr("name", "a").flag("required", true).flag("hidden", false);
        assert_eq!(rendered(&input), "<input name=\"a\" required>");
        assert_eq!(rendered(&text_element("pre", "\na")), "<pre>\n\na</pre>");
    }
}
