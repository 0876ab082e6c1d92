//! Copies of the pages for mdBook, with links rewritten to the places that the site has.

use std::fs;
use std::path::Path;

use super::navigation::{Navigation, SUMMARY};
use crate::tidy::links::{find_links, is_external, resolve};
use crate::tidy::tracked_files::TrackedText;
use crate::workspace::file_error;

/// Settings and styles of mdBook: files of the repository, and their names beside the pages.
const SETTINGS: &[(&str, &str)] =
    &[("docs/book.toml", "book.toml"), ("docs/site.css", "site.css"), (SUMMARY, "src/SUMMARY.md")];
/// Where the site links files that it does not contain.
const REPOSITORY: &str = "https://github.com/toolkeep/toolkeep";

/// Writes all pages and the files that they show into the folder of mdBook.
pub(super) fn write(
    root: &Path,
    texts: &[TrackedText],
    navigation: &Navigation,
    book_dir: &Path,
) -> Result<(), String> {
    for text in texts {
        let setting = SETTINGS.iter().find(|(path, _)| *path == text.path);
        let place = match (setting, navigation.site_path(&text.path)) {
            (Some((_, name)), _) => book_dir.join(name),
            (None, Some(site_path)) => book_dir.join("src").join(site_path),
            (None, None) => continue,
        };
        let folder = place.parent().unwrap_or(book_dir);
        fs::create_dir_all(folder).map_err(|e| file_error(folder, &e))?;
        if text.has_extension("md") {
            let content = rewrite_links(text, texts, navigation);
            fs::write(&place, content).map_err(|e| file_error(&place, &e))?;
        } else {
            // As bytes: a picture is no text.
            let from = root.join(&text.path);
            fs::copy(&from, &place).map_err(|e| file_error(&from, &e))?;
        }
    }
    Ok(())
}

/// Returns a page with each of its links as the site needs it.
fn rewrite_links(page: &TrackedText, texts: &[TrackedText], navigation: &Navigation) -> String {
    let own_place = match page.path.as_str() {
        SUMMARY => Some("SUMMARY.md".to_owned()),
        path => navigation.site_path(path),
    };
    let own_place = own_place.unwrap_or_default();
    let mut content = page.content.clone();
    // From the last to the first, so that the places of those before stay true.
    for link in find_links(&page.content).into_iter().rev() {
        if is_external(&link.destination) {
            continue;
        }
        let Some(target) = resolve(&page.path, &link.destination) else { continue };
        let fragment = target.fragment.map(|it| format!("#{it}")).unwrap_or_default();
        let place = match navigation.site_path(&index_of(&target.path, texts)) {
            Some(site_path) => relative(&own_place, &site_path),
            None => repository_address(&target.path, texts),
        };
        let place = if target.path == page.path { String::new() } else { place };
        content.replace_range(link.span, &format!("{place}{fragment}"));
    }
    content
}

/// A link to a folder is one to its `README.md`, where it has one.
fn index_of(path: &str, texts: &[TrackedText]) -> String {
    let index = format!("{path}/README.md");
    if texts.iter().any(|text| text.path == index) { index } else { path.to_owned() }
}

fn repository_address(path: &str, texts: &[TrackedText]) -> String {
    let kind = if texts.iter().any(|text| text.path == path) { "blob" } else { "tree" };
    format!("{REPOSITORY}/{kind}/main/{path}")
}

/// Returns the path from the folder of one file of the site to another.
fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let folders = from.len().saturating_sub(1);
    let shared = from.iter().take(folders).zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", folders - shared);
    up.chain(to.into_iter().skip(shared)).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::super::navigation::{Navigation, SUMMARY};
    use super::{relative, rewrite_links};
    use crate::tidy::texts;

    #[test]
    fn paths_go_from_page_to_page() {
        for (from, to, path) in [
            ("README.md", "guide/a.md", "guide/a.md"),
            ("guide/a.md", "guide/b.md", "b.md"),
            ("guide/a.md", "README.md", "../README.md"),
            ("reference/x/a.md", "project/b.md", "../../project/b.md"),
        ] {
            assert_eq!(relative(from, to), path);
        }
    }

    #[test]
    fn links_lead_to_the_site_or_to_the_repository() {
        let page = "[a](b.md#c) [s](../../SECURITY.md) [x](../../crates/x.rs) [d](../../crates) \
                    [i](../images/i.svg) [w](https://a.example/b) [here](#c) `[no](b.md)`\n\n[b.md]: b.md\n";
        let files = texts(&[
            (SUMMARY, "[A](guide/a.md)\n[B](guide/b.md)\n[S](../SECURITY.md)\n"),
            ("docs/guide/a.md", page),
            ("docs/guide/b.md", "# c\n"),
            ("docs/images/i.svg", ""),
            ("SECURITY.md", ""),
            ("crates/x.rs", ""),
        ]);
        let navigation = Navigation::read(&files).unwrap();
        let tree = "https://github.com/toolkeep/toolkeep";
        assert_eq!(
            rewrite_links(&files[1], &files, &navigation),
            format!(
                "[a](b.md#c) [s](../project/SECURITY.md) [x]({tree}/blob/main/crates/x.rs) \
                 [d]({tree}/tree/main/crates) [i](../images/i.svg) [w](https://a.example/b) [here](#c) \
                 `[no](b.md)`\n\n[b.md]: b.md\n"
            )
        );
        assert_eq!(
            rewrite_links(&files[0], &files, &navigation),
            "[A](guide/a.md)\n[B](guide/b.md)\n[S](project/SECURITY.md)\n"
        );
    }
}
