"""From a request to a result: stored or measured, resumed, stale, refused, on which weights."""

import dataclasses
import threading
import warnings

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from headprune_lib import ones_mask
from headprune_lib.criteria import CRITERIA
from headprune_lib.replication import measurements
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.base import HALVES, Constants, Own, measurement
from headprune_lib.replication.measurements.obtaining import (
    HALF_OF,
    OtherWeights,
    Request,
    file_sha256,
    obtain,
    results_folder,
)
from headprune_lib.replication.measurements.orders import losses_under
from headprune_lib.replication.models.encoders import file_name, recipe, weights_path
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import OUTCOMES, Journal, Key, Measured, load


def signed(name, profile, half="encoder", task=None, part=None) -> str:
    """The digest of a measurement's signature, of all its parts where none is named."""
    task, parts = task or HALF_OF[half].task(profile), None if part is None else [part]
    made = Request(MEASUREMENTS[name], half, profile, task, parts).signatures()
    return "".join(one["digest"] for one in made.values())


@pytest.fixture
def computed(monkeypatch):
    """The keys of the units that are computed, not read from a journal."""
    keys, unit = [], Journal.unit

    def noted(self, key, function):
        return unit(self, key, lambda: keys.append(key) or function())

    monkeypatch.setattr(Journal, "unit", noted)
    return keys


# --- stored, or measured now ------------------------------------------------------------------------


def test_a_second_call_reads_what_the_first_stored_and_other_numbers_lie_elsewhere(smoke, computed):
    first = measurements.get("figure1b", smoke).to_json()
    computed.clear()
    assert measurements.get("figure1b", smoke).to_json() == first and not computed
    assert measurements.get("figure1b", load_profile("smoke", n_examples=20)).n_examples == 20
    assert measurements.get("figure1b", smoke).to_json() == first
    for artifact in ("figure3b", "figure6b"):  # the paper's names for one measurement
        measurements.get(artifact, smoke, parts=["importance"])
    listed = measurements.found("figure3b", "figure6b", root=results_folder(smoke))
    assert {(one.measurement, one.task) for one in listed} == {
        ("pruning_curve", "synthetic"),
        ("pruning_curve", "synthetic-words"),
    }
    assert measurements.found("table5", root=results_folder(smoke) / "nothing") == []


def test_measurements_share_their_passes_and_the_same_mask_on_other_text_is_another(
    computed, smoke, tmp_path
):
    profile = load_profile("smoke", n_examples=24)
    measurements.get("across_domains", profile)  # asks for one_head itself
    measurements.get("pruning_curve", profile, parts=["importance", "oracle", "oracle leak-free"])
    measurements.get("one_head", profile)
    sweeps = [key.split(" ", 1)[1] for key in computed if "one head" in key]
    texts = ("synthetic", "synthetic-far", "synthetic (train)")
    assert sorted(sweeps) == sorted(f"one head {text} 0" for text in texts)
    assert len(computed) == len({*computed})
    subject, journal = EncoderSubject.of(smoke), Journal(tmp_path)
    here, there, again = (
        losses_under(subject, [ones_mask(subject.model)], text, journal)
        for text in (subject.test, subject.selection, subject.test)
    )
    assert (here.shape, there.shape) == ((1, len(subject.test)), (1, len(subject.selection)))
    np.testing.assert_array_equal(here, again)


def test_a_new_version_of_what_goes_into_a_part_makes_it_stale(monkeypatch):
    smoke = load_profile("smoke")

    def all_signed():
        return {
            (name, half, part): signed(name, smoke, half, part=part)
            for name, one in MEASUREMENTS.items()
            for half in one.halves
            for part in Request(one, half, smoke, HALF_OF[half].task(smoke)).parts
        }

    before = all_signed()
    made_of = {
        *((n, h, "outcomes") for n in ("one_head", "across_domains") for h in HALVES),
        *(("pruning_curve", half, "oracle") for half in HALVES),
        ("search", "translation", "outcomes"),
        *(key for key in before if key[0] == "stability" and "training" not in key[2]),
    }
    monkeypatch.setitem(MEASUREMENTS["one_head"].__dict__, "version", 7)
    after = all_signed()
    assert {key for key in after if after[key] != before[key]} == made_of
    fisher = signed("pruning_curve", smoke, part="fisher")
    for name in ("fisher", "importance", "random"):  # the last two are the curve's own
        criterion = dataclasses.replace(CRITERIA[name], version=2)
        monkeypatch.setitem(CRITERIA, name, criterion)
    assert signed("pruning_curve", smoke, part="fisher") != fisher
    changed = {key for key, digest in all_signed().items() if after[key] != digest}
    assert not [key for key in changed if key[:2] == ("pruning_curve", "encoder")]


