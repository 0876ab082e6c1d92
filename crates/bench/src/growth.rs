//! `bench growth`: how the cost of an operation grows with what exists.
//!
//! Each row measures one operation at several sizes and fits the exponent of its growth. Times
//! depend on the machine and are shown; counts do not, and their exponents are judged.

mod catalog_fixture;
mod catalog_rows;
mod growth_row;
mod item_rows;
mod key_rows;
mod memory_rows;
mod policy_rows;
mod record_rows;
mod start_rows;

use std::fs;
use std::path::Path;

use catalog_rows::CatalogSizes;
use growth_row::GrowthRow;
use item_rows::ItemSizes;
use policy_rows::PolicySizes;
use serde_json::json;

use crate::{catalog, system_stats, target_check};

pub(crate) const USAGE: &str = "usage: cargo xtask bench growth [--only TOPIC | --write]

  --only TOPIC   measure the rows of `policy`, `keys`, `catalog`, `items`, `memory`, `start` or `records`
  --write        also write the report, docs/reference/benchmarks-growth.md and .json";

/// Sizes of one run.
#[derive(Debug)]
struct GrowthSizes {
    policy: PolicySizes,
    keys: &'static [usize],
    key_repetitions: usize,
    catalog: CatalogSizes,
    items: ItemSizes,
    /// Empty: the record is not measured.
    records: &'static [usize],
}

/// Keys stay below their maximum, at which a creation counts the valid ones.
const FULL_SIZES: GrowthSizes = GrowthSizes {
    policy: PolicySizes { tools: 10_000, rules: [10, 100, 1_000], classes: 9, calls: 2_000 },
    keys: &[100, 1_000, 10_000, 90_000],
    key_repetitions: 60,
    catalog: CatalogSizes {
        tools: &[1_000, 10_000, 100_000],
        tools_per_source: 200,
        large_sources: 10,
        classes: &[10, 100, 1_000],
        listed_sources: 500,
        class_tools: 10_000,
        class_numbers: &[10, 100, 1_000],
    },
    items: ItemSizes {
        prompts: &[2_000, 5_000, 10_000],
        resources: &[2_000, 20_000, 100_000],
        sources: 20,
    },
    records: &[600_000, 1_200_000, 2_400_000],
};

const REPORT_HEAD: &str = "\
# How cost grows

Written by `cargo xtask bench growth --write`; not by hand. Each row is one operation at several sizes of what exists beside it. \
The exponent is that of a power law through the points: 0 is constant, 1 is linear. Times are medians within the program, without network; \
they depend on the machine and are not judged. Counts are the same on every machine, and their exponents are judged. \
A test runs the rows of policies, keys, catalogs and items in a short form. What is updated by which event, and the limit of each cache: \
[growth](../design/growth.md).
";

/// Runs the benchmark, prints the report and writes it if requested.
pub(crate) async fn run_growth_bench(flags: &[&str]) -> Result<(), String> {
    let (only, file) = match flags {
        [] => (None, None),
        ["--only", topic] if TOPICS.contains(topic) => (Some(*topic), None),
        ["--write", file] => (None, Some(*file)),
        _ => return Err(USAGE.to_owned()),
    };
    let folder = catalog::create_temp_folder()?;
    let rows = measure_rows(&FULL_SIZES, only, &folder).await;
    drop(fs::remove_dir_all(&folder));
    let rows = rows?;
    if let Some(file) = file {
        let file = Path::new(file).with_extension("json");
        let text = format!("{:#}\n", report_json(&rows));
        fs::write(&file, text).map_err(|error| format!("`{}`: {error}", file.display()))?;
    }
    target_check::publish_report(&report_text(&rows), file)
}

/// Topics of rows, in the order of the report.
const TOPICS: [&str; 7] = ["policy", "keys", "catalog", "items", "memory", "start", "records"];

