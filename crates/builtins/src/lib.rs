//! The built-in tools, a folder per category, and the source that offers them.
//!
//! Those here are pure: they compute from their arguments and the clock port, read no file, open no
//! connection and keep nothing. Each states its own traits; what they are believed to do is what they
//! do.

mod builtin;
mod data;
mod math;
mod source;
mod specialized;
mod system;

pub use builtin::Builtin;
pub use math::expression::{Expression, ExpressionError};
pub use math::number::Number;
pub use source::BuiltinSource;

use std::sync::Arc;

use tool::Clock;

/// Every built-in tool, in the order they are listed.
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

/// The built-in that a tool file means by `implementation.handler`: by its own name, or by the name
/// spec 2 gives its handler.
pub fn handler(name: &str, clock: Arc<dyn Clock>) -> Option<Builtin> {
    all(clock)
        .into_iter()
        .find(|builtin| builtin.handler == name || builtin.tool.name.as_str() == name)
}

#[cfg(test)]
mod tests;
