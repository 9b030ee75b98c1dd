//! Letters as lines, in the order in which they are read.
//!
//! That is the order in which they are drawn, because nearly all programs draw a text as it is
//! read, and no rule about places knows a table from two columns as well. Only where the lines of
//! two columns are drawn in turn, [`columns`](super::columns) puts them one after the other.

use hayro_font::kurbo::{Point, Vec2};

use super::columns::in_order;
use super::content::Letter;

/// What stands for a letter that a font does not tell.
const UNKNOWN: &str = "\u{fffd}";
/// Between letters, in sizes of the font: more is a space, and more still another piece of text.
const SPACE: f64 = 0.15;
const WIDE: f64 = 1.5;
/// Letters that are further off their line are on another one: an index is not.
const OFF: f64 = 0.5;
/// How far back a letter may begin, such as an accent, or one whose neighbour leans over it.
const BACK: f64 = 0.7;
/// The distance of lines from which on a paragraph is another, in usual distances.
const APART: f64 = 1.35;

/// A piece of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Where it goes: to the right, nearly always.
    pub(super) way: Vec2,
    /// Places along that way.
    pub(super) begin: f64,
    pub(super) end: f64,
    /// The place across it, upwards.
    pub(super) height: f64,
    pub(super) size: f64,
    /// The letter that came last, and where.
    last: (String, Point),
}

impl Piece {
    fn new(letter: &Letter, text: &str) -> Self {
        let way = way(letter);
        let (begin, end) = (along(way, letter.begin), along(way, letter.end));
        let (height, size) = (across(way, letter.begin), letter.size);
        let last = (text.to_owned(), letter.begin);
        Self { text: text.to_owned(), way, begin, end, height, size, last }
    }

    /// Takes a letter that goes on with it, or says no.
    fn take(&mut self, letter: &Letter, text: &str) -> bool {
        let size = self.size.max(letter.size);
        let begin = along(self.way, letter.begin);
        let gap = begin - self.end;
        let is_beside = (across(self.way, letter.begin) - self.height).abs() < OFF * size
            && way(letter).dot(self.way) > 0.9
            && (-BACK * size..WIDE * size).contains(&gap);
        if !is_beside {
            return false;
        }
        // Bold without a bold font is a letter that is drawn again beside itself.
        let is_again = self.last.0 == text && self.last.1.distance(letter.begin) < 0.1 * size;
        if is_again && text != " " {
            return true;
        }
        if gap > SPACE * size && !self.text.ends_with(' ') && !text.starts_with(' ') {
            self.text.push(' ');
        }
        self.text.push_str(text);
        self.end = self.end.max(along(self.way, letter.end));
        self.size = if text == " " { self.size } else { size };
        self.last = (text.to_owned(), letter.begin);
        true
    }

    /// Whether both go the same way.
    fn is_along(&self, other: &Self) -> bool {
        self.way.dot(other.way) > 0.9
    }

    /// Whether another piece is further on the same line.
    pub(super) fn leads_to(&self, other: &Self) -> bool {
        let size = self.size.max(other.size);
        let is_level = (self.height - other.height).abs() < OFF * size;
        self.is_along(other) && is_level && other.begin > self.end - BACK * size
    }

    /// How far another piece is below, in sizes of the smaller one; none if it is not.
    fn down_to(&self, other: &Self) -> Option<f64> {
        let down = self.height - other.height;
        let is_below = self.is_along(other) && down > OFF * self.size.max(other.size);
        is_below.then(|| down / self.size.min(other.size))
    }
}

/// The text of a page.
pub(super) fn text(letters: &[Letter]) -> String {
    let pieces = in_order(pieces(letters));
    let usual = usual_distance(&pieces);
    let mut text = String::new();
    let mut before: Option<&Piece> = None;
    for piece in &pieces {
        match before {
            None => {}
            Some(before) if before.leads_to(piece) => text.push_str("  "),
            Some(before) => match before.down_to(piece) {
                Some(down) if down < usual * APART => next_line(&mut text, piece),
                Some(_) | None => text.push_str("\n\n"),
            },
        }
        text.push_str(piece.text.trim());
        before = Some(piece);
    }
    text
}

fn pieces(letters: &[Letter]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for letter in letters {
        let text = letter.text.as_deref().unwrap_or(UNKNOWN);
        let goes_on = |piece: &mut Piece| piece.take(letter, text);
        if !text.is_empty() && !pieces.last_mut().is_some_and(goes_on) && !text.trim().is_empty() {
            pieces.push(Piece::new(letter, text));
        }
    }
    pieces
}

/// The distance of neighbouring lines of a paragraph, in sizes: one that is rather short here.
fn usual_distance(pieces: &[Piece]) -> f64 {
    let neighbours = pieces.iter().zip(pieces.iter().skip(1));
    let mut distances: Vec<f64> =
        neighbours.filter_map(|(above, below)| above.down_to(below)).collect();
    distances.sort_by(f64::total_cmp);
    // A page of single lines has none.
    distances.get(distances.len() / 4).copied().unwrap_or(1.2).clamp(1.0, 3.0)
}

/// Begins a line. A word that was cut at the end of the one before is joined again, if it is one:
/// what has other signs in it may be an address.
fn next_line(text: &mut String, next: &Piece) {
    let is_low = next.text.trim_start().chars().next().is_some_and(char::is_lowercase);
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.strip_suffix(['-', '\u{ad}', '\u{2010}']);
    let is_cut =
        word.is_some_and(|word| word.chars().count() > 1 && word.chars().all(char::is_alphabetic));
    if is_low && is_cut {
        text.pop();
    } else {
        text.push('\n');
    }
}

/// Where a letter's line goes.
fn way(letter: &Letter) -> Vec2 {
    let width = letter.end - letter.begin;
    // A mark without a width lies on whatever line there is; lines go to the right.
    if width.hypot() > f64::EPSILON { width.normalize() } else { Vec2::new(1.0, 0.0) }
}

fn along(way: Vec2, place: Point) -> f64 {
    way.dot(place.to_vec2())
}

fn across(way: Vec2, place: Point) -> f64 {
    way.cross(place.to_vec2())
}
