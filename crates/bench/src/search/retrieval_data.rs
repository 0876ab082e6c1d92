//! Queries with the tools that answer them, and distractors, as files of JSON lines.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use flate2::read::GzDecoder;
use search::{AnalyzedTool, ToolText, sentence_text};
use serde_json::Value;

/// Files of distractors, in the order in which they are added.
pub(super) const DISTRACTORS: [&str; 2] =
    ["mcp_toolsdk_lite.jsonl.gz", "openapi_ops_lite.jsonl.gz"];

/// A tool and its text for a sentence model.
pub(super) type ToolWithText = (Arc<AnalyzedTool>, Arc<str>);
/// A distractor with its name.
pub(super) type Distractor = (String, ToolWithText);

/// One request and the positions of the tools that answer it.
#[derive(Debug)]
pub(super) struct JudgedQuery {
    /// Queries of the request, one for each sub-task.
    pub(super) queries: Vec<String>,
    pub(super) gold: Vec<usize>,
}

/// Tools, and queries with the tools that answer them.
#[derive(Debug)]
pub(super) struct RetrievalSet {
    pub(super) name: String,
    pub(super) tools: Vec<Arc<AnalyzedTool>>,
    /// Texts of the tools for a sentence model.
    pub(super) texts: Vec<Arc<str>>,
    pub(super) queries: Vec<JudgedQuery>,
    names: HashSet<String>,
}

impl RetrievalSet {
    /// Reads the development queries of a set, and its tools.
    pub(super) fn read(data: &Path, queries: &str, tools: &str) -> Result<Self, String> {
        let rows = read_rows(&data.join(format!("tools/{tools}.jsonl")))?;
        let names = rows.iter().enumerate().map(|(at, row)| (text_of(row, "name").to_owned(), at));
        let positions: HashMap<String, usize> = names.collect();
        let judged = read_rows(&data.join(format!("dev/{queries}.jsonl")))?;
        Ok(Self {
            name: queries.to_owned(),
            tools: rows.iter().map(|row| analyze_row(row).0).collect(),
            texts: rows.iter().map(|row| analyze_row(row).1).collect(),
            queries: judged.iter().filter_map(|row| judged_query(row, &positions)).collect(),
            names: positions.into_keys().collect(),
        })
    }

    /// Adds distractors that have no name of the set, up to a number of tools.
    pub(super) fn add_distractors(&mut self, distractors: &[Distractor], tools: usize) {
        let others = distractors.iter().filter(|(name, _)| !self.names.contains(name));
        let missing = tools.saturating_sub(self.tools.len());
        for (_, (tool, text)) in others.take(missing) {
            self.tools.push(Arc::clone(tool));
            self.texts.push(Arc::clone(text));
        }
    }

    /// Keeps at most a number of queries, evenly chosen.
    pub(super) fn sample_queries(&mut self, number: usize) {
        let step = self.queries.len().div_ceil(number).max(1);
        let mut index = 0;
        self.queries.retain(|_| {
            index += 1;
            index % step == 1 || step == 1
        });
    }
}

/// Reads and analyzes all distractors, each with its name.
pub(super) fn read_distractors(data: &Path) -> Result<Vec<Distractor>, String> {
    let mut all = Vec::new();
    for file in DISTRACTORS {
        let rows = read_rows(&data.join("distractors").join(file))?;
        all.extend(rows.iter().map(|row| (text_of(row, "name").to_owned(), analyze_row(row))));
    }
    Ok(all)
}

/// Reads all rows of a file, compressed if its name ends with `.gz`.
pub(super) fn read_rows(file: &Path) -> Result<Vec<Value>, String> {
    let fault = |error: &dyn std::fmt::Display| format!("`{}`: {error}", file.display());
    let bytes = fs::read(file).map_err(|error| fault(&error))?;
    let mut text = String::new();
    if file.extension().is_some_and(|kind| kind == "gz") {
        GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).map_err(|e| fault(&e))?;
    } else {
        text = String::from_utf8(bytes).map_err(|error| fault(&error))?;
    }
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| fault(&error))).collect()
}

fn text_of<'a>(row: &'a Value, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Analyzes the tool of a row.
pub(super) fn analyze_row(row: &Value) -> ToolWithText {
    let categories = [text_of(row, "category").to_owned()];
    let text = ToolText {
        name: text_of(row, "name"),
        title: None,
        description: text_of(row, "description"),
        input_schema: row.get("parameters"),
        source: text_of(row, "server"),
        source_description: text_of(row, "server_description"),
        categories: &categories,
    };
    (Arc::new(AnalyzedTool::from_text(&text)), sentence_text(&text).into())
}

/// Reads a query; `None` if no tool of the set answers it.
fn judged_query(row: &Value, positions: &HashMap<String, usize>) -> Option<JudgedQuery> {
    let names = row.get("gold")?.as_array()?.iter().filter_map(Value::as_str);
    let gold: Vec<usize> = names.filter_map(|name| positions.get(name).copied()).collect();
    let searches = row.get("searches").and_then(Value::as_array);
    let queries = match searches {
        Some(searches) => searches.iter().filter_map(Value::as_str).map(plain_search).collect(),
        None => vec![text_of(row, "query").to_owned()],
    };
    (!gold.is_empty()).then_some(JudgedQuery { queries, gold })
}

/// Removes the markup around a search that a model wrote for LiveMCPBench's own router.
fn plain_search(search: &str) -> String {
    let lines = search.lines().filter(|line| !line.contains("tool_assistant>"));
    let lines = lines.map(|line| {
        let plain = line.strip_prefix("server:").or_else(|| line.strip_prefix("tool:"));
        plain.unwrap_or(line).trim()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::plain_search;

    #[test]
    fn the_markup_of_a_routed_search_is_removed() {
        let search = "<tool_assistant>\nserver: news or games\ntool: get trends\n</tool_assistant>";
        assert_eq!(plain_search(search), "news or games\nget trends");
        assert_eq!(plain_search("a search"), "a search");
    }
}
