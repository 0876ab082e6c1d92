//! YAML parser with limits on nodes, depth and aliases. The upper levels become nodes with lines;
//! deeper values are written as JSON while they are read.

mod json_writer;
mod line_tracking;

use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{RenderOptions, Spanned, UserMessageFormatter};
use tool::{Json, Problem};

use line_tracking::RootLevel;

/// Node of one of the upper levels, with the scalars of JSON.
pub(super) enum YamlNode {
    /// Elements with their lines.
    List(Vec<(usize, Json)>),
    /// Members with the lines of their values.
    Mapping(Vec<(String, usize, Self)>),
    /// A value that is not split further.
    Json(Json),
}

impl YamlNode {
    pub(super) fn into_json(self) -> Json {
        match self {
            Self::List(items) => Json::array_of(items.iter().map(|(_, item)| item)),
            Self::Mapping(members) => {
                let member =
                    |(key, _, value): (String, _, Self)| (key, value.into_json().to_value());
                Json::encode(&members.into_iter().map(member).collect::<serde_json::Map<_, _>>())
            }
            Self::Json(text) => text,
        }
    }
}

fn spanned_line<T>(spanned: &Spanned<T>) -> usize {
    usize::try_from(spanned.referenced.line()).unwrap_or(usize::MAX)
}

/// Parses `text` and returns the line in which it begins; errors name the file as
/// `file_name`.
pub(super) fn parse_document(
    text: &[u8],
    file_name: &str,
) -> Result<(usize, YamlNode), Box<Problem>> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let message = format!("not UTF-8 at byte {}", error.valid_up_to() + 1);
        Box::new(Problem::new(file_name, message).with_help("save the file as UTF-8"))
    })?;
    let read = std::thread::scope(|scope| {
        let read =
            || serde_saphyr::from_str_with_options::<Spanned<RootLevel>>(text, parser_limits());
        let parser_thread = std::thread::Builder::new()
            .stack_size(PARSER_STACK_BYTES)
            .spawn_scoped(scope, read)
            .ok()?;
        parser_thread.join().ok()
    });
    let Some(read) = read else {
        return Err(Box::new(Problem::new(file_name, "the YAML parser failed on this file")));
    };
    let read = read.map(|root| (spanned_line(&root), root.value.into()));
    read.map_err(|error| {
        let location = error.location().filter(|location| location.line() > 0);

        let place = location.map_or_else(
            || file_name.to_owned(),
            |at| format!("{file_name}:{}:{}", at.line(), at.column()),
        );
        let mut render_options = RenderOptions::new(&UserMessageFormatter);
        render_options.source_name = Some(file_name);
        let rendered = error.render_with_options(render_options);
        let rendered: String = rendered.trim_end().chars().take(2_000).collect();
        Box::new(Problem::new(place, rendered).with_help("correct the YAML"))
    })
}

/// Stack size of the parser thread. The parser recurses with frames of some 30 KiB in a debug
/// build: 64 levels need more than the default of 2 MiB. Only used pages cost memory.
const PARSER_STACK_BYTES: usize = 16 << 20;

/// Limits of the parser: an alias bomb stops after a few thousand copies, far above what tool files
/// need.
fn parser_limits() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: 500_000,
            max_events: 1_000_000,
            max_depth: 64,
            flow_nesting_limit: 64,
            max_documents: 1,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_recorded_anchor_events: 50_000,
            max_recorded_anchor_bytes: 1 << 20,
            max_merge_keys: 1_000,
            max_total_scalar_bytes: 16 << 20,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 50_000,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        // YAML 1.2: `yes`, `no` and `on` are strings, as in an `enum` of a schema.
        strict_booleans: true,
        underscored_numbers_as_strings: true,
    }
}
