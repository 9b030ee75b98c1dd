//! Checks that the model of a session accepts images and PDFs.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::model::Models;
use crate::service::error::{Error, FieldError};
use crate::service::offload::offload;

/// Refuses images and PDFs that the model is known not to accept, in contents at these pointers.
pub(crate) async fn check_model_support(
    models: &Models,
    model: &str,
    contents: &[(String, &str)],
) -> Result<(), Error> {
    let known = models.find(model);
    let media = UnsupportedMedia {
        model: model.to_owned(),
        accepts_images: known.image_input != Some(false),
        accepts_pdfs: known.pdf_input != Some(false),
        found: Vec::new(),
    };
    if media.accepts_images && media.accepts_pdfs {
        return Ok(());
    }
    let bytes = contents.iter().map(|(_, content)| content.len()).sum();
    let own = |(pointer, content): &(String, &str)| (pointer.clone(), (*content).to_owned());
    let contents: Vec<(String, String)> = contents.iter().map(own).collect();
    let found = offload(bytes, move || media.run(&contents)).await?;
    Error::if_any(found.map_err(Error::internal)?)
}

struct UnsupportedMedia {
    model: String,
    accepts_images: bool,
    accepts_pdfs: bool,
    found: Vec<FieldError>,
}

#[derive(Deserialize)]
struct MediaBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MediaSource<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl UnsupportedMedia {
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
        for (index, MediaBlock { kind, source }) in blocks.into_iter().enumerate() {
            let at = format!("{pointer}/{index}");
            match (kind.as_ref(), source) {
                ("image", _) if !self.accepts_images => self.refuse(at, "an image"),
                ("document", Some(source)) => self.document(source, at)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn document(&mut self, source: &RawValue, at: String) -> Result<(), serde_json::Error> {
        let MediaSource { kind, content } = serde_json::from_str(source.get())?;
        match (kind.as_ref(), content) {
            ("base64" | "url", _) if !self.accepts_pdfs => self.refuse(at, "a PDF"),
            ("content", Some(content)) => {
                self.blocks(content.get(), &format!("{at}/source/content"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn refuse(&mut self, pointer: String, kind: &str) {
        let message = format!("is {kind}, which {} does not accept", self.model);
        self.found.push(FieldError::new(pointer, message));
    }
}
