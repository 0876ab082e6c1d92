//! Navigation of the site: the parts and pages that `docs/SUMMARY.md` lists.

use std::path::Path;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::tidy::TidyFinding;
use crate::tidy::links::resolve;
use crate::tidy::tracked_files::TrackedText;

/// The page that lists all others.
pub(super) const SUMMARY: &str = "docs/SUMMARY.md";
/// Folder of the site for pages from the root of the repository.
const PROJECT: &str = "project";
/// Folders below `docs/` whose Markdown is no page of the site.
const EXCLUDED: &[&str] = &["docs/design/renames/"];

/// One page of the site.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) title: String,
    /// Heading or group of the navigation that the page stands under; empty before the first.
    pub(super) part: String,
    /// From the root of the repository.
    pub(super) path: String,
    /// From the root of the site, as Markdown.
    pub(super) site_path: String,
}

/// Holds the pages of the site in the order of the navigation.
#[derive(Debug)]
pub(super) struct Navigation {
    pub(super) pages: Vec<Page>,
}

impl Navigation {
    /// Reads the parts and pages from `docs/SUMMARY.md`, in their order.
    ///
    /// # Errors
    /// Where the file is missing or lists a page twice.
    pub(super) fn read(texts: &[TrackedText]) -> Result<Self, String> {
        let summary = texts.iter().find(|text| text.path == SUMMARY);
        let summary = summary.ok_or_else(|| format!("`{SUMMARY}` is missing"))?;
        let pages = parse_summary(&summary.content);
        let is_twice = |page: &&Page| pages.iter().filter(|it| it.path == page.path).count() > 1;
        match pages.iter().find(is_twice) {
            Some(page) => Err(format!("{SUMMARY}: lists `{}` twice", page.path)),
            None => Ok(Self { pages }),
        }
    }

    /// Returns a finding for each page below `docs/` that the navigation does not list.
    pub(super) fn find_unlisted_pages(&self, texts: &[TrackedText]) -> Vec<TidyFinding> {
        let is_page = |text: &&TrackedText| {
            let excluded = EXCLUDED.iter().any(|folder| text.path.starts_with(folder));
            text.has_extension("md")
                && text.path.starts_with("docs/")
                && text.path != SUMMARY
                && !excluded
        };
        let is_listed = |text: &&TrackedText| self.pages.iter().any(|page| page.path == text.path);
        let unlisted = texts.iter().filter(is_page).filter(|text| !is_listed(text));
        unlisted
            .map(|text| {
                let fix = format!("add it to {SUMMARY}");
                TidyFinding::new(&text.path, 0, "the page is not in the navigation", fix)
            })
            .collect()
    }

    /// Returns where the site has a file of the repository; nothing where it is not part of it.
    pub(super) fn site_path(&self, path: &str) -> Option<String> {
        let listed = self.pages.iter().find(|page| page.path == path);
        listed.map(|page| page.site_path.clone()).or_else(|| asset_path(path))
    }
}

/// Files of `docs/` that are no Markdown, such as images and schemas, keep their place.
fn asset_path(path: &str) -> Option<String> {
    let asset = path.strip_prefix("docs/")?;
    let extension = Path::new(asset).extension()?;
    (extension != "md").then(|| asset.to_owned())
}

fn parse_summary(text: &str) -> Vec<Page> {
    let mut pages = Vec::new();
    let (mut words, mut destination) = (String::new(), None);
    let (mut heading, mut group, mut depth) = (String::new(), None, 0_usize);
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::List(_)) => depth += 1,
            Event::End(TagEnd::List(_)) => {
                depth = depth.saturating_sub(1);
                group = group.filter(|(_, level)| *level < depth);
            }
            Event::Start(Tag::Heading { .. }) => words.clear(),
            Event::End(TagEnd::Heading(_)) => heading = std::mem::take(&mut words),
            Event::Start(Tag::Link { dest_url, .. }) => {
                words.clear();
                destination = Some(dest_url.into_string());
            }
            Event::End(TagEnd::Link) => {
                let (title, target) = (std::mem::take(&mut words), destination.take());
                match target.filter(|it| !it.is_empty()).and_then(|it| resolve(SUMMARY, &it)) {
                    Some(target) => {
                        let part = group.as_ref().map_or(&heading, |(title, _)| title);
                        pages.push(page(title, part, target.path));
                    }
                    // mdBook shows a link without a destination as the title of those below it.
                    None => group = Some((title, depth)),
                }
            }
            Event::Text(text) | Event::Code(text) => words.push_str(&text),
            _ => {}
        }
    }
    pages
}

fn page(title: String, part: &str, path: String) -> Page {
    let site_path = match path.strip_prefix("docs/") {
        // The page that a web server answers with for its folder.
        Some(rest) => rest.replace("README.md", "index.md"),
        None => format!("{PROJECT}/{path}"),
    };
    // The title of the file itself is no part.
    let part = if part == "Summary" { String::new() } else { part.to_owned() };
    Page { title, part, path, site_path }
}

#[cfg(test)]
mod tests {
    use super::{Navigation, SUMMARY};
    use crate::tidy::texts;

    const TEXT: &str = "# Summary\n\n[Start](README.md)\n\n# Guides\n\n- [One `x`](guide/a.md)\n\
                        - [Two](../SECURITY.md)\n- [Group]()\n  - [Three](errors/e.md)\n- [Four](guide/f.md)\n";

    #[test]
    fn pages_have_their_part_and_their_place_on_the_site() {
        let navigation = Navigation::read(&texts(&[(SUMMARY, TEXT)])).unwrap();
        let pages: Vec<_> = navigation
            .pages
            .iter()
            .map(|it| {
                (it.title.as_str(), it.part.as_str(), it.path.as_str(), it.site_path.as_str())
            })
            .collect();
        assert_eq!(
            pages,
            [
                ("Start", "", "docs/README.md", "index.md"),
                ("One x", "Guides", "docs/guide/a.md", "guide/a.md"),
                ("Two", "Guides", "SECURITY.md", "project/SECURITY.md"),
                ("Three", "Group", "docs/errors/e.md", "errors/e.md"),
                ("Four", "Guides", "docs/guide/f.md", "guide/f.md"),
            ]
        );
        assert_eq!(navigation.site_path("SECURITY.md").as_deref(), Some("project/SECURITY.md"));
        assert_eq!(navigation.site_path("docs/images/a.svg").as_deref(), Some("images/a.svg"));
        assert_eq!(navigation.site_path("docs/guide/other.md"), None);
        assert_eq!(navigation.site_path("crates/a.rs"), None);
    }

    #[test]
    fn every_page_is_listed_once() {
        let files = [(SUMMARY, TEXT), ("docs/guide/a.md", ""), ("docs/guide/b.md", "")];
        let navigation = Navigation::read(&texts(&files)).unwrap();
        let unlisted = navigation.find_unlisted_pages(&texts(&files));
        assert_eq!(unlisted.len(), 1, "{unlisted:?}");
        assert!(unlisted[0].to_string().starts_with("docs/guide/b.md: "), "{unlisted:?}");
        let twice = format!("{TEXT}- [Again](guide/a.md)\n");
        assert!(Navigation::read(&texts(&[(SUMMARY, &twice)])).is_err());
        assert!(Navigation::read(&[]).is_err());
    }
}
