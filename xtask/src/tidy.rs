//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! Every finding names the place, what is wrong there and what to do. The checks are functions of
//! texts, so that each is tested on a small input with and without the fault.

mod arrows;
mod defaults;
mod docs;
mod files;
mod lexer;
mod modules;
mod source;
mod words;

use std::fmt;

use crate::workspace::Workspace;

/// One thing to put right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// File, from the root of the repository.
    path: String,
    /// Line from 1; 0 where it is the whole file.
    line: usize,
    what: String,
    fix: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, fix } = self;
        write!(f, "{path}")?;
        if *line > 0 {
            write!(f, ":{line}")?;
        }
        write!(f, ": {what}; {fix}")
    }
}

/// Checks the checkout.
///
/// # Errors
/// Where something is to be put right; each finding is printed.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let texts = files::read(&workspace.root)?;
    let mut findings = arrows::check(workspace)?;
    findings.extend(check(&texts));
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to put right", texts.len());
            Ok(())
        }
        count => Err(format!("tidy: {count} things to put right")),
    }
}

fn check(texts: &[files::Text]) -> Vec<Finding> {
    let sources: Vec<source::Source<'_>> = texts.iter().filter_map(source::Source::read).collect();
    let mut findings = modules::check(&sources);
    findings.extend(sources.iter().flat_map(source::check));
    findings.extend(texts.iter().flat_map(words::check));
    findings.extend(docs::check(texts, &sources));
    findings
}

#[cfg(test)]
fn texts(files: &[(&str, &str)]) -> Vec<files::Text> {
    files.iter().map(|(path, text)| files::Text::new(path, text)).collect()
}
