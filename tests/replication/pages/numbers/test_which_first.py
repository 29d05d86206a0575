"""Page 11."""

from types import SimpleNamespace

from headprune_lib.replication.claims.contrasts import FAMILY
from headprune_lib.replication.pages import numbers


def made_up(least=0.2, said=("alpha=1",), **contrasts):
    """A result with contrasts, by their page names: (value, low, high) in shares."""
    by_key = dict(zip(("combined", "entropy", "rescored", "unnormalised"), FAMILY, strict=True))
    estimates = {
        by_key[key]: {
            what: {"value": value, "interval": [low, high], "error": (high - low) / 3.92}
            for what in ("area", "loss")
        }
        for key, (value, low, high) in contrasts.items()
    }
    orders = {"importance": {"score": [0.9], "said": []}}
    if said:
        orders["importance-entropy chosen"] = {"score": [0.9], "said": list(said)}
    values = {"least_above_chance": least, "chance": 0.5, "orders": orders}
    return SimpleNamespace(values={**values, "contrasts": estimates})


def test_models_stand_on_the_side_of_their_own_interval():
    found = {
        "up, one": made_up(entropy=(0.2, 0.1, 0.3), unnormalised=(0.01, -0.01, 0.03)),
        "down, one": made_up(
            entropy=(-0.1, -0.2, -0.05), unnormalised=(-0.1, -0.2, -0.05), said=("alpha=0.5",)
        ),
        "across": made_up(entropy=(0.01, -0.1, 0.12), said=("alpha=1", "alpha=1")),
        "no weight asked": made_up(said=()),
    }
    told = numbers.which_first(found)
    assert [told[f"entropy_n_{side}"] for side in ("above", "below", "open")] == [1, 1, 1]
    assert (told["unnormalised_n"], told["unnormalised_n_above"], told["rescored_n"]) == (2, 0, 0)
    assert told["unnormalised_below"] == "down, one" and told["unnormalised_above"] == "none"
    assert told["rescored"] == "not measured" and told["rescored_word"] == "not run"
    assert told["weighted"] == "down, one (importance weighs 0.5)"
    assert told["n_not_weighted"] == 2
    assert told["left_out"] == "none" and told["control"] == "not measured"


def test_a_model_that_is_not_above_chance_counts_for_nothing():
    found = {
        "fine": made_up(entropy=(0.2, 0.19, 0.21)),
        "nothing": made_up(least=-0.01, said=("alpha=0",), entropy=(-3.0, -5.0, -1.0)),
    }
    told = numbers.which_first(found)
    assert told["left_out"] == "nothing" and told["models"] == "fine"
    assert told["entropy_word"] == "better" and told["entropy"].startswith("+20.00")
    assert told["nearest"] == "fine" and told["without_entropy_word"] == "not run"
    assert told["weighted"] == "none" and told["entropy_n_below"] == 0


def test_contrasts_without_the_model_that_is_nearest_to_chance():
    found = {
        "fine": made_up(entropy=(0.2, 0.19, 0.21)),
        "near": made_up(least=0.001, entropy=(-3.0, -5.0, -1.0)),
    }
    told = numbers.which_first(found)
    assert told["nearest"] == "near" and told["entropy"].startswith("\u2212140.00")
    assert told["without_entropy_word"] == "better"
    assert told["without_entropy"].startswith("+20.00")
