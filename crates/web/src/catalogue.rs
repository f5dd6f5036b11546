//! What there is to choose from: the declarations that `polypath list` shows.

use polypath_sched::Scheduler;
use serde_json::{Value, json};

pub(crate) fn catalogue() -> Value {
    let mut algorithms: Vec<_> = polypath_cc::all().collect();
    algorithms.sort_by_key(|algorithm| algorithm.name());
    let algorithms = algorithms.into_iter().map(|algorithm| {
        let (info, coupled) = (algorithm.info(), algorithm.flags() & polypath_cc::flags::COUPLED != 0);
        json!({ "name": algorithm.name(), "about": info.source, "family": info.family.name(), "coupled": coupled })
    });
    let named = |(name, about): (&str, &str)| json!({ "name": name, "about": about });
    json!({
        "cc": algorithms.collect::<Vec<_>>(),
        "schedulers": Scheduler::NAMES.map(|name| named((name, &Scheduler::about(name).unwrap_or_default()))).to_vec(),
        "kernels": polypath_sim::KERNELS.iter().map(|stack| named((stack.name, stack.about))).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_listed_has_a_name_and_says_what_it_is() {
        let catalogue = catalogue();
        for (list, one) in [("cc", "lia"), ("schedulers", "default"), ("kernels", "6.12")] {
            let entries = catalogue[list].as_array().expect("a list");
            assert!(entries.iter().any(|entry| entry["name"] == one), "{list} has {one}");
            assert!(entries.iter().all(|entry| entry["about"].as_str().is_some_and(|about| !about.is_empty())), "{list}");
        }
    }
}
