//! `cargo xtask docs`: builds `docs/` into a searchable static site with mdBook.
//!
//! `docs/SUMMARY.md` is the navigation and the list of pages. The pages are copied beside the
//! target folder, their links are rewritten for the site, mdBook renders them, and every link of
//! the rendered site is checked. `llms.txt` lists the pages for language models.

mod llms;
mod navigation;
mod site_check;
mod staging;

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::child_processes::run_quiet;
use crate::mdbook;
use crate::tidy::tracked_files::{self, TrackedText};
use crate::tidy::{TidyFinding, links};
use crate::workspace::{Workspace, file_error};
use navigation::Navigation;

/// Folders of one build.
struct BuildFolders {
    /// `book.toml`, and in `src` the pages with rewritten links.
    book: PathBuf,
    /// The rendered site.
    site: PathBuf,
}

impl BuildFolders {
    /// Empties both folders, so that no page of an earlier build stays.
    fn create(workspace: &Workspace) -> Result<Self, String> {
        let folder = workspace.target_dir.join("docs");
        let folders = Self { book: folder.join("book"), site: folder.join("site") };
        drop(fs::remove_dir_all(&folder));
        let source = folders.book.join("src");
        fs::create_dir_all(&source).map_err(|e| file_error(&source, &e))?;
        Ok(folders)
    }
}

/// Finds pages that the navigation of the site does not list.
///
/// # Errors
/// As [`Navigation::read`].
pub(crate) fn find_unlisted_pages(texts: &[TrackedText]) -> Result<Vec<TidyFinding>, String> {
    Ok(Navigation::read(texts)?.find_unlisted_pages(texts))
}

/// Builds the site and checks it.
///
/// # Errors
/// Where a link is dead, a page is not in the navigation, or mdBook cannot be had or fails.
pub(crate) fn build_site(workspace: &Workspace) -> Result<(), String> {
    let texts = tracked_files::read_tracked(&workspace.root_dir)?;
    let navigation = Navigation::read(&texts)?;
    let mut findings = links::check_links(&texts);
    findings.extend(navigation.find_unlisted_pages(&texts));
    report(&findings)?;
    let program = mdbook::install(workspace)?;
    let folders = BuildFolders::create(workspace)?;
    staging::write(&workspace.root_dir, &texts, &navigation, &folders.book)?;
    render(&program, &folders)?;
    write_extra_files(&texts, &navigation, &folders)?;
    let checked = site_check::check(&folders.site)?;
    report(&checked.findings)?;
    let start = folders.site.join("index.html");
    println!(
        "{} pages, {} links, none dead: {}",
        navigation.pages.len(),
        checked.links,
        start.display()
    );
    Ok(())
}

fn report(findings: &[impl Display]) -> Result<(), String> {
    for finding in findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("docs: {count} findings")),
    }
}

fn render(program: &PathBuf, folders: &BuildFolders) -> Result<(), String> {
    let mut build = Command::new(program);
    build.arg("build").arg(&folders.book).arg("--dest-dir").arg(&folders.site);
    let ended = run_quiet(&mut build)?;
    let log = ended.stdout_text + &ended.stderr_text;
    // mdBook logs a warning where it renders something that its author did not mean.
    if ended.status.success() && !log.contains("WARN") {
        Ok(())
    } else {
        Err(format!("mdbook failed:\n{log}"))
    }
}

/// Writes `llms.txt`, and beside each rendered page its Markdown, which `llms.txt` links.
fn write_extra_files(
    texts: &[TrackedText],
    navigation: &Navigation,
    folders: &BuildFolders,
) -> Result<(), String> {
    let source = folders.book.join("src");
    for page in &navigation.pages {
        let (from, to) = (source.join(&page.site_path), folders.site.join(&page.site_path));
        fs::copy(&from, &to).map_err(|e| file_error(&from, &e))?;
    }
    let file = folders.site.join("llms.txt");
    fs::write(&file, llms::render(texts, navigation)).map_err(|e| file_error(&file, &e))
}
