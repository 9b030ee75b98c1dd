//! A search through every state that can be reached, breadth first, so that the first violation
//! is one of the shortest.

use std::collections::HashMap;

use super::laws::broken;
use super::moves::moves;
use super::rules::Rules;
use super::state::State;
use super::store::Processes;

/// What the search found.
#[derive(Debug)]
pub(super) struct Found {
    /// The states that it looked at.
    pub(super) states: usize,
    /// The law that is broken, and what happened before.
    pub(super) violation: Option<(&'static str, Vec<&'static str>)>,
}

/// Looks at everything that can happen under these rules.
pub(super) fn search(rules: &Rules, processes: Processes) -> Found {
    let mut search = Search::default();
    for state in [State::queued(), State::handed_over()] {
        search.note(state, None);
    }
    let mut next = 0;
    while let Some(&state) = search.states.get(next) {
        if let Some(law) = broken(&state) {
            return search.violation(law, next);
        }
        let found = moves(&state, rules, processes);
        if found.is_empty() && !state.is_at_rest() {
            return search.violation("a run is never stuck", next);
        }
        for (what, after) in found {
            search.note(after, Some((next, what)));
        }
        next += 1;
    }
    match search.without_a_way_to_rest() {
        Some(stuck) => search.violation("every run can settle", stuck),
        None => Found { states: search.states.len(), violation: None },
    }
}

#[derive(Default)]
struct Search {
    states: Vec<State>,
    numbers: HashMap<State, usize>,
    /// From where each state was reached first, and by what.
    first: Vec<Option<(usize, &'static str)>>,
    /// From where each state was reached at all.
    before: Vec<Vec<usize>>,
}

impl Search {
    fn note(&mut self, state: State, from: Option<(usize, &'static str)>) {
        let state = state.reduced();
        let new = self.states.len();
        let number = *self.numbers.entry(state).or_insert(new);
        if number == new {
            self.states.push(state);
            self.first.push(from);
            self.before.push(Vec::new());
        }
        if let Some((from, _)) = from {
            self.before[number].push(from);
        }
    }

    fn violation(&self, law: &'static str, at: usize) -> Found {
        let mut story = Vec::new();
        let mut at = at;
        while let Some((from, what)) = self.first[at] {
            story.push(what);
            at = from;
        }
        story.reverse();
        Found { states: self.states.len(), violation: Some((law, story)) }
    }

    /// A state from which rest cannot be reached: found from the end.
    fn without_a_way_to_rest(&self) -> Option<usize> {
        let mut reaches: Vec<bool> = self.states.iter().map(State::is_at_rest).collect();
        let mut open: Vec<usize> = (0..reaches.len()).filter(|at| reaches[*at]).collect();
        while let Some(at) = open.pop() {
            for &from in &self.before[at] {
                if !reaches[from] {
                    reaches[from] = true;
                    open.push(from);
                }
            }
        }
        reaches.iter().position(|reaches| !reaches)
    }
}
