//! `bench search`: quality and cost of tool search, without network.
//!
//! Quality is measured on development queries only, with the tools of their sets and with real
//! distractors up to 100,000 tools.

mod learned_quality;
mod report;
mod retrieval_data;
mod retrieval_quality;
mod search_cost;
mod sentence_encoder;

use std::path::{Path, PathBuf};

use crate::{system_stats, target_check};
use learned_quality::{LEARNING_SETS, LearnedQuality, LearningTable, measure_learning};
use report::SearchReport;
use retrieval_data::RetrievalSet;
use retrieval_quality::{Quality, SetQuality, measure_set};
use sentence_encoder::SentenceEncoder;

const USAGE: &str = "\
usage: cargo xtask bench search [OPTIONS]

  --data DIR    folder with retrieval/; without it $TOOLKEEP_DATA
  --tools N     tools of the measurements at scale (100000)
  --model DIR   also measure with a sentence model: a folder with an `.onnx` file and `tokenizer.json`
  --part learning  measure what learning gains, and nothing else
  --keep DIR    folder that keeps the vectors of texts between runs; without it that of temporary files
  --write       also write the report, docs/reference/benchmarks-search.md, with JSON beside it";

/// Sets of the macro average, each with the R@5 of BM25 (bm25s, k1 1.2, b 0.75, Snowball, all
/// fields as one text), measured apart.
const SETS: &[(&str, f64)] = &[
    ("livemcpbench", 33.8),
    ("stabletoolbench", 64.3),
    ("sealtools", 81.9),
    ("bfcl_v4", 83.2),
    ("toollinkos_main", 92.1),
    ("metatool_single", 59.3),
    ("metatool_multi", 43.1),
    ("acebench_en", 96.9),
    ("toollinkos", 20.6),
];
/// Sets that are measured among distractors, each with the R@5 of BM25 there, and whether the
/// figure must be 10 points above it.
const SCALE_SETS: &[(&str, f64, bool)] = &[
    ("livemcpbench", 17.4, true),
    ("bfcl_v4", 71.1, true),
    ("stabletoolbench", 54.0, true),
    ("metatool_single", 28.6, false),
    ("toollinkos_main", 84.0, false),
];
/// Number of tools at scale.
const SCALE: usize = 100_000;
/// Maximum number of queries of each set with a sentence model, evenly chosen.
const SENTENCE_QUERIES: usize = 1_000;
/// Maximum number of queries of each set at scale, evenly chosen.
const SCALE_QUERIES: usize = 500;

/// Options of one run.
struct SearchOptions {
    data: PathBuf,
    tools: usize,
    model: Option<PathBuf>,
    keep: PathBuf,
    write: Option<PathBuf>,
    /// Whether nothing but learning is measured.
    only_learning: bool,
}

impl SearchOptions {
    fn parse_flags(flags: &[&str]) -> Result<Self, String> {
        let (mut data, mut tools, mut write) = (None, SCALE, None);
        let (mut model, mut keep) = (None, std::env::temp_dir());
        let mut only_learning = false;
        for pair in flags.chunks(2) {
            match pair {
                ["--data", path] => data = Some(PathBuf::from(path)),
                ["--model", path] => model = Some(PathBuf::from(path)),
                ["--part", "learning"] => only_learning = true,
                ["--keep", path] => keep = PathBuf::from(path),
                ["--write", path] => write = Some(PathBuf::from(path)),
                ["--tools", number] => tools = number.parse().map_err(|_| USAGE.to_owned())?,
                _ => return Err(USAGE.to_owned()),
            }
        }
        let data = data.or_else(|| std::env::var_os("TOOLKEEP_DATA").map(PathBuf::from));
        let data = data.ok_or_else(|| format!("no data: pass --data DIR\n\n{USAGE}"))?;
        let data = data.join("retrieval");
        Ok(Self { data, tools, model, keep, write, only_learning })
    }
}

/// Runs the benchmark, prints the report and writes it if requested.
///
/// # Errors
/// The usage text, a file that cannot be read, or figures that miss their targets.
pub(crate) fn run_search_bench(flags: &[&str]) -> Result<(), String> {
    let options = SearchOptions::parse_flags(flags)?;
    if options.only_learning {
        let table = LearningTable(measure_all_learning(&options)?);
        return target_check::publish_report(&table.to_string(), None);
    }
    let read = |queries: &str, tools: &str| RetrievalSet::read(&options.data, queries, tools);
    let model = options.model.as_deref();
    let mut encoder =
        model.map(|folder| SentenceEncoder::load(folder, &options.keep)).transpose()?;
    let mut measure = |set: &RetrievalSet| measure_set(set, encoder.as_mut());
    let mut sets = Vec::new();
    for (name, _) in SETS {
        println!("{name}");
        sets.push(measure(&read(name, name)?)?);
    }
    let others = [("acebench_zh", "acebench_zh"), ("livemcp_route", "livemcpbench")];
    let others: Vec<SetQuality> = others
        .iter()
        .map(|(queries, tools)| measure(&read(queries, tools)?))
        .collect::<Result<_, String>>()?;
    let distractors = retrieval_data::read_distractors(&options.data)?;
    let mut scale = Vec::new();
    for (name, ..) in SCALE_SETS {
        println!("{name}, {} tools", options.tools);
        let mut set = read(name, name)?;
        set.add_distractors(&distractors, options.tools);
        set.sample_queries(SCALE_QUERIES);
        scale.push(measure_set(&set, None)?);
    }
    let learning = measure_all_learning(&options)?;
    println!("cost of {} tools", options.tools);
    let cost = search_cost::measure_cost(&options.data, options.tools, SETS)?;
    let machine = system_stats::describe_machine();
    let report = SearchReport { machine, sets, others, scale, learning, cost };
    if let Some(file) = &options.write {
        write_json(&report, &file.with_extension("json"))?;
    }
    let file = options.write.as_deref().and_then(Path::to_str);
    target_check::publish_report(&report.to_string(), file)
}

/// Measures what learning gains, for each of its sets.
fn measure_all_learning(options: &SearchOptions) -> Result<Vec<LearnedQuality>, String> {
    let measure = |name: &&'static str| {
        println!("{name}, learning");
        Ok(measure_learning(name, &RetrievalSet::read(&options.data, name, name)?))
    };
    LEARNING_SETS.iter().map(measure).collect()
}

fn write_json(report: &SearchReport, file: &Path) -> Result<(), String> {
    let text = serde_json::to_string_pretty(&report.to_json()).map_err(|e| e.to_string())?;
    std::fs::write(file, text + "\n").map_err(|error| format!("`{}`: {error}", file.display()))
}

/// Returns the mean of a figure over sets.
fn macro_average(sets: &[SetQuality], figure: impl Fn(&SetQuality) -> Quality) -> Quality {
    let mut sum = Quality::default();
    for set in sets {
        sum.add(&figure(set));
    }
    sum.divided_by(sets.len())
}

#[cfg(test)]
mod tests {
    use super::SearchOptions;

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let options = SearchOptions::parse_flags(&["--data", "d", "--tools", "500"]).unwrap();
        assert_eq!((options.data.to_str(), options.tools), (Some("d/retrieval"), 500));
        assert!(!options.only_learning);
        let options = ["--data", "d", "--part", "learning"];
        assert!(SearchOptions::parse_flags(&options).unwrap().only_learning);
        let wrong = [&["--tools", "x"][..], &["--data"], &["--fast", "1"], &["--part", "cost"]];
        for flags in wrong {
            assert!(SearchOptions::parse_flags(flags).is_err(), "{flags:?}");
        }
    }
}
