//! Links of the rendered site: each must lead to a file of it and, behind a `#`, to an element.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use crate::tidy::links::{is_external, resolve};
use crate::workspace::file_error;

/// Pages that mdBook makes for servers; their addresses count from another place.
const SKIPPED: &[&str] = &["404.html"];

/// Result of a check.
pub(super) struct CheckedSite {
    /// Number of links that were checked.
    pub(super) links: usize,
    pub(super) findings: Vec<String>,
}

/// Identifiers and links of one rendered page.
#[derive(Debug, Default, PartialEq, Eq)]
struct RenderedPage {
    identifiers: HashSet<String>,
    links: Vec<String>,
}

/// Checks every link of every page below the folder.
pub(super) fn check(site: &Path) -> Result<CheckedSite, String> {
    let mut files = BTreeMap::new();
    read_folder(site, "", &mut files)?;
    Ok(check_pages(&files))
}

fn read_folder(
    folder: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, RenderedPage>,
) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(|e| file_error(folder, &e))? {
        let path = entry.map_err(|e| file_error(folder, &e))?.path();
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            read_folder(&path, &format!("{name}/"), files)?;
        } else if path.extension().is_some_and(|it| it == "html") {
            let text = fs::read_to_string(&path).map_err(|e| file_error(&path, &e))?;
            files.insert(name, parse_page(&text));
        } else {
            files.insert(name, RenderedPage::default());
        }
    }
    Ok(())
}

fn check_pages(files: &BTreeMap<String, RenderedPage>) -> CheckedSite {
    let mut checked = CheckedSite { links: 0, findings: Vec::new() };
    for (name, page) in files.iter().filter(|(name, _)| !SKIPPED.contains(&name.as_str())) {
        for link in page.links.iter().filter(|link| !is_external(link)) {
            checked.links += 1;
            let fault = match resolve(name, link) {
                Some(target) => find_fault(files, &target.path, target.fragment.as_deref()),
                None => Some("leads out of the site"),
            };
            checked.findings.extend(fault.map(|fault| format!("{name}: `{link}` {fault}")));
        }
    }
    checked
}

fn find_fault(
    files: &BTreeMap<String, RenderedPage>,
    path: &str,
    fragment: Option<&str>,
) -> Option<&'static str> {
    let Some(page) = files.get(path) else { return Some("is not a file of the site") };
    let is_page = Path::new(path).extension().is_some_and(|it| it == "html");
    let fragment = fragment.filter(|it| is_page && !it.is_empty())?;
    (!page.identifiers.contains(fragment)).then_some("is not an element of the page")
}

/// Reads the tags of a page; text and scripts between them are passed over.
fn parse_page(text: &str) -> RenderedPage {
    let mut page = RenderedPage::default();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').unwrap_or((after, ""));
        rest = after;
        if tag.starts_with("script") {
            rest = after.split_once("</script>").map_or("", |(_, after)| after);
        }
        page.identifiers.extend(attribute(tag, "id"));
        page.links.extend(attribute(tag, "href"));
        page.links.extend(attribute(tag, "src"));
    }
    page
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, value) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = value.split_once('"')?;
    Some(value.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{RenderedPage, check_pages, parse_page};

    fn findings(pages: &[(&str, &str)]) -> Vec<String> {
        let page = |(name, text): &(&str, &str)| ((*name).to_owned(), parse_page(text));
        let files: BTreeMap<String, RenderedPage> = pages.iter().map(page).collect();
        check_pages(&files).findings
    }

    #[test]
    fn a_live_link_leads_to_a_file_and_an_element() {
        let start = r##"<a href="g/a.html#x">a</a><img src="i.svg"><a href="#y"><b id="y">&lt;</b>
            <a href="https://a.example"></a><script> href="no" </script><code>href="no"</code>"##;
        let other = r#"<h2 class="c" id="x"></h2><a href="../index.html">s</a>"#;
        assert_eq!(findings(&[("index.html", start), ("g/a.html", other), ("i.svg", "")]), [""; 0]);
        assert_eq!(
            findings(&[("index.html", start), ("g/a.html", "")]),
            [
                "index.html: `g/a.html#x` is not an element of the page",
                "index.html: `i.svg` is not a file of the site",
            ]
        );
        assert_eq!(findings(&[("a.html", r#"<a href="../../b.html">"#)]).len(), 1);
        assert_eq!(findings(&[("404.html", r#"<a href="b.html">"#)]), [""; 0]);
    }
}