def test_a_signature_holds_what_a_result_depends_on_and_nothing_else():
    smoke, default = load_profile("smoke"), load_profile("default")
    for given, same in (({"n_examples": 8}, 0), ({"device": "cuda"}, 0), ({"n_examples": 40}, 1)):
        assert (signed("speed", load_profile("smoke", **given)) == signed("speed", smoke)) == same
    for task in ("enfr", "deen"):
        changed = dataclasses.replace(default.translator(task), learning_rate=1.0)
        translation = {**default.translation, task: {"post-norm": changed}}
        other = dataclasses.replace(default, translation=translation)
        first, second = (signed("quality", one, "translation", task) for one in (default, other))
        assert first != second


@pytest.mark.parametrize(
    ("artifact", "given", "parts"),
    [
        ("pruning_curve", {"n_selection": 1000}, ["oracle leak-free"]),
        ("scoring_examples", {"n_scoring": 90}, None),
    ],
)
def test_no_sentence_scores_and_is_chosen_on(smoke, artifact, given, parts):
    with pytest.raises(ValueError, match="so that no sentence is in both"):
        measurements.get(artifact, load_profile("smoke", **given), parts=parts)


# --- parts ------------------------------------------------------------------------------------------


class Noted:
    """A measurement that notes which parts it measures, and how often it summarises."""

    def __init__(self):
        self.measured, self.summarised = [], 0

    def measure(self, part):
        self.measured.append(part)
        raw = {"right": np.array([1, 0, 1])}
        return Measured(raw, [{"seed": 0, "rate": 1 / 3}], "d", 3, "accuracy", "fraction")

    def summarise(self, outcomes, runs):
        self.summarised += 1
        rates = {name: runs[name][0]["rate"] * 3 for name in outcomes}
        return {name: [raw["right"].mean(), rates[name]] for name, raw in outcomes.items()}

    def obtain(self, *parts, version=1, n=3, seed=0, orders=None, **options):
        noted = measurement(
            "noted",
            version=version,
            parameters=lambda: {"n": n},
            statistics=Constants(resamples=5_000, seed=seed),
            own=lambda part: Own({"order": (orders or {}).get(part, part)}),
        )(self.measure)
        noted.summary(self.summarise)
        request = Request(noted, "encoder", load_profile("smoke"), "synthetic", parts or None)
        return obtain(request, **options)

    @property
    def counts(self):
        return len(self.measured), self.summarised


def test_a_part_is_measured_once_a_signature_and_summarised_once_a_statistic(elsewhere):
    m = Noted()
    first = m.obtain()
    assert first.values == {OUTCOMES: [0.666667, 0.999999]}
    assert first.provenance["command"] == "headprune reproduce noted --profile smoke"
    assert "first_measured" not in first.provenance
    assert m.obtain().to_json() == first.to_json() and m.counts == (1, 1)
    summarised = m.obtain(seed=1)
    assert summarised.values == first.values, "runs are read as they were"
    assert m.counts == (1, 2) and summarised.provenance == first.provenance
    assert m.obtain(seed=1).statistics != first.statistics and m.counts == (1, 2)
    again = m.obtain(version=2)
    assert again.parts[OUTCOMES].signature["measurement"] == 2 and m.counts == (2, 3)
    fresh = m.obtain(version=2, fresh=True)
    assert m.counts == (3, 4)
    for later in (again, fresh):
        assert later.provenance["first_measured"] == first.provenance["date"]


def test_a_new_part_leaves_the_others_alone_unless_it_is_of_other_examples(elsewhere):
    m, two = Noted(), ("importance", "random")
    before = m.obtain(*two)
    after = m.obtain("confidence")
    assert m.measured == [*two, "confidence"] and set(after.values) == {*m.measured}
    for name in two:
        assert after.parts[name].provenance == before.parts[name].provenance
        assert after.values[name] == before.values[name]
    m.obtain(*two, orders={"importance": "another"})
    assert m.measured[3:] == ["importance"], "the stale one alone"
    assert set(m.obtain(*two, fresh=True).parts) == {*two, "confidence"}
    assert m.measured[4:] == [*two], "the ones that are asked for"
    other = m.obtain("importance", n=20)
    assert list(other.parts) == ["importance"], "they cannot be compared, example by example"


