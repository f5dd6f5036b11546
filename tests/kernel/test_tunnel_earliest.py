"""The tunnel daemon's distribution `earliest` over paths of unlike rates."""

import pytest
from tunnel_network import goodput, unequal_paths

# Of one connection, after its slow start.
SECONDS, SETTLES = 6, 4


@pytest.mark.parametrize("mbps, ms", [((15, 1), (20, 15)), ((1, 15), (20, 15)), ((3, 1), (15, 20)), ((15, 5), (60, 15))])
def test_paths_are_full_though_their_weights_are_equal(tunnel, mbps, ms):
    with unequal_paths(tunnel, mbps, ms):
        tunnel.both(tunnel='distribution = "earliest"')
        speed = goodput(SECONDS, SETTLES) / 1e6
        found = [path["estimate"]["capacity_bits_per_s"] for path in tunnel.status(0)["paths"]]
    # With the capacities exchanged the first case had 0.13 and the last 0.46.
    assert speed > 0.65 * sum(mbps) * 1400 / 1500
    assert all(0.75 * rate < (bps or 0) / 1e6 < 1.25 * rate for bps, rate in zip(found, mbps, strict=True)), found
