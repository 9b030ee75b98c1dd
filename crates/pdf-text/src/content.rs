//! The letters that a page draws: their positions and their meaning.

use std::mem::take;
use std::sync::Arc;

use hayro_cmap::{BfString, load_embedded};
use hayro_font::kurbo::{Affine, Point};
use hayro_font::{CMapResolverFn, Font, FontCache, FontGlyph, FontQuery, FontResolverFn};
use hayro_syntax::content::TypedIter;
use hayro_syntax::content::ops::TypedInstruction;
use hayro_syntax::object::dict::keys::{IMAGE, MATRIX, RESOURCES, SUBTYPE};
use hayro_syntax::object::{Array, Dict, Name, Object};
use hayro_syntax::page::{Page, Resources};

use super::state::{State, matrix};

/// Maximum nesting of forms, and of saved graphics states.
const MAX_DEPTH: usize = 16;
const MAX_STATES: usize = 256;
/// Maximum number of letters on a page. A full newspaper page has about 50,000.
pub(super) const MAX_LETTERS: usize = 500_000;

/// A letter, or the glyph that a font draws for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Letter {
    /// The text of the glyph; `None` if the font does not define it.
    pub(super) text: Option<String>,
    /// The start and the end on its baseline. Coordinates grow to the right and upwards.
    pub(super) begin: Point,
    pub(super) end: Point,
    /// The size of the font.
    pub(super) size: f64,
}

/// A reader of page contents. It shares fonts between pages.
pub(super) struct ContentReader<'a> {
    fonts: FontCache<'a>,
    font_files: FontResolverFn,
    maps: CMapResolverFn,
    /// The letters of the page, in drawing order.
    letters: Vec<Letter>,
    lost: usize,
    has_image: bool,
}

/// The content of a page.
#[derive(Debug)]
pub(super) struct PageContent {
    pub(super) letters: Vec<Letter>,
    /// The number of codes in unreadable fonts.
    pub(super) lost: usize,
    pub(super) has_image: bool,
}

impl<'a> ContentReader<'a> {
    pub(super) fn new() -> Self {
        Self {
            fonts: FontCache::new(),
            font_files: Arc::new(|asked| {
                // Only the widths of letters matter, so any font is better than none.
                Some(match asked {
                    FontQuery::Standard(font) => font.get_font_data(),
                    FontQuery::Fallback(asked) => asked.pick_standard_font().get_font_data(),
                })
            }),
            maps: Arc::new(load_embedded),
            letters: Vec::new(),
            lost: 0,
            has_image: false,
        }
    }

    /// Reads the content of a page.
    pub(super) fn read(&mut self, page: &Page<'a>) -> PageContent {
        let upright = Affine::new(page.initial_transform(false).as_coeffs());
        if let Some(content) = page.page_stream() {
            self.interpret(content, page.resources(), State::new(upright), 0);
        }
        PageContent {
            letters: take(&mut self.letters),
            lost: take(&mut self.lost),
            has_image: take(&mut self.has_image),
        }
    }

