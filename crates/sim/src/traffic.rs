//! What is measured of datagrams and of requests.

use crate::outcome::{DatagramOutcome, ResponseOutcome, Spread};
use polypath_base::{Duration, Instant};
use polypath_transport::udp::Arrival;

/// Datagrams of a whole run, and of those that arrived between two numbers of arrivals.
pub(crate) fn datagrams(sent: u32, arrivals: &[Arrival], window: [usize; 2]) -> DatagramOutcome {
    let (mut ahead, mut reordered) = (None, 0);
    for arrival in arrivals {
        reordered += u64::from(Some(arrival.number) < ahead);
        ahead = ahead.max(Some(arrival.number));
    }
    // Datagrams up to the latest that has arrived.
    let expected = |part: &[Arrival]| part.iter().map(|arrival| u64::from(arrival.number) + 1).max().unwrap_or(0);
    let (before, within) = (&arrivals[..window[0]], &arrivals[window[0]..window[1].max(window[0])]);
    let due = expected(&arrivals[..window[1].max(window[0])]) - expected(before);
    let transits: Vec<u64> = within.iter().map(|arrival| arrival.transit.as_nanos()).collect();
    let steps: Vec<u64> = transits.windows(2).map(|pair| pair[0].abs_diff(pair[1])).collect();
    DatagramOutcome {
        sent: u64::from(sent),
        received: arrivals.len() as u64,
        reordered,
        // Late ones from before the window may outnumber what is missing within it.
        loss: (due > 0).then(|| 1.0 - (within.len() as f64 / due as f64).min(1.0)),
        jitter_ns: mean(&steps),
        delay: spread(transits),
    }
}

/// Requests as (sent, answered), of which those sent within the window count.
pub(crate) fn responses(answered: &[(Instant, Instant)], window: [Instant; 2]) -> ResponseOutcome {
    let within = answered.iter().filter(|(sent, _)| (window[0]..window[1]).contains(sent));
    let times: Vec<Duration> = within.map(|&(sent, read)| read.since(sent)).collect();
    ResponseOutcome { count: times.len() as u64, time: spread(times.into_iter().map(Duration::as_nanos).collect()) }
}

/// How values are spread; none of none.
fn spread(mut values: Vec<u64>) -> Option<Spread> {
    values.sort_unstable();
    let mean_ns = mean(&values)?;
    // The nearest rank.
    let percentile = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
    Some(Spread { mean_ns, p50_ns: percentile(50), p95_ns: percentile(95), p99_ns: percentile(99), max_ns: percentile(100) })
}

fn mean(values: &[u64]) -> Option<f64> {
    // Sums of spans of a run stay far below 2^64.
    (!values.is_empty()).then(|| values.iter().sum::<u64>() as f64 / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(number: u32, ns: u64) -> Arrival {
        Arrival { number, transit: Duration::from_nanos(ns) }
    }

    #[test]
    fn loss_and_order_are_told_by_numbers() {
        // 2 and 5 are lost, 4 overtakes 3.
        let arrivals = [(0, 10), (1, 30), (4, 30), (3, 50), (6, 40)].map(|(number, ns)| arrival(number, ns));
        let all = datagrams(8, &arrivals, [0, 5]);
        assert_eq!((all.sent, all.received, all.reordered, all.loss), (8, 5, 1, Some(1.0 - 5.0 / 7.0)));
        assert_eq!(all.jitter_ns, Some(f64::from(20 + 20 + 10) / 4.0));
        let late = datagrams(8, &arrivals, [2, 5]);
        assert_eq!((late.received, late.loss), (5, Some(1.0 - 3.0 / 5.0)));
        assert_eq!(late.delay.map(|delay| (delay.mean_ns, delay.p50_ns, delay.max_ns)), Some((40.0, 40, 50)));
        let none = datagrams(8, &[], [0, 0]);
        assert_eq!((none.loss, none.jitter_ns, none.delay), (None, None, None));
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let found = spread((1..=200).rev().collect()).unwrap();
        assert_eq!(found, Spread { mean_ns: 100.5, p50_ns: 100, p95_ns: 190, p99_ns: 198, max_ns: 200 });
        assert_eq!(spread(vec![7]).map(|one| (one.p50_ns, one.p99_ns)), Some((7, 7)));
    }
}
