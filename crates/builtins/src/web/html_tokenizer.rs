//! A minimal HTML tokenizer for result pages: tags with attributes, and text, in one pass.
//!
//! It skips what it does not understand and never backtracks, so that the time is linear in the
//! size of the page.

/// A tag, or the text between two tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HtmlToken<'a> {
    /// `<name attributes>`.
    Open {
        name: &'a str,
        attributes: &'a str,
    },
    /// `</name>`.
    Close(&'a str),
    Text(&'a str),
}

/// Iterates over the tokens of a page.
#[derive(Debug)]
pub(super) struct HtmlTokenizer<'a>(pub(super) &'a str);

impl<'a> Iterator for HtmlTokenizer<'a> {
    type Item = HtmlToken<'a>;

    fn next(&mut self) -> Option<HtmlToken<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let Some(rest) = self.0.strip_prefix('<') else {
            let end = self.0.find('<').unwrap_or(self.0.len());
            let (text, rest) = self.0.split_at(end);
            self.0 = rest;
            return Some(HtmlToken::Text(text));
        };
        if let Some(comment) = rest.strip_prefix("!--") {
            self.0 = comment.split_once("-->").map_or("", |(_, rest)| rest);
            return Some(HtmlToken::Text(""));
        }
        let (tag, rest) = rest.split_at(tag_end(rest));
        self.0 = rest.strip_prefix('>').unwrap_or(rest);
        if let Some(name) = tag.strip_prefix('/') {
            return Some(HtmlToken::Close(name.trim()));
        }
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        if name.eq_ignore_ascii_case("script") || name.eq_ignore_ascii_case("style") {
            let end = if name.eq_ignore_ascii_case("script") { "</script" } else { "</style" };
            self.0 = self.0.find(end).and_then(|at| self.0.get(at..)).unwrap_or("");
        }
        Some(HtmlToken::Open { name, attributes })
    }
}

/// Returns the end of a tag; a `>` in quotes does not end it.
fn tag_end(tag: &str) -> usize {
    let mut quote = None;
    for (at, c) in tag.char_indices() {
        match (quote, c) {
            (None, '>') => return at,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    tag.len()
}

/// Returns the decoded value of an attribute.
pub(super) fn attribute_value(attributes: &str, attribute: &str) -> Option<String> {
    let mut rest = attributes.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let after = after.trim_start();
        let Some(value) = after.strip_prefix('=').map(str::trim_start) else {
            // An attribute without a value; always advance, so that the loop ends.
            rest = if end == 0 { skip_char(after) } else { after };
            continue;
        };
        let (value, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                skip_char(value).split_once(quote).unwrap_or((skip_char(value), ""))
            }
            _ => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        if name.eq_ignore_ascii_case(attribute) {
            return Some(decode_entities(value));
        }
        rest = after.trim_start();
    }
    None
}

fn skip_char(text: &str) -> &str {
    let mut chars = text.chars();
    chars.next();
    chars.as_str()
}

/// Returns whether a tag has a class.
pub(super) fn has_class(attributes: &str, class: &str) -> bool {
    attribute_value(attributes, "class")
        .is_some_and(|all| all.split_whitespace().any(|it| it == class))
}

/// Decodes the entities of a text.
pub(super) fn decode_entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let end = after.char_indices().take(12).find(|(_, c)| *c == ';').map(|(at, _)| at);
        let entity =
            end.and_then(|end| Some((entity_char(after.get(..end)?)?, after.get(end + 1..)?)));
        let (character, after) = entity.unwrap_or(('&', after));
        out.push(character);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn entity_char(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let hex = number.strip_prefix(['x', 'X']);
        let code = hex.map_or_else(|| number.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok());
        return code.and_then(char::from_u32).filter(|c| *c != '\0');
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "mdash" => '—',
        "ndash" => '–',
        "hellip" => '…',
        "middot" => '·',
        "rsquo" => '’',
        "lsquo" => '‘',
        "ldquo" => '“',
        "rdquo" => '”',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{HtmlToken, HtmlTokenizer, attribute_value, decode_entities, has_class};

    #[test]
    fn a_page_comes_in_pieces() {
        let page =
            "a<b class='x y' title=\"1 > 0\">c</b ><!-- <i> --><script>if (a < b) {}</script>";
        let pieces: Vec<_> = HtmlTokenizer(page).filter(|it| *it != HtmlToken::Text("")).collect();
        assert_eq!(pieces[0], HtmlToken::Text("a"));
        let HtmlToken::Open { name: "b", attributes } = pieces[1] else { panic!("{pieces:?}") };
        assert_eq!(attribute_value(attributes, "title").unwrap(), "1 > 0");
        assert!(has_class(attributes, "y") && !has_class(attributes, "z"));
        assert_eq!(pieces[2..4], [HtmlToken::Text("c"), HtmlToken::Close("b")]);
        assert_eq!(pieces.len(), 6, "{pieces:?}");
    }

    #[test]
    fn what_is_broken_ends() {
        for broken in [
            "<",
            "<a",
            "<a href=",
            "<a href='",
            "<a =",
            "<!--",
            "&",
            "&#xzz;",
            "<script>",
            "<a \u{3000}=",
        ] {
            let all: Vec<_> = HtmlTokenizer(broken).collect();
            assert!(all.len() < 5, "{broken}");
            let _none = attribute_value(broken, "href");
        }
        assert_eq!(decode_entities("a &amp; b &#39;c&#x27; &unknown; &"), "a & b 'c' &unknown; &");
    }
}