    /// Interprets drawing instructions.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all others say where text goes, or nothing"
    )]
    fn interpret(
        &mut self,
        content: &[u8],
        resources: &Resources<'a>,
        mut state: State<'a>,
        depth: usize,
    ) {
        let mut kept = Vec::new();
        let mut instructions = TypedIter::new(content);
        while let Some(instruction) = instructions.next() {
            if self.letters.len() >= MAX_LETTERS {
                return;
            }
            match instruction {
                TypedInstruction::SaveState(_) if kept.len() < MAX_STATES => {
                    kept.push(state.clone());
                }
                TypedInstruction::RestoreState(_) => {
                    if let Some(before) = kept.pop() {
                        state = before;
                    }
                }
                TypedInstruction::XObject(named) => self.draw(named.0, resources, &state, depth),
                TypedInstruction::InlineImage(_) => self.has_image = true,
                TypedInstruction::TextFont(named) => {
                    let font = resources.get_font(named.0);
                    let font = font.and_then(|font| self.font(&font));
                    state.font = font.map(|font| (font, named.1.as_f64()));
                }
                other => self.write(&other, &mut state),
            }
        }
    }

    fn font(&self, dictionary: &Dict<'a>) -> Option<Font<'a>> {
        self.fonts.font(dictionary, &self.font_files, &self.maps)
    }

    /// Draws a named object: an image or a form.
    fn draw(&mut self, name: &Name<'_>, from: &Resources<'a>, state: &State<'a>, depth: usize) {
        let Some(drawing) = from.get_x_object(name) else { return };
        let dictionary = drawing.dict();
        if dictionary.get::<Name<'_>>(SUBTYPE).as_deref() == Some(IMAGE) {
            self.has_image = true;
            return;
        }
        // A form can contain itself.
        if depth >= MAX_DEPTH {
            return;
        }
        let Ok(content) = drawing.decoded_data() else { return };
        let own = dictionary.get::<Dict<'a>>(RESOURCES).map(Resources::new);
        let placed = dictionary.get::<[f64; 6]>(MATRIX).map_or(Affine::IDENTITY, Affine::new);
        let mut state = state.clone();
        state.page *= placed;
        self.interpret(&content, own.as_ref().unwrap_or(from), state, depth + 1);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all other instructions write nothing")]
    fn write(&mut self, instruction: &TypedInstruction<'_, '_>, state: &mut State<'a>) {
        match instruction {
            TypedInstruction::ShowText(shown) => self.show(shown.0.as_bytes(), state),
            TypedInstruction::ShowTexts(shown) => self.show_all(shown.0, state),
            TypedInstruction::NextLineAndShowText(shown) => {
                state.next_line();
                self.show(shown.0.as_bytes(), state);
            }
            TypedInstruction::ShowTextWithParameters(shown) => {
                (state.between_words, state.between_letters) = (shown.0.as_f64(), shown.1.as_f64());
                state.next_line();
                self.show(shown.2.as_bytes(), state);
            }
            TypedInstruction::Transform(to) => {
                state.page *= matrix([&to.0, &to.1, &to.2, &to.3, &to.4, &to.5]);
            }
            TypedInstruction::SetTextMatrix(to) => {
                state.begin_at(matrix([&to.0, &to.1, &to.2, &to.3, &to.4, &to.5]));
            }
            TypedInstruction::BeginText(_) => state.begin_at(Affine::IDENTITY),
            TypedInstruction::NextLine(by) => state.move_line(by.0.as_f64(), by.1.as_f64()),
            TypedInstruction::NextLineAndSetLeading(by) => {
                state.leading = -by.1.as_f64();
                state.move_line(by.0.as_f64(), by.1.as_f64());
            }
            TypedInstruction::NextLineUsingLeading(_) => state.next_line(),
            TypedInstruction::TextLeading(to) => state.leading = to.0.as_f64(),
            TypedInstruction::CharacterSpacing(to) => state.between_letters = to.0.as_f64(),
            TypedInstruction::WordSpacing(to) => state.between_words = to.0.as_f64(),
            TypedInstruction::HorizontalScaling(to) => state.stretch = to.0.as_f64() / 100.0,
            TypedInstruction::TextRise(to) => state.rise = to.0.as_f64(),
            _ => {}
        }
    }

    /// Draws strings, with shifts between them in thousandths of the font size.
    fn show_all(&mut self, parts: &Array<'_>, state: &mut State<'a>) {
        for part in parts.iter::<Object<'_>>() {
            match part {
                Object::String(text) => self.show(text.as_bytes(), state),
                Object::Number(shift) => state.shift(shift.as_f64()),
                Object::Null(_)
                | Object::Boolean(_)
                | Object::Name(_)
                | Object::Dict(_)
                | Object::Array(_)
                | Object::Stream(_) => {}
            }
        }
    }

    fn show(&mut self, codes: &[u8], state: &mut State<'a>) {
        let Some((font, _)) = state.font.clone() else {
            self.lost += codes.len();
            return;
        };
        let mut at = 0;
        while at < codes.len() && self.letters.len() < MAX_LETTERS {
            let (code, length) = font.read_code(codes, at);
            at += length.max(1);
            let letter = state.letter(font.code_advance(code), meaning(&font, code));
            let is_placed = [letter.begin, letter.end].iter().all(|point| point.is_finite());
            if is_placed && letter.size.is_finite() {
                self.letters.push(letter);
            }
            state.advance_by_letter(font.code_advance(code), code == 32 && length == 1);
        }
    }
}

/// Returns the text of a code, in normalized letters.
fn meaning(font: &Font<'_>, code: u32) -> Option<String> {
    let meant = match font.glyph(font.map_code(code), code) {
        FontGlyph::Outline(glyph) => glyph.as_unicode(),
        FontGlyph::Type3(glyph) => glyph.as_unicode(),
    };
    let mut text = String::new();
    match meant? {
        BfString::Char(letter) => push(&mut text, letter),
        BfString::String(letters) => letters.chars().for_each(|letter| push(&mut text, letter)),
    }
    Some(text)
}

/// Appends a letter. Ligatures become their letters; invisible characters are dropped.
fn push(text: &mut String, letter: char) {
    match letter {
        '\u{fb00}' => text.push_str("ff"),
        '\u{fb01}' => text.push_str("fi"),
        '\u{fb02}' => text.push_str("fl"),
        '\u{fb03}' => text.push_str("ffi"),
        '\u{fb04}' => text.push_str("ffl"),
        '\u{fb05}' | '\u{fb06}' => text.push_str("st"),
        letter if letter.is_whitespace() => text.push(' '),
        letter if letter.is_control() => {}
        letter => text.push(letter),
    }
}
