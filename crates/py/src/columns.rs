//! Series as columns of little-endian bytes with their NumPy types.

use polypath_sim::outcome::{LinkSeries, SubflowSeries};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A number with a NumPy type.
trait Element: Copy {
    const TYPE: &'static str;
    fn append_to(self, bytes: &mut Vec<u8>);
}

macro_rules! element {
    ($rust:ty, $numpy:literal) => {
        impl Element for $rust {
            const TYPE: &'static str = $numpy;
            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        }
    };
}

element!(u8, "<u1");
element!(u32, "<u4");
element!(u64, "<u8");

fn put<T: Element>(columns: &Bound<'_, PyDict>, name: &str, values: &[T]) -> PyResult<()> {
    let mut bytes = Vec::with_capacity(size_of_val(values));
    for &value in values {
        value.append_to(&mut bytes);
    }
    columns.set_item(name, (T::TYPE, PyBytes::new(columns.py(), &bytes)))
}

/// Every column of a series under the name of its field.
macro_rules! columns {
    ($py:ident, $series:ident: $($field:ident),+ $(,)?) => {{
        let columns = PyDict::new($py);
        $(put(&columns, stringify!($field), &$series.$field)?;)+
        Ok(columns)
    }};
}

pub(crate) fn subflow_series<'py>(py: Python<'py>, series: &SubflowSeries) -> PyResult<Bound<'py, PyDict>> {
    columns!(py, series: time_ns, flow, subflow, cwnd, ssthresh, srtt_us, rttvar_us, min_rtt_us, in_flight, bytes_acked,
        bytes_received, retransmissions, timeouts, pacing_rate, delivery_rate, rto_us, reordering, mss, ca_state)
}

pub(crate) fn link_series<'py>(py: Python<'py>, series: &LinkSeries) -> PyResult<Bound<'py, PyDict>> {
    columns!(py, series: time_ns, link, queue_packets, queue_bytes, drops)
}
