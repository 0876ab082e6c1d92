//! `llms.txt`: the pages of the site for language models, in the form of llmstxt.org.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::navigation::{Navigation, Page};
use crate::tidy::tracked_files::TrackedText;

/// Longest description of a page, in characters.
const DESCRIPTION_LENGTH: usize = 200;
/// Parts that a model may leave out where its context is short, as llmstxt.org has them.
const OPTIONAL: &[&str] = &["Measurements", "Design decisions"];

/// Returns the file: a title, a summary, and per part a list of pages.
pub(super) fn render(texts: &[TrackedText], navigation: &Navigation) -> String {
    let mut blocks = Vec::new();
    let mut part = "";
    for page in &navigation.pages {
        let paragraph = first_paragraph(texts, page);
        if page.part.is_empty() {
            blocks.push(format!("# {}\n\n> {paragraph}\n", page.title));
            continue;
        }
        let description = first_sentence(&paragraph);
        let heading = if OPTIONAL.contains(&page.part.as_str()) { "Optional" } else { &page.part };
        if part != heading {
            part = heading;
            blocks.push(format!("\n## {heading}\n\n"));
        }
        blocks.push(format!("- [{}]({}): {description}\n", page.title, page.site_path));
    }
    blocks.concat()
}

/// Returns a paragraph up to its first full stop, or as much of it as a list may show.
fn first_sentence(paragraph: &str) -> String {
    let sentence = match paragraph.split_once(". ") {
        Some((sentence, _)) => format!("{sentence}."),
        None => paragraph.to_owned(),
    };
    if sentence.chars().count() <= DESCRIPTION_LENGTH {
        return sentence;
    }
    let mut short: String = sentence.chars().take(DESCRIPTION_LENGTH).collect();
    short.truncate(short.rfind(' ').unwrap_or(short.len()));
    short + " …"
}

/// Returns the first paragraph of a page that has words.
fn first_paragraph(texts: &[TrackedText], page: &Page) -> String {
    let text = texts.iter().find(|text| text.path == page.path);
    let (mut words, mut is_inside, mut before_image) = (String::new(), false, 0);
    for event in Parser::new(text.map_or("", |text| text.content.as_str())) {
        match event {
            Event::Start(Tag::Paragraph) => is_inside = true,
            // The words of an image describe it, and not the page.
            Event::Start(Tag::Image { .. }) => before_image = words.len(),
            Event::End(TagEnd::Image) => words.truncate(before_image),
            Event::End(TagEnd::Paragraph) if !words.trim().is_empty() => break,
            Event::Text(text) | Event::Code(text) if is_inside => words.push_str(&text),
            Event::SoftBreak | Event::HardBreak if is_inside => words.push(' '),
            _ => {}
        }
    }
    words.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::navigation::{Navigation, SUMMARY};
    use super::render;
    use crate::tidy::texts;

    #[test]
    fn pages_stand_under_their_part_with_their_first_sentence() {
        let summary = "# Summary\n\n[Toolkeep](README.md)\n\n# Guides\n\n- [A](guide/a.md)\n- [B](guide/b.md)\n\
                       # Design decisions\n\n- [C](design/c.md)\n";
        let files = texts(&[
            (SUMMARY, summary),
            (
                "docs/README.md",
                "# Toolkeep\n\n![i](i.svg)\n\nOne gateway.\nMore of it.\n\nAnd more.\n",
            ),
            ("docs/guide/a.md", "# A\n\nStart with `x`. Then go on.\n"),
            ("docs/guide/b.md", &format!("# B\n\n{}\n", "word ".repeat(60))),
            ("docs/design/c.md", "# C\n"),
        ]);
        let output = render(&files, &Navigation::read(&files).unwrap());
        let start = "# Toolkeep\n\n> One gateway. More of it.\n\n## Guides\n\n- [A](guide/a.md): Start with x.\n";
        assert!(output.starts_with(start), "{output}");
        assert!(output.contains("word …\n\n## Optional\n\n- [C](design/c.md): \n"), "{output}");
    }
}
