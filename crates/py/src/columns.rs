//! The table of what is counted.

use polypath_base::Column;
use polypath_sim::outcome::{FEC_COLUMNS, LinkCounters, LinkSeries, REORDER_COLUMNS, SubflowSeries, TunnelCounters, TunnelPathCounters};
use polypath_transport::{Counters, Rejections};
use pyo3::prelude::*;

/// Table, the engines' name, the column's name, its unit, how much of the engines' unit is one of
/// the column's, Linux's counters, meaning.
type Row = (&'static str, String, String, &'static str, f64, &'static [&'static str], &'static str);

/// Every counter and every column of a series that the engines hand on, in the tables' order.
#[pyfunction]
fn columns() -> Vec<Row> {
    let tables: [(_, &[Column]); 9] = [
        ("counters", Counters::COLUMNS),
        ("rejections", Rejections::COLUMNS),
        ("links", LinkCounters::COLUMNS),
        ("tunnels", TunnelCounters::COLUMNS),
        ("tunnels", REORDER_COLUMNS),
        ("tunnels", FEC_COLUMNS),
        ("tunnel_paths", TunnelPathCounters::COLUMNS),
        ("series", SubflowSeries::COLUMNS),
        ("link_series", LinkSeries::COLUMNS),
    ];
    let row = |table, column: &Column| {
        let (.., divisor) = column.unit.names();
        (table, column.raw(), column.name(), column.unit.in_tables(), divisor, column.linux, column.meaning)
    };
    tables.iter().flat_map(|&(table, columns)| columns.iter().map(move |column| row(table, column))).collect()
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(columns, module)?)
}
