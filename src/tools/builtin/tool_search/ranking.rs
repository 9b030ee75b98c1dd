//! The ranking of tools by the words of a query: BM25 over the words of each definition, in which words
//! of the name count most and those of descriptions of parameters least.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use super::words::words;
use crate::domain::deferred_tools::DeferredDefinition;

/// The parameters of BM25: saturation by repeated words, and influence of the length.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// The weights of the words of a name, of a description, of names of parameters, and of their
/// descriptions.
const NAME: f64 = 4.0;
const DESCRIPTION: f64 = 1.5;
const PARAMETER: f64 = 1.0;
const PARAMETER_DESCRIPTION: f64 = 0.5;

/// Maximum nesting of parameters that is searched.
const MAX_DEPTH: usize = 5;

#[derive(Deserialize)]
struct Definition {
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_schema: Value,
}

/// The words of a tool with their weights.
#[derive(Default)]
struct Document {
    weights: HashMap<String, f64>,
    length: f64,
}

impl Document {
    fn of(tool: &DeferredDefinition) -> Self {
        let mut document = Self::default();
        document.add(&tool.name, NAME);
        if let Ok(definition) = serde_json::from_str::<Definition>(tool.json.get()) {
            document.add(&definition.description, DESCRIPTION);
            document.add_parameters(&definition.input_schema, 0);
        }
        document
    }

    fn add(&mut self, text: &str, weight: f64) {
        for word in words(text) {
            *self.weights.entry(word).or_default() += weight;
            self.length += weight;
        }
    }

    fn add_parameters(&mut self, schema: &Value, depth: usize) {
        if depth == MAX_DEPTH {
            return;
        }
        for (name, parameter) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            self.add(name, PARAMETER);
            if let Some(Value::String(description)) = parameter.get("description") {
                self.add(description, PARAMETER_DESCRIPTION);
            }
            self.add_parameters(parameter, depth + 1);
        }
        if let Some(items) = schema.get("items") {
            self.add_parameters(items, depth + 1);
        }
    }
}

/// Returns the tools that have a word of the query, the best first. Tools of the same rank keep their
/// order.
pub(super) fn ranked<'a>(
    tools: &'a [DeferredDefinition],
    query: &str,
) -> Vec<&'a DeferredDefinition> {
    let wanted: HashSet<String> = words(query).into_iter().collect();
    let documents: Vec<Document> = tools.iter().map(Document::of).collect();
    let count = as_float(documents.len());
    let mean = documents.iter().map(|it| it.length).sum::<f64>() / count.max(1.0);
    let rarity = |word: &str| {
        let having = as_float(documents.iter().filter(|it| it.weights.contains_key(word)).count());
        (1.0 + (count - having + 0.5) / (having + 0.5)).ln()
    };
    let wanted: Vec<(String, f64)> = wanted
        .into_iter()
        .map(|word| (rarity(&word), word))
        .map(|(idf, word)| (word, idf))
        .collect();
    let score = |document: &Document| {
        let of_word = |(word, rarity): &(String, f64)| {
            let weight = document.weights.get(word)?;
            let length = K1 * (1.0 - B + B * document.length / mean.max(1.0));
            Some(rarity * weight * (K1 + 1.0) / (weight + length))
        };
        wanted.iter().filter_map(of_word).sum::<f64>()
    };
    let mut scored: Vec<(f64, &DeferredDefinition)> =
        documents.iter().map(score).zip(tools).filter(|(score, _)| *score > 0.0).collect();
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored.into_iter().map(|(_, tool)| tool).collect()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of tools are small")]
const fn as_float(count: usize) -> f64 {
    count as f64
}
