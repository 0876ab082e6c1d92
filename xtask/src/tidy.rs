//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! Every finding states the location, the problem and the fix. The checks are functions of texts,
//! so that each is tested on a small input with and without the problem.

mod dependency_rules;
mod document_rules;
mod forbidden_words;
mod lexer;
pub(crate) mod links;
mod name_rules;
mod silent_defaults;
mod source_rules;
pub(crate) mod tracked_files;
mod undeclared_files;

use std::fmt;

use crate::docs;
use crate::workspace::Workspace;

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TidyFinding {
    /// File, from the root of the repository.
    path: String,
    /// Line number from 1; 0 for the whole file.
    line: usize,
    problem: String,
    help: String,
}

impl TidyFinding {
    pub(crate) fn new(
        path: &str,
        line: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, problem: what.into(), help: fix.into() }
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, problem: what, help: fix } = self;
        write!(f, "{path}")?;
        if *line > 0 {
            write!(f, ":{line}")?;
        }
        write!(f, ": {what}; {fix}")
    }
}

/// Checks the tracked files and prints each finding.
///
/// # Errors
/// If there is a finding.
pub(crate) fn run_checks(workspace: &Workspace) -> Result<(), String> {
    let texts = tracked_files::read_tracked(&workspace.root_dir)?;
    let mut findings = dependency_rules::check_dependencies(workspace)?;
    findings.extend(check_texts(&texts));
    findings.extend(docs::find_unlisted_pages(&texts)?);
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, no findings", texts.len());
            Ok(())
        }
        count => Err(format!("tidy: {count} findings")),
    }
}

fn check_texts(texts: &[tracked_files::TrackedText]) -> Vec<TidyFinding> {
    let sources: Vec<source_rules::RustSource<'_>> =
        texts.iter().filter_map(source_rules::RustSource::from_text).collect();
    let mut findings = undeclared_files::check_modules(&sources);
    findings.extend(name_rules::check_names(&sources));
    findings.extend(sources.iter().flat_map(source_rules::check_source));
    findings.extend(texts.iter().flat_map(forbidden_words::check_words));
    findings.extend(document_rules::check_documents(texts, &sources));
    findings.extend(links::check_links(texts));
    findings
}

#[cfg(test)]
pub(crate) fn texts(files: &[(&str, &str)]) -> Vec<tracked_files::TrackedText> {
    files.iter().map(|(path, text)| tracked_files::TrackedText::new(path, text)).collect()
}
