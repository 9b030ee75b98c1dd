//! The effect of each HTML element on the text.

/// The effect of an element on the text around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Title,
    Main,
    /// A block with blank lines around it.
    Block,
    /// A block on lines of its own.
    Line,
    Heading(usize),
    Rule,
    Quote,
    Code,
    Preformatted,
    List {
        is_numbered: bool,
    },
    Item,
    Link,
    Image,
    Table,
    Row,
    Cell,
    /// No effect: its text belongs to the element around it.
    None,
}

pub(super) fn effect(name: &[u8]) -> Effect {
    match name {
        b"title" => Effect::Title,
        b"main" => Effect::Main,
        b"p" | b"section" | b"article" | b"header" | b"figure" | b"dl" | b"details"
        | b"fieldset" => Effect::Block,
        b"div" | b"br" | b"dt" | b"dd" | b"figcaption" | b"summary" | b"address" | b"caption" => {
            Effect::Line
        }
        b"h1" => Effect::Heading(1),
        b"h2" => Effect::Heading(2),
        b"h3" => Effect::Heading(3),
        b"h4" => Effect::Heading(4),
        b"h5" => Effect::Heading(5),
        b"h6" => Effect::Heading(6),
        b"hr" => Effect::Rule,
        b"blockquote" => Effect::Quote,
        b"code" | b"kbd" | b"samp" | b"tt" => Effect::Code,
        b"pre" => Effect::Preformatted,
        b"ul" | b"menu" => Effect::List { is_numbered: false },
        b"ol" => Effect::List { is_numbered: true },
        b"li" => Effect::Item,
        b"a" => Effect::Link,
        b"img" => Effect::Image,
        b"table" => Effect::Table,
        b"tr" => Effect::Row,
        b"td" | b"th" => Effect::Cell,
        _ => Effect::None,
    }
}

/// True if an element is omitted with its content: media, scripts, form controls, and the
/// navigation of the site.
pub(super) fn is_omitted(name: &[u8]) -> bool {
    matches!(
        name,
        b"script"
            | b"style"
            | b"noscript"
            | b"template"
            | b"svg"
            | b"math"
            | b"iframe"
            | b"object"
            | b"canvas"
            | b"audio"
            | b"video"
            | b"select"
            | b"textarea"
            | b"button"
            | b"nav"
            | b"footer"
            | b"aside"
            | b"dialog"
    )
}
