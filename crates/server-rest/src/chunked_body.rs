//! A response body of several shared byte slices, which are not copied.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// The slices still to be sent. The total length is known and declared.
#[derive(Debug)]
pub(crate) struct ChunkedBody<const N: usize>(std::array::IntoIter<Bytes, N>);

impl<const N: usize> ChunkedBody<N> {
    pub(crate) fn from_pieces(pieces: [Bytes; N]) -> Self {
        Self(pieces.into_iter())
    }
}

impl<const N: usize> Body for ChunkedBody<N> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_slice().iter().map(|piece| piece.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use http_body_util::BodyExt as _;
    use hyper::body::Body as _;

    use super::ChunkedBody;

    #[tokio::test]
    async fn pieces_are_sent_as_they_are_kept() {
        let kept = Bytes::from(vec![b'x'; 1 << 20]);
        let mut frames =
            ChunkedBody::from_pieces([Bytes::from_static(b"["), kept.clone(), Bytes::new()]);
        assert_eq!(frames.size_hint().exact(), Some((1 << 20) + 1));
        let mut sent = Vec::new();
        while let Some(frame) = frames.frame().await {
            sent.push(frame.unwrap().into_data().unwrap());
        }
        assert_eq!(sent[1].as_ptr(), kept.as_ptr(), "the list was copied");
        assert_eq!(sent.iter().map(Bytes::len).sum::<usize>(), (1 << 20) + 1);
        assert!(frames.is_end_stream());
    }
}
