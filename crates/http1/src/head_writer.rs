//! The one writer of head fields, and which fields belong to a connection.

use http::header::{self, HeaderMap, HeaderName};

/// Fields of one connection, and those that only this crate may write (RFC 9110, 7.6.1).
const CONNECTION_HEADERS: [HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// Whether a field of a request is not its sender's to set.
pub fn is_connection_header(name: &HeaderName) -> bool {
    CONNECTION_HEADERS.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Writes all fields in their order.
pub fn write_fields(head: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        write_field(head, name.as_str(), value.as_bytes());
    }
}

/// Writes one field. The value has no line end: it is a `HeaderValue`, or of our own making.
pub fn write_field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}