async fn measure_rows(
    sizes: &GrowthSizes,
    only: Option<&str>,
    folder: &Path,
) -> Result<Vec<GrowthRow>, String> {
    let mut rows = Vec::new();
    for topic in TOPICS.into_iter().filter(|topic| only.is_none_or(|only| only == *topic)) {
        rows.extend(match topic {
            "policy" => policy_rows::measure_policy_rows(sizes.policy)?,
            "keys" => key_rows::measure_key_rows(sizes.keys, sizes.key_repetitions).await?,
            "catalog" => catalog_rows::measure_catalog_rows(sizes.catalog).await?,
            "items" => item_rows::measure_item_rows(sizes.items, folder).await?,
            "memory" => memory_rows::measure_memory_rows(sizes.catalog).await?,
            _ if sizes.records.is_empty() => Vec::new(),
            "start" => vec![start_rows::measure_start_row(sizes.catalog.tools, folder).await?],
            _ => record_rows::measure_record_rows(sizes.records, folder).await?,
        });
    }
    Ok(rows)
}

fn report_text(rows: &[GrowthRow]) -> String {
    let mut text = format!("{REPORT_HEAD}\nMachine: {}.\n\n", system_stats::describe_machine());
    text.push_str(
        "| operation | what grows | time | exponent | what is counted | exponent | to be |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows {
        text.push_str(&row.to_string());
        text.push('\n');
    }
    text
}

fn report_json(rows: &[GrowthRow]) -> serde_json::Value {
    let rows = rows.iter().map(|row| {
        let points = row.points.iter().map(
            |point| json!({ "size": point.size, "micros": point.micros, "count": point.count }),
        );
        json!({
            "operation": row.name,
            "grows": row.grows,
            "counts": row.counts,
            "points": points.collect::<Vec<_>>(),
            "time_exponent": row.time_exponent(),
            "count_exponent": row.count_exponent(),
            "count_exponent_limit": row.exponent_limit,
        })
    });
    json!({ "machine": system_stats::describe_machine(), "rows": rows.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use server_core::tool_lists::MAX_PAGE_TOOLS;

    use super::{
        CatalogSizes, GrowthSizes, ItemSizes, PolicySizes, measure_rows, report_json, report_text,
    };
    use crate::catalog::create_temp_folder;

    /// The short form of the benchmark: counts alone are judged.
    #[tokio::test]
    async fn counts_grow_no_faster_than_they_may() {
        let sizes = GrowthSizes {
            policy: PolicySizes { tools: 300, rules: [10, 50, 250], classes: 2, calls: 2 },
            keys: &[10, 100, 1_000],
            key_repetitions: 4,
            catalog: CatalogSizes {
                tools: &[1_000, 2_000, 4_000],
                tools_per_source: 100,
                large_sources: 10,
                classes: &[2, 8, 32],
                listed_sources: 20,
                class_tools: 2_000,
                // The lists of fewer do not reach the limit of their cache.
                class_numbers: &[16, 32, 64],
            },
            items: ItemSizes {
                prompts: &[2_000, 4_000, 8_000],
                resources: &[2_000, 4_000, 8_000],
                sources: 4,
            },
            records: &[],
        };
        let rows = measure_rows(&sizes, None, &create_temp_folder().unwrap()).await.unwrap();
        assert_eq!(rows.len(), 23);
        for row in &rows {
            assert_eq!(row.points.len(), 3, "{row:?}");
            assert!(row.is_within_limit(), "{row}");
        }
        // Pages that are joined again cost no allocation for each of their tools.
        let pages =
            rows.iter().filter(|row| row.name.ends_with("until its pages of all lists have it"));
        let most = pages.flat_map(|row| &row.points).map(|point| point.count).fold(0.0, f64::max);
        assert!(most > 0.0 && most < MAX_PAGE_TOOLS as f64, "{most}");
        // The control: rules that concern every tool are evaluated, each of them.
        let counted = rows.iter().filter(|row| row.points.iter().all(|point| point.count > 0.0));
        assert_eq!(counted.count(), 21, "{rows:#?}");
        // So are the bytes of two whole lists.
        let linear = rows.iter().filter(|row| row.count_exponent() > 0.9).count();
        assert_eq!(linear, 3, "{rows:#?}");
        let text = report_text(&rows);
        assert_eq!(text.matches("\n| ").count(), 25, "{text}");
        assert!(!text.contains("missed"), "{text}");
        assert_eq!(report_json(&rows)["rows"].as_array().unwrap().len(), 23);
    }
}
