//! Licence texts of all crates in the program, as one document: each text once, after the crates
//! that it covers.

use std::collections::BTreeMap;
use std::fs;

use super::dependency_graph::{DependencyGraph, RegistryCrate};
use crate::workspace::file_error;

/// How names of licence files begin, in upper case.
const FILE_BEGINNINGS: &[&str] =
    &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// Standard texts for crates whose package has none, by the SPDX name of the licence.
pub(crate) struct StandardTexts {
    /// Text of the MIT licence, without its copyright line.
    pub(crate) mit: String,
    /// Text of the Apache licence 2.0.
    pub(crate) apache: String,
}

/// Renders the document of all licence texts.
///
/// # Errors
/// If a crate has no licence text and its licence is not one with a standard text here.
pub(crate) fn render_document(
    graph: &DependencyGraph,
    standard: &StandardTexts,
) -> Result<String, String> {
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for found in &graph.crates {
        let label = format!("{} {} ({})", found.name, found.version, found.license_expression());
        for text in crate_texts(found, standard)? {
            users.entry(text).or_default().push(label.clone());
        }
    }
    let mut sections: Vec<(Vec<String>, String)> =
        users.into_iter().map(|(text, labels)| (labels, text)).collect();
    sections.sort();
    let count = graph.crates.len();
    let mut parts = vec![format!(
        "Toolkeep contains {count} crates of others. Each licence text stands below the crates that \
         it covers.\n"
    )];
    let rule = "=".repeat(80);
    for (labels, text) in sections {
        parts.push(format!("\n{rule}\n{}\n{rule}\n\n{text}\n", labels.join("\n")));
    }
    Ok(parts.concat())
}

fn crate_texts(found: &RegistryCrate, standard: &StandardTexts) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    let folder = &found.source_dir;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| file_error(folder, &e))? {
        let entry = entry.map_err(|e| file_error(folder, &e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let upper = name.to_uppercase();
        if FILE_BEGINNINGS.iter().any(|start| upper.starts_with(start)) && entry.path().is_file() {
            names.push(name);
        }
    }
    names.sort();
    for name in names {
        let path = folder.join(name);
        let content = fs::read(&path).map_err(|e| file_error(&path, &e))?;
        texts.push(normalize_text(&String::from_utf8_lossy(&content)));
    }
    if texts.is_empty() {
        texts.push(standard_text(found, standard)?);
    }
    Ok(texts)
}

/// Removes differences that no reader sees, so that equal texts stand once.
fn normalize_text(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
    lines.join("\n").trim_start_matches('\u{feff}').to_owned()
}

/// Returns the standard text for a crate whose package has no licence file.
fn standard_text(found: &RegistryCrate, standard: &StandardTexts) -> Result<String, String> {
    let expression = found.license_expression();
    let mut choices = expression.split(" OR ").map(|it| it.trim_matches(['(', ')']));
    let holder = if found.authors.is_empty() {
        format!("the authors of {}", found.name)
    } else {
        found.authors.join(", ")
    };
    let note = "(The package has no licence file; this is the standard text.)";
    if choices.clone().any(|it| it == "MIT") {
        let text = normalize_text(&standard.mit);
        return Ok(format!("{note}\n\nCopyright (c) {holder}\n\n{text}"));
    }
    if choices.any(|it| it == "Apache-2.0") {
        return Ok(format!("{note}\n\n{}", normalize_text(&standard.apache)));
    }
    Err(format!(
        "the package of {} {} has no licence file, and there is no standard text of `{expression}`",
        found.name, found.version
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{StandardTexts, render_document};
    use crate::dist::dependency_graph::{DependencyGraph, RegistryCrate};

    #[test]
    fn a_text_stands_once_and_a_missing_one_is_the_standards() {
        let root = std::env::temp_dir().join(format!("license-texts-{}", std::process::id()));
        let texts = [("a", Some("Text\r\nof two \n")), ("b", Some("Text\nof two")), ("c", None)];
        let crates = texts.map(|(name, text)| {
            let folder = root.join(name);
            std::fs::create_dir_all(&folder).unwrap();
            if let Some(text) = text {
                std::fs::write(folder.join("LICENSE-MIT"), text).unwrap();
            }
            RegistryCrate {
                name: name.to_owned(),
                version: "1.0.0".to_owned(),
                license: "MIT".to_owned(),
                authors: vec!["Ada".to_owned()],
                repository: None,
                checksum: None,
                source_dir: folder,
            }
        });
        let graph =
            |crates| DependencyGraph { crates, edges: BTreeMap::new(), direct: BTreeSet::new() };
        let standard = StandardTexts { mit: "Permission".to_owned(), apache: "Apache".to_owned() };
        let document = render_document(&graph(crates.to_vec()), &standard).unwrap();
        assert_eq!(document.matches("Text\nof two").count(), 1, "{document}");
        assert!(document.contains("a 1.0.0 (MIT)\nb 1.0.0 (MIT)\n="), "{document}");
        assert!(document.contains("Copyright (c) Ada\n\nPermission"), "{document}");
        let mut unknown = crates[2].clone();
        unknown.license = "Unheard-1.0".to_owned();
        let error = render_document(&graph(vec![unknown]), &standard).unwrap_err();
        std::fs::remove_dir_all(&root).unwrap();
        assert!(error.contains("`Unheard-1.0`"), "{error}");
    }
}
