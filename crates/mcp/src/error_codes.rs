//! Error codes of JSON-RPC and MCP, as of the 2026-07-28 schema.

/// The text is not JSON, or a strict parser rejects it.
pub const PARSE_ERROR: i64 = -32_700;
/// The text is JSON, but not a JSON-RPC message.
pub const INVALID_REQUEST: i64 = -32_600;
/// The receiver has no such method.
pub const METHOD_NOT_FOUND: i64 = -32_601;
/// The params do not fit the method. Also used for an unknown tool, prompt or cursor.
pub const INVALID_PARAMS: i64 = -32_602;
/// The server failed internally.
pub const INTERNAL_ERROR: i64 = -32_603;
/// The resource does not exist. Used by versions before 2026-07-28; that one uses
/// [`INVALID_PARAMS`].
pub const RESOURCE_NOT_FOUND: i64 = -32_002;
/// A header does not match the body (2026-07-28).
pub const HEADER_MISMATCH: i64 = -32_020;
/// The request needs a capability that the client did not declare (2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32_021;
/// The receiver does not support the protocol version of the request (2026-07-28).
pub const UNSUPPORTED_VERSION: i64 = -32_022;
/// The client must open addresses for the user before it repeats the request (2025-11-25).
pub const URL_ELICITATION_REQUIRED: i64 = -32_042;
/// Something that the request names does not exist (events extension).
pub const NOT_FOUND: i64 = -32_023;
/// The caller may not do this, or no longer (events extension).
pub const FORBIDDEN: i64 = -32_024;
/// A limit of the server was reached (events extension).
pub const RESOURCE_EXHAUSTED: i64 = -32_025;
/// The server does not support an option of the request (events extension).
pub const UNSUPPORTED: i64 = -32_026;
/// A callback URL of the client cannot be reached, or was not verified (events extension).
pub const CALLBACK_ENDPOINT: i64 = -32_027;
