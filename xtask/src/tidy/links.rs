//! Links of Markdown pages: each must lead to a file of the repository and, behind a `#`, to a
//! heading of it. Addresses of other sites are not fetched.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::TidyFinding;
use super::tracked_files::TrackedText;

/// A link or an image of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MarkdownLink {
    pub(crate) destination: String,
    /// Bytes of the page that hold the destination.
    pub(crate) span: Range<usize>,
}

/// The file that a link leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LinkTarget {
    /// From the root of the repository, or of the site.
    pub(crate) path: String,
    /// The words behind `#`.
    pub(crate) fragment: Option<String>,
}

/// Returns a finding for each dead link.
pub(crate) fn check_links(texts: &[TrackedText]) -> Vec<TidyFinding> {
    let pages: Vec<&TrackedText> = texts.iter().filter(|text| text.has_extension("md")).collect();
    let headings: HashMap<&str, HashSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), find_headings(&page.content))).collect();
    let paths: BTreeSet<&str> = texts.iter().map(|text| text.path.as_str()).collect();
    let mut findings = Vec::new();
    for page in pages {
        for link in find_links(&page.content).iter().filter(|link| !is_external(&link.destination))
        {
            let what = match resolve(&page.path, &link.destination) {
                Some(target) => match find_fault(&paths, &headings, &target) {
                    Some(fault) => fault,
                    None => continue,
                },
                None => "leads out of the repository",
            };
            let before = page.content.get(..link.span.start).unwrap_or_default();
            let line = before.lines().count().max(1);
            let what = format!("the link `{}` {what}", link.destination);
            findings.push(TidyFinding::new(&page.path, line, what, "correct or remove it"));
        }
    }
    findings
}

fn find_fault(
    paths: &BTreeSet<&str>,
    headings: &HashMap<&str, HashSet<String>>,
    target: &LinkTarget,
) -> Option<&'static str> {
    let folder = format!("{}/", target.path);
    let is_folder = paths.range(folder.as_str()..).next().is_some_and(|it| it.starts_with(&folder));
    if !paths.contains(target.path.as_str()) {
        return (!is_folder).then_some("leads to no file");
    }
    let (fragment, headings) = (target.fragment.as_ref()?, headings.get(target.path.as_str())?);
    (!headings.contains(fragment)).then_some("leads to no heading")
}

/// Whether an address is not one of a file here: it has a scheme.
pub(crate) fn is_external(destination: &str) -> bool {
    let scheme = destination.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|it| !it.is_empty() && it.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// Returns the file that a link of the page `page` leads to; nothing where it is outside.
pub(crate) fn resolve(page: &str, destination: &str) -> Option<LinkTarget> {
    let (path, fragment) = match destination.split_once('#') {
        Some((path, fragment)) => (path, Some(fragment.to_owned())),
        None => (destination, None),
    };
    if path.is_empty() {
        return Some(LinkTarget { path: page.to_owned(), fragment });
    }
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut segments: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
    for segment in path.trim_end_matches('/').split('/') {
        match segment {
            "." => {}
            ".." => drop(segments.pop()?),
            // An absolute path has an empty first segment.
            "" => return None,
            name => segments.push(name),
        }
    }
    Some(LinkTarget { path: segments.join("/"), fragment })
}

/// Returns the inline links and images of a page, in order.
pub(crate) fn find_links(text: &str) -> Vec<MarkdownLink> {
    let mut links = Vec::new();
    for (event, range) in parser(text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
            continue;
        };
        let destination = dest_url.into_string();
        // TrackedText and title may name the destination as well.
        let link = text.get(range.clone()).unwrap_or_default();
        let place = link.rfind(&format!("]({destination}")).map(|place| place + 2);
        let start = range.start + place.unwrap_or_default();
        let span = start..start + destination.len();
        links.extend(place.map(|_| MarkdownLink { destination, span }));
    }
    links.sort_by_key(|link| link.span.start);
    links
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Returns the identifiers that GitHub and mdBook give the headings of a page.
fn find_headings(text: &str) -> HashSet<String> {
    let mut identifiers = HashSet::new();
    let mut words = None;
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => words = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(words) = &mut words {
                    words.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let base = identifier(&words.take().unwrap_or_default());
                let free = |id: &String| !identifiers.contains(id);
                let numbered = (1..).map(|number| format!("{base}-{number}"));
                let found = std::iter::once(base.clone()).chain(numbered).find(free);
                identifiers.extend(found);
            }
            _ => {}
        }
    }
    identifiers
}

fn identifier(heading: &str) -> String {
    let letter = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    };
    heading.to_lowercase().chars().filter_map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::{check_links, find_links, is_external, resolve};
    use crate::tidy::texts;

    fn findings(page: &str) -> Vec<String> {
        let other = "# One `two`, three\n\n## Same\n\n## Same\n";
        let files = texts(&[("docs/a.md", page), ("docs/g/b.md", other), ("x/y.rs", "")]);
        check_links(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dead_link_is_found() {
        let good = "[b](g/b.md) [t](g/b.md#one-two-three) [s](g/b.md#same-1) [x](../x/y.rs) [d](../x)\n\
                    [w](https://a.example/#b) `[c](no.md)`\n\n```\n[d](no.md)\n```\n";
        assert_eq!(findings(good), [""; 0]);
        for (link, what) in [
            ("[b](b.md)", "leads to no file"),
            ("![b](g/b.svg)", "leads to no file"),
            ("[b](g/b.md#two)", "leads to no heading"),
            ("[b](g/b.md#same-2)", "leads to no heading"),
            ("[b](#here)", "leads to no heading"),
            ("[b](../../z.md)", "leads out of the repository"),
            ("[b](/docs/g/b.md)", "leads out of the repository"),
        ] {
            let found = findings(&format!("# A\n\n| c |\n| --- |\n| {link} |\n"));
            assert_eq!(found.len(), 1, "{link}");
            assert!(found[0].starts_with("docs/a.md:5: ") && found[0].contains(what), "{found:?}");
        }
    }

    #[test]
    fn the_place_of_a_destination_is_known() {
        let text = "ä [b.md](b.md) and ![i](i.svg \"i.svg\")\n";
        let links = find_links(text);
        let places: Vec<_> = links.iter().map(|link| link.span.start).collect();
        assert_eq!(places, [10, 25]);
        assert_eq!(links[0].destination, "b.md");
        assert_eq!(links[1].destination, "i.svg");
        assert!(is_external("https://a") && is_external("mailto:a") && !is_external("a/b:c"));
        assert_eq!(resolve("a/b.md", "c.md#d").unwrap().path, "a/c.md");
    }
}
