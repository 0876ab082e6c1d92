//! YAML, bounded before anything is built: nodes, depth, aliases. The levels that a tool file may have
//! become nodes with their lines; what lies below is written as JSON while it is read.

mod level;
mod write;

use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{RenderOptions, Spanned, UserMessageFormatter};
use tool::{Json, Problem};

use level::Root;

/// A node of one of the upper levels. Scalars are what JSON has.
pub(super) enum Yaml {
    /// Its elements, with their lines.
    List(Vec<(usize, Json)>),
    /// Its members, with the lines of their values.
    Mapping(Vec<(String, usize, Self)>),
    /// Anything that is not looked into.
    Text(Json),
}

impl Yaml {
    pub(super) fn text(self) -> Json {
        match self {
            Self::List(items) => Json::array(items.iter().map(|(_, item)| item)),
            Self::Mapping(members) => {
                let member = |(key, _, value): (String, _, Self)| (key, value.text().value());
                Json::of(&members.into_iter().map(member).collect::<serde_json::Map<_, _>>())
            }
            Self::Text(text) => text,
        }
    }
}

fn line_of<T>(spanned: &Spanned<T>) -> usize {
    usize::try_from(spanned.referenced.line()).unwrap_or(usize::MAX)
}

/// Reads `text`, which begins in the line that is given too; `place` is the file's name for errors.
pub(super) fn read(text: &[u8], place: &str) -> Result<(usize, Yaml), Box<Problem>> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let message = format!("not UTF-8 at byte {}", error.valid_up_to() + 1);
        Box::new(Problem::new(place, message).fix("save the file as UTF-8"))
    })?;
    let read = std::thread::scope(|scope| {
        let read = || serde_saphyr::from_str_with_options::<Spanned<Root>>(text, bounds());
        let reader =
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, read).ok()?;
        reader.join().ok()
    });
    let Some(read) = read else {
        return Err(Box::new(Problem::new(place, "the YAML reader broke down on this file")));
    };
    let read = read.map(|root| (line_of(&root), root.value.into()));
    read.map_err(|error| {
        let location = error.location().filter(|location| location.line() > 0);
        let file = place;
        let place = location.map_or_else(
            || place.to_owned(),
            |at| format!("{place}:{}:{}", at.line(), at.column()),
        );
        let mut how = RenderOptions::new(&UserMessageFormatter);
        how.source_name = Some(file);
        let rendered = error.render_with_options(how);
        let rendered: String = rendered.trim_end().chars().take(2_000).collect();
        Box::new(Problem::new(place, rendered).fix("mend the YAML"))
    })
}

/// The reader calls itself for each level, with frames of some 30 KiB in a debug build: at 64 levels
/// more than the 2 MiB other threads have. Only what is used of it costs memory.
const STACK: usize = 16 << 20;

/// An alias bomb is stopped after a few thousand copies; a file of honest tools stays far below.
fn bounds() -> serde_saphyr::Options {
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
        // YAML 1.2: `yes`, `no` and `on` are words, as in an `enum` of a schema.
        strict_booleans: true,
        underscored_numbers_as_strings: true,
    }
}
