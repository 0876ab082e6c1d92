//! JSON-RPC's error codes and MCP's own, as of the 2026-07-28 schema.

/// No JSON, or JSON that a strict reader refuses.
pub const PARSE_ERROR: i64 = -32_700;
/// JSON, but no message.
pub const INVALID_REQUEST: i64 = -32_600;
/// No such method here.
pub const METHOD_NOT_FOUND: i64 = -32_601;
/// The params do not fit the method; also an unknown tool, prompt or cursor.
pub const INVALID_PARAMS: i64 = -32_602;
/// A fault of the server.
pub const INTERNAL_ERROR: i64 = -32_603;
/// No such resource (revisions before 2026-07-28; that one says [`INVALID_PARAMS`]).
pub const RESOURCE_NOT_FOUND: i64 = -32_002;
/// A header says something else than the body (2026-07-28).
pub const HEADER_MISMATCH: i64 = -32_020;
/// The client did not declare a capability that the request needs (2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32_021;
/// A revision that is not spoken here (2026-07-28).
pub const UNSUPPORTED_VERSION: i64 = -32_022;
