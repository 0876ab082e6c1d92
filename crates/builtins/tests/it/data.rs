//! Attack inputs that are kept outside of this repository. Where they are absent nothing is proven:
//! the test says so, and fails where `TOOLKEEP_REQUIRE_DATA` asks for them.

mod archives;
mod paths;
mod patterns;
mod table;
mod urls;
