//! Images and PDFs for models that do not take them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::model::Models;
use crate::http::error::{ApiError, FieldError};
use crate::http::offload::offload;

/// Refuses what a model is known not to take, in contents given at these pointers.
pub(in crate::http) async fn check_taken(
    models: &Models,
    model: &str,
    contents: &[(String, &str)],
) -> Result<(), ApiError> {
    let known = models.find(model);
    let search = Search {
        model: model.to_owned(),
        takes_images: known.image_input != Some(false),
        takes_pdfs: known.pdf_input != Some(false),
        found: Vec::new(),
    };
    if search.takes_images && search.takes_pdfs {
        return Ok(());
    }
    let bytes = contents.iter().map(|(_, content)| content.len()).sum();
    let own = |(pointer, content): &(String, &str)| (pointer.clone(), (*content).to_owned());
    let contents: Vec<(String, String)> = contents.iter().map(own).collect();
    let found = offload(bytes, move || search.run(&contents)).await?;
    let found = found.map_err(|error| ApiError::Internal(error.to_string()))?;
    if found.is_empty() { Ok(()) } else { Err(ApiError::Validation(found)) }
}

struct Search {
    model: String,
    takes_images: bool,
    takes_pdfs: bool,
    found: Vec<FieldError>,
}

#[derive(Deserialize)]
struct Media<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl Search {
    fn run(mut self, contents: &[(String, String)]) -> Result<Vec<FieldError>, serde_json::Error> {
        for (pointer, content) in contents {
            self.blocks(content, pointer)?;
        }
        Ok(self.found)
    }

    fn blocks(&mut self, content: &str, pointer: &str) -> Result<(), serde_json::Error> {
        // A content may be a plain text.
        if !content.trim_start().starts_with('[') {
            return Ok(());
        }
        let blocks: Vec<Media<'_>> = serde_json::from_str(content)?;
        for (index, Media { kind, source }) in blocks.into_iter().enumerate() {
            let at = format!("{pointer}/{index}");
            match (kind.as_ref(), source) {
                ("image", _) if !self.takes_images => self.refuse(at, "an image"),
                ("document", Some(source)) => self.document(source, at)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn document(&mut self, source: &RawValue, at: String) -> Result<(), serde_json::Error> {
        let Source { kind, content } = serde_json::from_str(source.get())?;
        match (kind.as_ref(), content) {
            ("base64" | "url", _) if !self.takes_pdfs => self.refuse(at, "a PDF"),
            ("content", Some(content)) => {
                self.blocks(content.get(), &format!("{at}/source/content"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn refuse(&mut self, pointer: String, what: &str) {
        let message = format!("is {what}, which {} does not take", self.model);
        self.found.push(FieldError { pointer, message });
    }
}
