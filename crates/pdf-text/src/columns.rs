//! Pages with two columns whose lines the document draws alternately.

use super::layout::Piece;

/// Minimum number of consecutive lines next to each other that form columns.
const MIN_LINES: usize = 4;
/// Minimum number of letters in a usual line of a column. Shorter lines are cells of a table.
const MIN_LETTERS: usize = 20;

/// Returns the pieces of a page with one column after the other.
pub(super) fn in_order(pieces: Vec<Piece>) -> Vec<Piece> {
    let Some(middle) = middle(&pieces) else { return pieces };
    let mut ordered = Vec::with_capacity(pieces.len());
    let mut right = Vec::new();
    for piece in pieces {
        if piece.begin >= middle {
            right.push(piece);
        } else {
            if piece.end > middle {
                // A heading over both columns ends the columns above it.
                ordered.append(&mut right);
            }
            ordered.push(piece);
        }
    }
    ordered.append(&mut right);
    ordered
}

/// Returns the position of the gap between two alternating columns; `None` without such columns.
fn middle(pieces: &[Piece]) -> Option<f64> {
    let neighbours = pieces.iter().zip(pieces.iter().skip(1));
    let pairs: Vec<(&Piece, &Piece)> =
        neighbours.filter(|(left, right)| left.leads_to(right)).collect();
    if pairs.len() < MIN_LINES || pairs.len() * 3 < pieces.len() {
        return None;
    }
    let from = pairs.iter().map(|(left, _)| left.end).fold(f64::MIN, f64::max);
    let to = pairs.iter().map(|(_, right)| right.begin).fold(f64::MAX, f64::min);
    let is_usual = |of: fn(&(&Piece, &Piece)) -> usize| {
        let mut lengths: Vec<usize> = pairs.iter().map(of).collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).is_some_and(|length| *length >= MIN_LETTERS)
    };
    let are_long = is_usual(|(left, _)| left.text.chars().count())
        && is_usual(|(_, right)| right.text.chars().count());
    (from < to && are_long).then(|| f64::midpoint(from, to))
}