def test_what_another_process_stored_meanwhile_stays(elsewhere):
    m, other = Noted(), Noted()
    measure, summarise = m.measure, m.summarise

    def slowly_measured(part):
        other.obtain("importance")
        return measure(part)

    m.measure = slowly_measured
    for fresh in (False, True):
        assert set(m.obtain("random", fresh=fresh).parts) == {"importance", "random"}
    assert (m.measured, other.measured) == (["random"] * 2, ["importance"])
    second = threading.Thread(target=other.obtain, args=("b",))

    def slowly_summarised(outcomes, runs):  # between reading the result again and saving it
        second.start()
        second.join(2)
        return summarise(outcomes, runs)

    m.measure, m.summarise = measure, slowly_summarised
    m.obtain("a")
    second.join()
    stored = load(Key("noted", "synthetic", "tiny"), elsewhere / "results" / "smoke")
    assert set(stored.parts) == set(stored.values) == {"a", "b", "importance", "random"}


# --- fewer texts ------------------------------------------------------------------------------------


def seeds_of(result):
    return {run["seed"] for part in result.parts.values() for run in part.runs}


def test_fewer_texts_are_measured_on_the_first_training_alone(smoke):
    announced, few = [], load_profile("smoke", n_examples=20)
    for name, left_out in (("figure3b", ["seed 2"]), ("figure1b", [])):
        result = measurements.get(name, few, fresh=True, announce=announced.append)
        assert seeds_of(result) == {1} and result.n_examples == 20
        assert {*announced[-1].parts} == {*result.parts}  # all, before the first was measured
        assert announced[-1].left_out == left_out
        if name == "figure3b":  # choices are made on as many training sentences
            assert result.parts["oracle leak-free"].raw["train_correct"].shape[1] == 20
    fewer = load_profile("smoke", translation_model="pre-norm", n_verses=12, n_headline=12)
    asked = measurements.get("figure6d", fewer, parts=["importance training 6"])
    assert seeds_of(asked) == {6}  # a training that is asked for by name


# --- the weights that a result was measured on ------------------------------------------------------


@pytest.fixture
def other(smoke, tmp_path, monkeypatch):
    """Puts other weights of the first fine-tuning in place of those that results rest on."""
    wanted = recipe(smoke, smoke.seed)
    path = weights_path(smoke.model, wanted)
    whole = path.read_bytes()
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))

    def put(committed):
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata()
        tensors[min(tensors)] += 1
        name = f"{file_name(smoke.model, wanted)}.safetensors"
        target = tmp_path / "models" / name if committed else path
        target.parent.mkdir(exist_ok=True)
        save_file(tensors, target, metadata=metadata)
        return target

    yield put
    path.write_bytes(whole)


def quietly_got(profile):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return measurements.get("one_head", profile).to_json()


def test_other_weights_in_the_cache_are_told_with_both_hashes(smoke, other):
    first = measurements.get("one_head", smoke)
    assert quietly_got(smoke) == first.to_json()  # weights that fit are not spoken of
    path = other(committed=False)
    (run,) = first.parts["outcomes"].runs
    with pytest.warns(UserWarning, match="part outcomes of one_head/synthetic/tiny") as caught:
        assert measurements.get("one_head", smoke).to_json() == first.to_json()
    (message,) = [str(one.message) for one in caught]
    assert file_sha256(path) in message and run["weights_sha256"] in message
    assert message.endswith("headprune reproduce one_head --profile smoke")


def test_other_committed_weights_are_an_error_until_all_parts_are_measured(
    smoke, other, monkeypatch
):
    every = ["importance", "random", "fisher"]
    measurements.get("one_head", smoke)
    measurements.get("pruning_curve", smoke, parts=every)
    path = other(committed=True)
    with pytest.raises(OtherWeights, match="measured on .* Put the committed file back") as caught:
        measurements.get("one_head", smoke)
    assert str(path) in str(caught.value) and file_sha256(path) in str(caught.value)
    fresh = measurements.get("one_head", smoke, fresh=True)
    assert fresh.parts["outcomes"].runs[0]["weights_sha256"] == file_sha256(path)
    assert measurements.get("one_head", smoke).to_json() == fresh.to_json()
    monkeypatch.setattr(EncoderSubject, "curve", None)  # refused before anything is measured
    with pytest.raises(OtherWeights, match="part fisher of .* --by 'fisher'$"):
        measurements.get("pruning_curve", smoke, parts=["importance"], fresh=True)


def test_nothing_is_trained_or_missed_where_no_weights_are(smoke, tmp_path, monkeypatch):
    first = measurements.get("one_head", smoke).to_json()
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    assert quietly_got(smoke) == first and not list(tmp_path.rglob("*.safetensors"))
