//! A breadth-first search through all reachable states, so that the first violation has one of the
//! shortest traces.

use std::collections::HashMap;

use super::invariants::violated;
use super::rules::Rules;
use super::state::State;
use super::store::Processes;
use super::transitions::transitions;

/// The result of a search.
#[derive(Debug)]
pub(super) struct Found {
    /// The number of visited states.
    pub(super) states: usize,
    /// The violated invariant, and the transitions that lead to it.
    pub(super) violation: Option<(&'static str, Vec<&'static str>)>,
}

/// Visits all states that are reachable under these rules.
pub(super) fn search(rules: &Rules, processes: Processes) -> Found {
    let mut search = Search::default();
    for state in [State::queued(), State::handed_over()] {
        search.add(state, None);
    }
    let mut next = 0;
    while let Some(&state) = search.states.get(next) {
        if let Some(name) = violated(&state) {
            return search.violation(name, next);
        }
        let found = transitions(&state, rules, processes);
        if found.is_empty() && !state.is_terminal() {
            return search.violation("a run is never stuck", next);
        }
        for (what, after) in found {
            search.add(after, Some((next, what)));
        }
        next += 1;
    }
    match search.state_without_end() {
        Some(stuck) => search.violation("every run can settle", stuck),
        None => Found { states: search.states.len(), violation: None },
    }
}

#[derive(Default)]
struct Search {
    states: Vec<State>,
    numbers: HashMap<State, usize>,
    /// The first predecessor of each state, and the transition from it.
    first: Vec<Option<(usize, &'static str)>>,
    /// All predecessors of each state.
    before: Vec<Vec<usize>>,
}

impl Search {
    fn add(&mut self, state: State, from: Option<(usize, &'static str)>) {
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

    fn violation(&self, name: &'static str, at: usize) -> Found {
        let mut trace = Vec::new();
        let mut at = at;
        while let Some((from, what)) = self.first[at] {
            trace.push(what);
            at = from;
        }
        trace.reverse();
        Found { states: self.states.len(), violation: Some((name, trace)) }
    }

    /// A state from which no terminal state can be reached, found by a search from the terminal states.
    fn state_without_end(&self) -> Option<usize> {
        let mut reaches: Vec<bool> = self.states.iter().map(State::is_terminal).collect();
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
