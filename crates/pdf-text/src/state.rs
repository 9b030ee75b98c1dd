//! The text state: the position of the next letter.

use hayro_font::Font;
use hayro_font::kurbo::{Affine, Point, Vec2};
use hayro_syntax::object::Number;

use super::content::Letter;

/// Glyph widths are in thousandths of the font size.
const UNIT: f64 = 1000.0;

/// The graphics and text state of a page.
#[derive(Debug, Clone)]
pub(super) struct State<'a> {
    /// The transformation to page coordinates.
    pub(super) page: Affine,
    /// The text matrix and the text line matrix.
    text: Affine,
    line: Affine,
    /// The font, if it is readable, and its size.
    pub(super) font: Option<(Font<'a>, f64)>,
    pub(super) between_letters: f64,
    pub(super) between_words: f64,
    pub(super) stretch: f64,
    pub(super) leading: f64,
    pub(super) rise: f64,
}

impl State<'_> {
    pub(super) fn new(page: Affine) -> Self {
        Self {
            page,
            text: Affine::IDENTITY,
            line: Affine::IDENTITY,
            font: None,
            between_letters: 0.0,
            between_words: 0.0,
            stretch: 1.0,
            leading: 0.0,
            rise: 0.0,
        }
    }

    pub(super) fn begin_at(&mut self, line: Affine) {
        (self.text, self.line) = (line, line);
    }

    /// Moves to the start of another line.
    pub(super) fn move_line(&mut self, x: f64, y: f64) {
        self.begin_at(self.line * Affine::translate((x, y)));
    }

    pub(super) fn next_line(&mut self) {
        self.move_line(0.0, -self.leading);
    }

    /// Returns a letter with this width at the current position.
    pub(super) fn letter(&self, width: Vec2, text: Option<String>) -> Letter {
        let size = self.size();
        let risen = Affine::new([size * self.stretch, 0.0, 0.0, size, 0.0, self.rise]);
        let place = self.page * self.text * risen;
        let end = place * (Point::ORIGIN + width / UNIT);
        let size = place.determinant().abs().sqrt();
        Letter { text, begin: place * Point::ORIGIN, end, size }
    }

    /// Advances by a letter with this width.
    pub(super) fn advance_by_letter(&mut self, width: Vec2, is_space: bool) {
        let between = self.between_letters + if is_space { self.between_words } else { 0.0 };
        let by = width / UNIT * self.size();
        self.advance(if self.is_horizontal() {
            Vec2::new((by.x + between) * self.stretch, 0.0)
        } else {
            Vec2::new(0.0, by.y + between)
        });
    }

    /// Moves back by thousandths of the font size.
    pub(super) fn shift(&mut self, thousandths: f64) {
        let by = -thousandths / UNIT * self.size();
        self.advance(if self.is_horizontal() {
            Vec2::new(by * self.stretch, 0.0)
        } else {
            Vec2::new(0.0, by)
        });
    }

    fn advance(&mut self, by: Vec2) {
        self.text *= Affine::translate(by);
    }

    fn size(&self) -> f64 {
        self.font.as_ref().map_or(1.0, |(_, size)| *size)
    }

    fn is_horizontal(&self) -> bool {
        self.font.as_ref().is_none_or(|(font, _)| font.is_horizontal())
    }
}

/// Converts the six operands of a matrix.
pub(super) fn matrix(numbers: [&Number; 6]) -> Affine {
    Affine::new(numbers.map(Number::as_f64))
}
