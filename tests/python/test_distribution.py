"""Two engines over the same starts."""

import math
import random
import statistics

import pytest

from polypath.analysis import Standing, discoveries, distance, in_words


def spread(mean, wide, count=12, seed=1):
    drawn = random.Random(seed)
    return [drawn.gauss(mean, wide) for _ in range(count)]


def test_the_interval_is_of_the_differences_and_the_sentence_says_what_chance_does():
    ours, theirs = [10.0, 12.0, 11.0, 13.0], [9.0, 11.5, 10.5, 11.0]
    found = distance(ours, theirs)
    # Differences 1, 0.5, 0.5, 2: mean 1, deviation 0.7071; Student's t of 3 is 3.1824.
    assert found.difference == pytest.approx(1.0 / 10.5)
    assert found.half_width == pytest.approx(3.1824 * 0.70711 / 2, rel=1e-4)
    assert found.p_mean == pytest.approx(0.0663, abs=1e-4)
    # Starts that move both alike tell more than the spread of either.
    assert found.half_width < statistics.stdev(ours) * 1.2
    flat = [100.0 + 0.01 * start for start in range(12)]
    rows = [distance(flat, flat)] * 38 + [distance([value * 1.2 for value in flat], flat)] * 2
    said = in_words(rows)
    assert said.startswith("38 of 40 rows (95.0 %) are within 5 %")
    assert "2 differ. The two tests tell 2 of 40 rows apart (near ones too); of equal engines they would 4.0 at most" in said
    assert said.endswith("2 remain.")
    theirs = [5.0 + 0.01 * start for start in range(12)]
    ours = [math.inf] * 12
    never = distance(ours, theirs)
    assert (never.n, never.standing) == (0, Standing.APART)
    half = distance([math.inf] * 6 + theirs[6:], theirs)
    assert (half.n, half.difference, half.standing) == (6, 0.0, Standing.NEAR)
    assert distance(ours, ours).standing is Standing.ALIKE


def test_near_is_near_whatever_the_tests_say_and_far_is_judged_by_them():
    flat = [100.0 + 0.01 * start for start in range(12)]
    near = distance([value * 1.049 for value in flat], flat)
    assert (near.standing, near.told_apart) == (Standing.NEAR, True)
    apart = distance([value * 1.06 for value in flat], flat)
    assert apart.standing is Standing.APART
    assert str(apart) == "differs: +6.0 ± 0.0 %"
    wide = distance(spread(110, 60, seed=2), spread(100, 60, seed=3))
    assert (wide.standing, abs(wide.difference) > 0.05) == (Standing.ALIKE, True)
    # Linux has one of two values, the simulator always nearly the same, 7 % off.
    theirs = [80.0, 120.0] * 12
    ours = [107.0 + 0.1 * start for start in range(24)]
    found = distance(ours, theirs)
    assert found.p_mean > 0.05
    assert found.p_ks < 0.05
    assert found.standing is Standing.APART
    with pytest.raises(ValueError, match="8 values stand beside 12"):
        distance([1.0] * 8, [1.0] * 12)


def test_equal_engines_are_seldom_told_apart_and_others_nearly_always():
    pairs = [distance(spread(100, 20, seed=2 * row), spread(100, 20, seed=2 * row + 1)) for row in range(1000)]
    share = statistics.fmean(found.told_apart for found in pairs)
    assert 0.03 < share < 0.10
    # A false discovery rate is one: of equal engines hardly anything remains.
    assert discoveries([found.p for found in pairs]) <= 2
    pairs = [distance(spread(120, 10, seed=2 * row), spread(100, 10, seed=2 * row + 1)) for row in range(200)]
    assert statistics.fmean(found.standing is Standing.APART for found in pairs) > 0.95
    # Section 3.2 of their paper: four discoveries of fifteen, where Bonferroni makes three.
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert discoveries(p_values[::-1]) == 4
    assert discoveries([]) == 0
    assert discoveries([0.9, 0.8]) == 0
