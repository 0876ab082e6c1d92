//! Built-in tools of the research registry's category `specialized`: `echo`.

pub(crate) mod echo;
