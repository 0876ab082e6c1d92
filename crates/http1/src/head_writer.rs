//! Writes head fields, and lists the fields that belong to a connection.

use http::header::{self, HeaderMap, HeaderName};

/// Connection fields (RFC 9110, 7.6.1), and fields that only this crate writes.
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

/// Whether callers must not set this field of a request.
pub fn is_connection_header(name: &HeaderName) -> bool {
    CONNECTION_HEADERS.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Writes all fields in their order.
pub fn write_fields(head: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        write_field(head, name.as_str(), value.as_bytes());
    }
}

/// Writes one field. The value must have no line end, as a `HeaderValue`.
pub fn write_field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}
