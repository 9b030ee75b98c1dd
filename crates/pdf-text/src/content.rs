//! What a page draws, as far as it is letters: their places, and what they mean.

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

/// How deep drawings may be within others, and states put away upon others.
const MAX_DEPTH: usize = 16;
const MAX_STATES: usize = 256;
/// Letters of a page at most. A full page of a newspaper has some 50,000.
pub(super) const MAX_LETTERS: usize = 500_000;

/// A letter, or what its font draws as one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Letter {
    /// What it means; none if its font does not say it.
    pub(super) text: Option<String>,
    /// Where it begins and ends, on its line. Numbers grow to the right and upwards.
    pub(super) begin: Point,
    pub(super) end: Point,
    /// The size of its font.
    pub(super) size: f64,
}

/// Whoever looks at pages, one after the other.
pub(super) struct Looker<'a> {
    fonts: FontCache<'a>,
    font_files: FontResolverFn,
    maps: CMapResolverFn,
    /// The letters of the page, in the order in which they are drawn.
    letters: Vec<Letter>,
    lost: usize,
    has_image: bool,
}

/// What a page has.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) letters: Vec<Letter>,
    /// Codes of fonts that cannot be read.
    pub(super) lost: usize,
    pub(super) has_image: bool,
}

impl<'a> Looker<'a> {
    pub(super) fn new() -> Self {
        Self {
            fonts: FontCache::new(),
            font_files: Arc::new(|asked| {
                // Only for the widths of letters, so that any font is better than none.
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

    /// Looks at a page.
    pub(super) fn look(&mut self, page: &Page<'a>) -> Seen {
        let upright = Affine::new(page.initial_transform(false).as_coeffs());
        if let Some(content) = page.page_stream() {
            self.follow(content, page.resources(), State::new(upright), 0);
        }
        Seen {
            letters: take(&mut self.letters),
            lost: take(&mut self.lost),
            has_image: take(&mut self.has_image),
        }
    }

    /// Follows drawing instructions.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all others say where text goes, or nothing"
    )]
    fn follow(
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

    /// Draws something that has a name: a picture, or a drawing of its own.
    fn draw(&mut self, name: &Name<'_>, from: &Resources<'a>, state: &State<'a>, depth: usize) {
        let Some(drawing) = from.get_x_object(name) else { return };
        let dictionary = drawing.dict();
        if dictionary.get::<Name<'_>>(SUBTYPE).as_deref() == Some(IMAGE) {
            self.has_image = true;
            return;
        }
        // A drawing may lead to itself.
        if depth >= MAX_DEPTH {
            return;
        }
        let Ok(content) = drawing.decoded_data() else { return };
        let own = dictionary.get::<Dict<'a>>(RESOURCES).map(Resources::new);
        let placed = dictionary.get::<[f64; 6]>(MATRIX).map_or(Affine::IDENTITY, Affine::new);
        let mut state = state.clone();
        state.page *= placed;
        self.follow(&content, own.as_ref().unwrap_or(from), state, depth + 1);
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
            TypedInstruction::NextLine(by) => state.go(by.0.as_f64(), by.1.as_f64()),
            TypedInstruction::NextLineAndSetLeading(by) => {
                state.leading = -by.1.as_f64();
                state.go(by.0.as_f64(), by.1.as_f64());
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

    /// Shows texts, with shifts between them in thousandths of the size.
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
            state.pass(font.code_advance(code), code == 32 && length == 1);
        }
    }
}

/// What a code means, in letters that have no other form for the same.
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

/// Ligatures become their letters; what nobody sees goes.
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
