//! The text of one event that a client has received by previews.
//!
//! A preview is sent again from its beginning when its reader comes late or has missed a part. The
//! protocols of adapters only append, so each piece of text must be sent once.

/// The text that a client has, and the preview that is being received.
#[derive(Debug, Default)]
pub(in crate::http) struct SentText {
    sent: String,
    /// The text of a preview that was sent again, until it is longer than the text that the client
    /// has.
    repeated: Option<String>,
}

impl SentText {
    /// The preview begins again.
    pub(in crate::http) fn restart(&mut self) {
        self.repeated = Some(String::new());
    }

    /// Takes the next piece of the preview, and returns the text that the client has not had.
    pub(in crate::http) fn push(&mut self, piece: &str) -> String {
        let Some(repeated) = &mut self.repeated else {
            self.sent.push_str(piece);
            return piece.to_owned();
        };
        repeated.push_str(piece);
        let Some(new) = repeated.strip_prefix(self.sent.as_str()).map(str::to_owned) else {
            return String::new();
        };
        self.sent.push_str(&new);
        self.repeated = None;
        new
    }

    /// The rest of the complete text; none if it does not begin with the text that the client has.
    pub(in crate::http) fn rest<'a>(&self, complete: &'a str) -> Option<&'a str> {
        complete.strip_prefix(self.sent.as_str())
    }

    /// The text that the client has.
    pub(in crate::http) fn text(&self) -> &str {
        &self.sent
    }

    /// Returns true if the client has none of the text.
    pub(in crate::http) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_preview_sends_only_what_is_new() {
        let mut text = SentText::default();
        assert_eq!(text.push("one "), "one ");
        text.restart();
        let repeated = ["on", "e ", "two"].map(|piece| text.push(piece));
        assert_eq!(repeated, ["", "", "two"]);
        assert_eq!(text.push(" three"), " three");
        assert_eq!(text.rest("one two three four"), Some(" four"));
    }

    #[test]
    fn a_different_text_has_no_rest() {
        let mut text = SentText::default();
        assert!(text.is_empty());
        text.push("one");
        text.restart();
        assert_eq!(text.push("two"), "");
        assert_eq!((text.rest("two"), text.rest("one!")), (None, Some("!")));
    }
}
