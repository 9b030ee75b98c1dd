//! Text tables.

use super::output;
use super::terminal::one_line;

/// Prints rows below their column heads.
pub(super) fn show<const N: usize>(heads: [&str; N], rows: &[[String; N]]) {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| one_line(cell))).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        let head = heads.get(column).map_or(0, |head| head.len());
        cells.fold(head, usize::max)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        output::print_line(cells.collect::<Vec<_>>().join("  ").trim_end());
    };
    line(heads);
    for row in &rows {
        line(row.each_ref().map(String::as_str));
    }
}
