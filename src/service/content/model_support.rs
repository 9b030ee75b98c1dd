//! Checks that the model of a session and the cloud of its server accept content: images, PDFs, media by
//! URL, and citations together with the session's output schema.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::model::Models;
use crate::domain::platform::Platform;
use crate::domain::provider::Provider;
use crate::domain::session::Settings;
use crate::service::error::{Error, FieldError};
use crate::service::offload::offload;

/// Refuses images and PDFs that the model is known not to accept, in contents at these pointers, and
/// citations in a session with an output schema. The Messages API refuses the latter; in the history
/// they would be part of every later request.
pub(crate) async fn check_model_support(
    models: &Models,
    settings: &Settings,
    contents: &[(String, &str)],
) -> Result<(), Error> {
    let known = models.find(settings.model_ref());
    let media = UnsupportedMedia {
        model: settings.model.clone(),
        accepts_images: known.image_input != Some(false),
        accepts_pdfs: known.pdf_input != Some(false),
        accepts_citations: !refuses_citations(models, settings),
        platform: models.platform(settings.model_ref()),
        found: Vec::new(),
    };
    if media.accepts_all() {
        return Ok(());
    }
    let bytes = contents.iter().map(|(_, content)| content.len()).sum();
    media.check_size(contents, bytes)?;
    let own = |(pointer, content): &(String, &str)| (pointer.clone(), (*content).to_owned());
    let contents: Vec<(String, String)> = contents.iter().map(own).collect();
    let found = offload(bytes, move || media.run(&contents)).await?;
    Error::if_any(found.map_err(Error::internal)?)
}

/// Returns true if nothing in the session may be cited.
pub(crate) fn refuses_citations(models: &Models, settings: &Settings) -> bool {
    models.protocol(settings.model_ref()) == Provider::Anthropic
        && settings.model_options.output_schema.is_some()
}

struct UnsupportedMedia {
    model: String,
    accepts_images: bool,
    accepts_pdfs: bool,
    accepts_citations: bool,
    /// The cloud of the model's server.
    platform: Option<Platform>,
    found: Vec<FieldError>,
}

#[derive(Deserialize)]
struct MediaBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    citations: Option<&'a RawValue>,
}

/// The setting of a block; the citations of a text are a list.
#[derive(Deserialize)]
struct CitationsSetting {
    enabled: bool,
}

#[derive(Deserialize)]
struct MediaSource<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
}

impl MediaBlock<'_> {
    fn is_cited(&self) -> bool {
        let setting = self.citations.map(RawValue::get).map(serde_json::from_str);
        matches!(setting, Some(Ok(CitationsSetting { enabled: true })))
    }
}

impl UnsupportedMedia {
    fn accepts_all(&self) -> bool {
        let of_model = self.accepts_images && self.accepts_pdfs && self.accepts_citations;
        of_model && self.platform.is_none()
    }

    fn check_size(&self, contents: &[(String, &str)], bytes: usize) -> Result<(), Error> {
        let too_large = self.platform.filter(|platform| bytes > platform.max_message_bytes());
        let (Some(platform), Some((pointer, _))) = (too_large, contents.first()) else {
            return Ok(());
        };
        let message = format!(
            "has {bytes} bytes; {} accepts at most {}",
            platform.title(),
            platform.max_message_bytes()
        );
        Err(Error::field(pointer, message))
    }

    fn run(mut self, contents: &[(String, String)]) -> Result<Vec<FieldError>, serde_json::Error> {
        for (pointer, content) in contents {
            self.blocks(content, pointer)?;
        }
        Ok(self.found)
    }

    fn blocks(&mut self, content: &str, pointer: &str) -> Result<(), serde_json::Error> {
        // A content may be plain text.
        if !content.trim_start().starts_with('[') {
            return Ok(());
        }
        let blocks: Vec<MediaBlock<'_>> = serde_json::from_str(content)?;
        for (index, block) in blocks.into_iter().enumerate() {
            let at = format!("{pointer}/{index}");
            if !self.accepts_citations && block.is_cited() {
                let message = "cannot be enabled in a session with output_schema";
                self.found.push(FieldError::new(format!("{at}/citations"), message));
            }
            match (block.kind.as_ref(), block.source, block.content) {
                ("image", ..) if !self.accepts_images => self.refuse(at, "an image"),
                ("image", Some(source), _) => self.image(source, &at)?,
                ("document", Some(source), _) => self.document(source, at)?,
                ("tool_result", _, Some(content)) => {
                    self.blocks(content.get(), &format!("{at}/content"))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn document(&mut self, source: &RawValue, at: String) -> Result<(), serde_json::Error> {
        let MediaSource { kind, content, .. } = serde_json::from_str(source.get())?;
        match (kind.as_ref(), content) {
            ("base64" | "url", _) if !self.accepts_pdfs => self.refuse(at, "a PDF"),
            ("url", _) => self.refuse_url(&at),
            ("content", Some(content)) => {
                self.blocks(content.get(), &format!("{at}/source/content"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn image(&mut self, source: &RawValue, at: &str) -> Result<(), serde_json::Error> {
        let Some(platform) = self.platform else { return Ok(()) };
        let MediaSource { kind, data, .. } = serde_json::from_str(source.get())?;
        let length = data.map_or(0, |data| data.len());
        if kind == "url" {
            self.refuse_url(at);
        } else if length > platform.max_image() {
            let message = format!(
                "has {length} characters of base64; {} accepts at most {} for an image",
                platform.title(),
                platform.max_image()
            );
            self.found.push(FieldError::new(format!("{at}/source"), message));
        }
        Ok(())
    }

    fn refuse_url(&mut self, at: &str) {
        let Some(platform) = self.platform else { return };
        let message =
            format!("is a URL, which {} does not fetch; send the data in base64", platform.title());
        self.found.push(FieldError::new(format!("{at}/source/type"), message));
    }

    fn refuse(&mut self, pointer: String, kind: &str) {
        let message = format!("is {kind}, which {} does not accept", self.model);
        self.found.push(FieldError::new(pointer, message));
    }
}
