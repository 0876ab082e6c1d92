//! An HTTP/1.1 codec for clients and servers: heads, body framing and writing.
//!
//! The crate knows no credentials, addresses, proxies or limits of callers. It accepts messages
//! with exactly one interpretation. Other requests go to hyper; other responses are errors.
//! README.md has the list.

mod body_framing;
mod cached_head;
mod client_connection;
mod decimal;
mod error;
mod head_writer;
mod prefixed_io;
mod read_buffer;
mod request_encoder;
mod request_head;
mod response_head;
mod response_writer;
mod server_connection;
mod timeout_stream;

pub use body_framing::BodyFraming;
pub use cached_head::{CachedHead, HeadMatch};
pub use client_connection::{ClientConnection, ExchangeError};
pub use decimal::parse_decimal;
pub use error::ProtocolError;
pub use head_writer::{is_connection_header, write_field, write_fields};
pub use prefixed_io::PrefixedIo;
pub use request_encoder::{EncodedRequest, sends_content_length, write_request_target};
pub use request_head::RequestHead;
pub use response_head::{ResponseHead, ResponseStart};
pub use server_connection::{NextRequest, RequestRules, ServerConnection};
pub use timeout_stream::TimeoutStream;

/// Maximum size of a body that is written together with its head, in bytes. Larger bodies are not
/// copied.
const MAX_COALESCED_BODY: usize = 16 << 10;
