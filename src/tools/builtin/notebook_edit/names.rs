//! The names of the cells of a notebook, by which the model refers to them.
//!
//! A name never refers to another cell than the one that the model read, also when cells before it
//! were deleted or inserted since. Therefore a position is not a name: nbformat 4.4 and earlier have
//! no IDs, and the name of a cell without an ID is a hash of its content.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::tools::workspace::hash;

/// Returns the names of cells, each given by its ID and its text.
///
/// Cells with the same ID or the same content cannot be distinguished by it. The name of such a cell
/// has its number among them, and a hash of all cells: after any change of the notebook it refers to
/// no cell.
pub(super) fn cell_names(cells: &[(Option<&str>, &str)]) -> Vec<String> {
    let base = |(id, text): &(Option<&str>, &str)| {
        id.map_or_else(|| format!("cell-{}", short_hash(text.as_bytes(), 4)), str::to_owned)
    };
    let bases: Vec<String> = cells.iter().map(base).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for base in &bases {
        *counts.entry(base).or_default() += 1;
    }
    if counts.values().all(|count| *count == 1) {
        return bases;
    }
    let texts: Vec<&str> = cells.iter().map(|(_, text)| *text).collect();
    let all = short_hash(texts.join(",").as_bytes(), 3);
    let mut names = Vec::with_capacity(bases.len());
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for base in &bases {
        if counts.get(base.as_str()) == Some(&1) {
            names.push(base.clone());
            continue;
        }
        let number = numbers.entry(base).or_default();
        *number += 1;
        names.push(format!("{base}-{number}-{all}"));
    }
    names
}

/// The first bytes of a hash, in hexadecimal.
fn short_hash(bytes: &[u8], length: usize) -> String {
    let mut text = String::new();
    for byte in hash(bytes).iter().take(length) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::cell_names;

    #[test]
    fn the_name_of_a_cell_without_an_id_depends_on_its_content_only() {
        let [a, b, c] = [(None, "a"), (None, "b"), (None, "c")];
        let names = cell_names(&[a, b, c]);
        assert_eq!(cell_names(&[a, c]), [names[0].clone(), names[2].clone()]);
        assert_eq!(cell_names(&[c, a]), [names[2].clone(), names[0].clone()]);
    }

    #[test]
    fn the_names_of_equal_cells_change_with_every_change_of_the_notebook() {
        for equal in [(None, "a"), (Some("id"), "a")] {
            let other = (None, "b");
            let names = cell_names(&[equal, other, equal, equal]);
            assert_ne!(names[0], names[2]);
            for changed in [[equal, other, equal, (None, "c")], [equal, equal, other, equal]] {
                let after = cell_names(&changed);
                let lasting: Vec<_> = names.iter().filter(|name| after.contains(name)).collect();
                assert_eq!(lasting, [&names[1]]);
            }
        }
    }
}
