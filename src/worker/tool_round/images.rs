//! Images in the results of tools: the blocks that the model receives, and their limits.
//!
//! The model receives all images of the history with every request, and refuses a request with too many
//! of them. The limits are lower than those of messages, so that users can still send images.

use std::fmt::Write as _;

use serde::Serialize;

use super::plan::{EndedCall, ToolRound};
use crate::domain::image::{FEW_IMAGES, Image, MAX_SIDE_OF_MANY, decode, longer_side};
use crate::domain::pdf;
use crate::domain::platform::Platform;
use crate::domain::tool::CallResult;
use crate::worker::run::context::RunContext;
use crate::worker::run::step_writer::StepWriter;

/// The largest number of images, and pages of documents, in a request to which a tool adds an image.
const MAX_IMAGES: usize = 80;
/// The largest size of the messages of such a request, in bytes, unless a platform accepts less.
const MAX_BYTES: usize = 24_000_000;
/// The beginning of an image block. In the text of a message its quotes would be escaped.
const IMAGE: &str = r#""type":"image""#;
const DATA: &str = r#""data":""#;

/// The history before a round.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct History<'a> {
    messages: &'a str,
    /// The largest size of the messages to which a tool adds an image, in bytes.
    max_bytes: usize,
}

impl<'a> History<'a> {
    pub(in crate::worker) fn of(run: &RunContext<'_>, writer: &'a StepWriter<'_>) -> Self {
        Self::on(run.model().server.client.platform(), writer.transcript.text())
    }

    fn on(platform: Option<Platform>, messages: &'a str) -> Self {
        let of_platform = platform.map_or(MAX_BYTES, Platform::max_message_bytes);
        Self { messages, max_bytes: of_platform.min(MAX_BYTES) }
    }
}

/// A block of a result.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text { text: &'a str },
    Image { source: Source<'a> },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
}

/// The blocks of a result with images.
pub(super) fn blocks_of(text: &str, images: &[Image]) -> Result<String, serde_json::Error> {
    let text = (!text.trim().is_empty()).then_some(Block::Text { text });
    let images = images.iter().map(|Image { media_type, data, .. }| Block::Image {
        source: Source::Base64 { media_type, data },
    });
    let blocks: Vec<Block<'_>> = text.into_iter().chain(images).collect();
    serde_json::to_string(&blocks)
}

/// Omits the images of an ended call that would exceed a limit together with those of the history and
/// of the other calls of the round. The text of the result says so.
pub(super) fn omit_excess(ended: &mut EndedCall, history: History<'_>, round: &ToolRound<'_>) {
    if ended.images.is_empty() {
        return;
    }
    let results = round.known_results().filter_map(|result: &CallResult| result.content.as_deref());
    let sent = Sent::of(std::iter::once(history.messages).chain(results));
    let images = std::mem::take(&mut ended.images);
    let total = images.len();
    ended.images = sent.fitting(images, history.max_bytes);
    let omitted = total - ended.images.len();
    if omitted > 0 {
        let _ = write!(
            ended.result.text,
            "\n[{omitted} of {total} images were omitted, because the conversation has too many or \
             too large images]"
        );
    }
}

/// The number of images that these messages have above the limit of tools.
pub(in crate::worker) fn excess_images(messages: &str) -> usize {
    let sent = Sent::of(std::iter::once(messages));
    sent.images.saturating_sub(sent.most())
}

/// The images of the next request, before those of a call are added.
struct Sent<'a> {
    images: usize,
    /// Pages of documents, which the model counts as images.
    pages: usize,
    bytes: usize,
    texts: Vec<&'a str>,
}

impl<'a> Sent<'a> {
    fn of(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut sent = Self { images: 0, pages: 0, bytes: 0, texts: Vec::new() };
        for text in texts {
            sent.bytes += text.len();
            sent.images += text.matches(IMAGE).count();
            sent.pages += documents(text).map(pages).sum::<usize>();
            sent.texts.push(text);
        }
        sent
    }

    /// The first images that may be added.
    fn fitting(&self, images: Vec<Image>, max_bytes: usize) -> Vec<Image> {
        let mut bytes = self.bytes;
        let fits = |image: &Image| {
            bytes += image.data.len();
            bytes <= max_bytes
        };
        let free = self.most().saturating_sub(self.images);
        images.into_iter().take(free).take_while(fits).collect()
    }

    /// The number of images up to which tools add some.
    fn most(&self) -> usize {
        let next_to_pages = MAX_IMAGES.saturating_sub(self.pages);
        if self.has_large_image() { next_to_pages.min(FEW_IMAGES) } else { next_to_pages }
    }

