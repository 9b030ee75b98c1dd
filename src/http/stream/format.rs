//! The formats of a stream: server-sent events, or JSON with one event per line.

use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

const EVENT_STREAM: &str = "text/event-stream";
const JSON_LINES: &str = "application/jsonl";
const ND_JSON: &str = "application/x-ndjson";

/// The text before the JSON of an SSE frame.
const DATA: &[u8] = b"\ndata: ";

/// The format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::http) enum StreamFormat {
    /// Server-sent events.
    #[default]
    EventStream,
    /// One event a line.
    JsonLines,
    /// One event a line, under the older name of the media type.
    NdJson,
}

impl StreamFormat {
    /// All formats, the default first.
    pub(in crate::http) const ALL: [Self; 3] = [Self::EventStream, Self::JsonLines, Self::NdJson];

    /// The media type.
    pub(in crate::http) const fn media_type(self) -> &'static str {
        match self {
            Self::EventStream => EVENT_STREAM,
            Self::JsonLines => JSON_LINES,
            Self::NdJson => ND_JSON,
        }
    }

    /// The first bytes, sent at once because proxies hold back the headers until the first byte of
    /// the body. A JSON line is begun only if an event will follow.
    pub(in crate::http) const fn first_bytes(self, continues: bool) -> Bytes {
        match self {
            Self::EventStream => Bytes::from_static(b"retry: 2000\n"),
            Self::JsonLines | Self::NdJson if continues => SPACE,
            Self::JsonLines | Self::NdJson => Bytes::new(),
        }
    }

    /// The bytes that keep a silent connection open: a comment line of SSE, or a space before the
    /// next JSON line. An empty line would be a message to some readers and an error to others.
    pub(in crate::http) const fn keep_alive_bytes(self) -> Bytes {
        match self {
            Self::EventStream => Bytes::from_static(b":\n"),
            Self::JsonLines | Self::NdJson => SPACE,
        }
    }

    /// The last bytes before the service aborts the stream to stop: a short retry time, because
    /// another process takes over at once.
    pub(in crate::http) const fn last_bytes(self) -> Bytes {
        match self {
            Self::EventStream => Bytes::from_static(b"retry: 1000\n"),
            Self::JsonLines | Self::NdJson => SPACE,
        }
    }

    /// An SSE frame in this format. It shares the bytes of the frame.
    pub(in crate::http) fn frame(self, sse: Bytes) -> Bytes {
        if self == Self::EventStream {
            return sse;
        }
        let data = memchr::memmem::find(&sse, DATA).map_or(0, |found| found + DATA.len());
        // Keeps one of the two line ends of the frame.
        let end = sse.len().saturating_sub(1);
        sse.slice(data.min(end)..end)
    }
}

const SPACE: Bytes = Bytes::from_static(b" ");

/// Reports whether a response is a stream of any format.
pub(in crate::http) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    StreamFormat::ALL.iter().any(|format| kind == Some(format.media_type().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_data_of_a_frame() {
        let frame = Bytes::from_static(b"id: 7\nevent: a\ndata: {\"b\":\"\\ndata: \"}\n\n");
        let line: &[u8] = b"{\"b\":\"\\ndata: \"}\n";
        assert_eq!(StreamFormat::EventStream.frame(frame.clone()), frame);
        assert_eq!(StreamFormat::JsonLines.frame(frame.clone()), line);
        assert_eq!(StreamFormat::NdJson.frame(frame), line);
    }
}
