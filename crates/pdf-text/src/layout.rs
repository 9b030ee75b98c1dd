//! Lines of text, from letters and their positions.
//!
//! The order of the text is the drawing order, because nearly all programs draw text as it is read,
//! and no rule about positions distinguishes a table from two columns as well. Only where the
//! document draws the lines of two columns alternately, [`columns`](super::columns) puts one column
//! after the other.

use hayro_font::kurbo::{Point, Vec2};

use super::columns::in_order;
use super::content::Letter;

/// The replacement for a letter without a meaning.
const UNKNOWN: &str = "\u{fffd}";
/// Gaps between letters, relative to the font size: from `SPACE` on a space, from `WIDE` on a new
/// piece of text.
const SPACE: f64 = 0.15;
const WIDE: f64 = 1.5;
/// Maximum distance of a letter from the baseline of its line; an index or an exponent is closer.
const OFF: f64 = 0.5;
/// Maximum overlap of a letter with the previous one, as for an accent or a slanted neighbour.
const BACK: f64 = 0.7;
/// Minimum line distance between paragraphs, relative to the usual distance.
const APART: f64 = 1.35;

/// A piece of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// The direction of the line, nearly always to the right.
    pub(super) direction: Vec2,
    /// The start and the end along that direction.
    pub(super) begin: f64,
    pub(super) end: f64,
    /// The position across the direction, upwards.
    pub(super) height: f64,
    pub(super) size: f64,
    /// The last letter and its position.
    last: (String, Point),
}

impl Piece {
    fn new(letter: &Letter, text: &str) -> Self {
        let direction = direction(letter);
        let (begin, end) = (along(direction, letter.begin), along(direction, letter.end));
        let (height, size) = (across(direction, letter.begin), letter.size);
        let last = (text.to_owned(), letter.begin);
        Self { text: text.to_owned(), direction, begin, end, height, size, last }
    }

    /// Appends a letter that continues the piece. Returns false if it does not.
    fn take(&mut self, letter: &Letter, text: &str) -> bool {
        let size = self.size.max(letter.size);
        let begin = along(self.direction, letter.begin);
        let gap = begin - self.end;
        let is_beside = (across(self.direction, letter.begin) - self.height).abs() < OFF * size
            && direction(letter).dot(self.direction) > 0.9
            && (-BACK * size..WIDE * size).contains(&gap);
        if !is_beside {
            return false;
        }
        // Some programs print bold by drawing a letter twice with a small shift.
        let is_duplicate = self.last.0 == text && self.last.1.distance(letter.begin) < 0.1 * size;
        if is_duplicate && text != " " {
            return true;
        }
        if gap > SPACE * size && !self.text.ends_with(' ') && !text.starts_with(' ') {
            self.text.push(' ');
        }
        self.text.push_str(text);
        self.end = self.end.max(along(self.direction, letter.end));
        self.size = if text == " " { self.size } else { size };
        self.last = (text.to_owned(), letter.begin);
        true
    }

    /// True if both pieces have the same direction.
    fn is_along(&self, other: &Self) -> bool {
        self.direction.dot(other.direction) > 0.9
    }

    /// True if the other piece continues the same line.
    pub(super) fn leads_to(&self, other: &Self) -> bool {
        let size = self.size.max(other.size);
        let is_level = (self.height - other.height).abs() < OFF * size;
        self.is_along(other) && is_level && other.begin > self.end - BACK * size
    }

    /// Returns the distance to a piece below, relative to the smaller font size; `None` if it is
    /// not below.
    fn down_to(&self, other: &Self) -> Option<f64> {
        let down = self.height - other.height;
        let is_below = self.is_along(other) && down > OFF * self.size.max(other.size);
        is_below.then(|| down / self.size.min(other.size))
    }
}

/// Returns the text of a page.
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

/// Returns the usual distance of lines in a paragraph, relative to the font size: the lower
/// quartile.
fn usual_distance(pieces: &[Piece]) -> f64 {
    let neighbours = pieces.iter().zip(pieces.iter().skip(1));
    let mut distances: Vec<f64> =
        neighbours.filter_map(|(above, below)| above.down_to(below)).collect();
    distances.sort_by(f64::total_cmp);
    // A page of single lines has no distances.
    distances.get(distances.len() / 4).copied().unwrap_or(1.2).clamp(1.0, 3.0)
}

/// Starts a new line. A word that was hyphenated at the end of the previous line is joined if it
/// has only letters: otherwise it can be a URL.
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

/// Returns the direction of a letter's line.
fn direction(letter: &Letter) -> Vec2 {
    let width = letter.end - letter.begin;
    // A combining mark without a width has no direction; lines run to the right.
    if width.hypot() > f64::EPSILON { width.normalize() } else { Vec2::new(1.0, 0.0) }
}

fn along(direction: Vec2, place: Point) -> f64 {
    direction.dot(place.to_vec2())
}

fn across(direction: Vec2, place: Point) -> f64 {
    direction.cross(place.to_vec2())
}