    /// Returns true if more than a few images would be refused. No image of a tool is so large, but those
    /// of users may be.
    fn has_large_image(&self) -> bool {
        let mut data =
            self.texts.iter().flat_map(|text| text.split(IMAGE).skip(1)).filter_map(|rest| {
                let (_, data) = rest.split_once(DATA)?;
                data.split('"').next()
            });
        data.any(|data| longer_side(data) > MAX_SIDE_OF_MANY)
    }
}

/// The PDFs in messages, in base64. A text that quotes one ends with a backslash here, and is no base64.
fn documents(messages: &str) -> impl Iterator<Item = &str> {
    messages.split('"').skip(1).filter(|value| value.starts_with(pdf::BASE64_HEAD))
}

fn pages(document: &str) -> usize {
    let bytes = decode(document).unwrap_or_default();
    pdf::read(&bytes).and_then(|pdf| pdf.pages).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tool::CallState;

    /// The header of a PNG.
    fn png(width: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(b"\0\0\0\x01\x08\x02\0\0\0");
        bytes
    }

    fn images(count: usize) -> Vec<Image> {
        vec![Image::read(&png(1)).unwrap(); count]
    }

    /// The number of images that a call keeps, and the end of its text.
    fn kept(history: &str, added: Vec<Image>) -> (usize, String) {
        let result = CallResult::of_text("a", CallState::Done, "Taken.");
        let mut ended = EndedCall { images: added, ..EndedCall::not_executed(0, result) };
        let history = History::on(None, history);
        omit_excess(&mut ended, history, &ToolRound::new(&[], Vec::new()));
        (ended.images.len(), ended.result.text)
    }

    #[test]
    fn a_result_has_its_text_and_then_its_images() {
        let image = &images(1)[0];
        let block = format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{}"}}}}"#,
            image.data
        );
        let blocks = blocks_of("one", &images(2)).unwrap();
        assert_eq!(blocks, format!(r#"[{{"type":"text","text":"one"}},{block},{block}]"#));
        assert_eq!(blocks_of(" ", &images(1)).unwrap(), format!("[{block}]"));
    }

    #[test]
    fn tools_add_images_up_to_a_limit_of_the_request() {
        let note = |omitted: usize, total: usize| {
            format!(
                "Taken.\n[{omitted} of {total} images were omitted, because the conversation has \
                 too many or too large images]"
            )
        };
        let history = blocks_of("x", &images(78)).unwrap();
        assert_eq!(kept(&history, images(2)), (2, "Taken.".to_owned()));
        assert_eq!(kept(&history, images(3)), (2, note(1, 3)));
        let escaped = serde_json::to_string(&history).unwrap();
        assert_eq!(kept(&escaped, images(3)).0, 3, "a text that has the words of a block");
        let long = "x".repeat(MAX_BYTES);
        assert_eq!(kept(&long, images(1)), (0, note(1, 1)));
    }

    #[test]
    fn pages_of_documents_count_as_images() {
        use base64::Engine as _;
        let pdf = b"%PDF-1.4\n1 0 obj\n<< /Type /Pages /Kids [] /Count 60 >>\nendobj\n%%EOF\n";
        let data = base64::engine::general_purpose::STANDARD.encode(pdf);
        let document = format!(
            r#"[{{"type":"document","source":{{"type":"base64","media_type":"application/pdf","data":"{data}"}}}}]"#
        );
        assert_eq!(kept(&document, images(41)).0, 20);
        let quoted = serde_json::to_string(&document).unwrap();
        assert_eq!(kept(&quoted, images(41)).0, 41, "a text that quotes a document");
    }

    #[test]
    fn a_cloud_that_accepts_smaller_requests_gets_fewer_images() {
        let mut large = images(3);
        for image in &mut large {
            image.data = "a".repeat(5_000_000);
        }
        let kept = |platform| {
            let result = CallResult::of_text("a", CallState::Done, "Taken.");
            let images = large.clone();
            let mut ended = EndedCall { images, ..EndedCall::not_executed(0, result) };
            let history = "x".repeat(8_000_000);
            let round = ToolRound::new(&[], Vec::new());
            omit_excess(&mut ended, History::on(platform, &history), &round);
            ended.images.len()
        };
        assert_eq!((kept(None), kept(Some(Platform::Bedrock))), (3, 2));
    }

    #[test]
    fn next_to_a_large_image_of_the_user_only_a_few_are_added() {
        let mut large = images(1);
        large[0].data = {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(png(2001))
        };
        let history = blocks_of("x", &large).unwrap();
        assert_eq!(kept(&history, images(30)).0, FEW_IMAGES - 1);
    }
}
