//! The built-in tools, a folder per category, and the source that offers them.
//!
//! Most are pure: they compute from their arguments and the clock port. Those that reach for files or
//! the net do so through guard alone. Each states its own traits; what they are believed to do is what
//! they do.

mod builtin;
mod data;
mod math;
mod source;
mod specialized;
mod system;
mod web;

pub use builtin::Builtin;
pub use math::expression::{Expression, ExpressionError};
pub use math::number::Number;
pub use source::BuiltinSource;
pub use system::files::Files;

use std::sync::Arc;

use guard::egress::Egress;
use tool::Clock;
use tool::artefact::Artefacts;

/// The built-in tools that only compute, in the order they are listed.
pub fn all(clock: Arc<dyn Clock>) -> Vec<Builtin> {
    vec![
        math::calculator::builtin(),
        system::current_datetime::builtin(Arc::clone(&clock)),
        system::current_date::builtin(Arc::clone(&clock)),
        system::current_time::builtin(clock),
        data::json_query::builtin(),
        data::csv_to_json::builtin(),
        data::json_to_csv::builtin(),
        data::generate_uuid::builtin(),
        specialized::echo::builtin(),
    ]
}

/// What the built-ins that reach for something outside are made with. Those whose means are missing
/// are not offered.
#[derive(Debug, Clone, Default)]
pub struct Means {
    /// The folders that tools may use.
    pub files: Option<Arc<Files>>,
    /// The way out.
    pub egress: Option<Egress>,
    /// Where large answers are kept.
    pub artefacts: Option<Arc<dyn Artefacts>>,
}

/// The built-in tools that reach for something outside.
pub fn reaching(means: &Means, clock: &Arc<dyn Clock>) -> Vec<Builtin> {
    let files = means.files.iter().flat_map(|files| {
        [
            system::read_file::builtin(Arc::clone(files)),
            system::write_file::builtin(Arc::clone(files)),
            system::list_directory::builtin(Arc::clone(files)),
        ]
    });
    let web = means.egress.iter().flat_map(|egress| {
        [
            web::http_get::builtin(egress.clone(), Arc::clone(clock)),
            web::http_post::builtin(egress.clone(), Arc::clone(clock)),
        ]
    });
    let artefacts = means.artefacts.iter().flat_map(data::artefacts::builtins);
    files.chain(web).chain(artefacts).collect()
}

/// The built-in that a tool file means by `implementation.handler`: by its own name, or by the name
/// spec 2 gives its handler.
pub fn handler(name: &str, clock: Arc<dyn Clock>) -> Option<Builtin> {
    all(clock)
        .into_iter()
        .find(|builtin| builtin.handler == name || builtin.tool.name.as_str() == name)
}

#[cfg(test)]
mod tests;
