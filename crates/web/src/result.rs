//! What came of a run, as one text.

use polypath_base::Values;
use polypath_sim::Outcome;
use serde_json::{Map, Value, json};

/// The outcome, its digest, and the columns of both series.
pub(crate) fn text(outcome: &Outcome) -> String {
    let result = json!({
        "outcome": outcome,
        "digest": outcome.digest().to_string(),
        "subflow_series": columns(outcome.subflow_series.columns()),
        "link_series": columns(outcome.link_series.columns()),
    });
    result.to_string()
}

fn columns<'a>(columns: impl Iterator<Item = (&'static str, Values<'a>)>) -> Map<String, Value> {
    let values = |values| match values {
        Values::U8(values) => json!(values),
        Values::U32(values) => json!(values),
        Values::U64(values) => json!(values),
    };
    columns.map(|(name, column)| (name.to_owned(), values(column))).collect()
}
