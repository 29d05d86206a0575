"""A stored result is used with the weights that it was measured on, or something is said."""

import warnings

import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from headprune_lib.replication import measurements, weights
from headprune_lib.replication.encoder.recipe import file_name, recipe
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.encoder.weights import weights_path
from headprune_lib.replication.measurements.trained import OtherWeights, sha256_of, weights_at_hand
from headprune_lib.replication.translation.subject import TranslationSubject
from headprune_lib.replication.translation.training import training_folder
from headprune_lib.replication.translation.weights import FINAL

SEED = {"seed": 1}


def changed(source, target):
    """The file of weights ``source`` as another training would have left it, at ``target``."""
    with safe_open(source, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    name = min(tensors)
    tensors[name] = tensors[name] + 1
    target.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, target, metadata=metadata)
    return target


@pytest.fixture
def other(smoke, tmp_path, monkeypatch):
    """Puts other weights of the first fine-tuning in place of those that results rest on."""
    path = weights_path(smoke.model, recipe(smoke, smoke.seed))
    whole = path.read_bytes()
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path / "models"))

    def put(committed):
        if not committed:
            return changed(path, path)
        name = f"{file_name(smoke.model, recipe(smoke, smoke.seed))}.safetensors"
        return changed(path, tmp_path / "models" / name)

    yield put
    path.write_bytes(whole)
    monkeypatch.undo()
    measurements.get("one_head", smoke, fresh=True)


def test_weights_that_fit_are_not_spoken_of(smoke):
    first = measurements.get("one_head", smoke)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measurements.get("one_head", smoke).to_json() == first.to_json()


def test_other_weights_in_the_cache_are_told_with_both_hashes(smoke, other):
    first = measurements.get("one_head", smoke)
    path = other(committed=False)
    (run,) = first.parts["outcomes"].runs
    with pytest.warns(UserWarning, match="part outcomes of one_head/synthetic/tiny") as caught:
        assert measurements.get("one_head", smoke).to_json() == first.to_json()
    (message,) = [str(one.message) for one in caught]
    assert sha256_of(path) in message and run["weights_sha256"] in message
    assert message.endswith("headprune reproduce one_head --profile smoke")


def test_other_committed_weights_are_an_error_until_they_are_measured(smoke, other):
    measurements.get("one_head", smoke)
    path = other(committed=True)
    with pytest.raises(OtherWeights, match="measured on .* put the committed file back") as caught:
        measurements.get("one_head", smoke)
    assert str(path) in str(caught.value) and sha256_of(path) in str(caught.value)
    fresh = measurements.get("one_head", smoke, fresh=True)
    assert fresh.parts["outcomes"].runs[0]["weights_sha256"] == sha256_of(path)
    assert measurements.get("one_head", smoke).to_json() == fresh.to_json()


def test_parts_measured_on_other_weights_do_not_stay_beside_new_ones(smoke, other, monkeypatch):
    task = smoke.on("synthetic-words")
    path = weights_path(task.model, recipe(task, task.seed))
    every = ["importance", "random", "fisher"]
    measurements.get("pruning_curve", task, parts=every)
    whole = path.read_bytes()
    name = f"{file_name(task.model, recipe(task, task.seed))}.safetensors"
    changed(path, other(committed=True).with_name(name))
    monkeypatch.setattr(EncoderSubject, "curve", None)  # refused before anything is measured
    again = "part fisher of .* --by 'importance' --by 'random' --by 'fisher'$"
    for parts in (["importance"], None):
        with pytest.raises(OtherWeights, match=again):
            measurements.get("pruning_curve", task, parts=parts, fresh=True)
    with pytest.raises(TypeError):  # measured now
        measurements.get("pruning_curve", task, parts=every, fresh=True)
    assert path.read_bytes() == whole


def test_nothing_is_trained_or_missed_where_no_weights_are(smoke, tmp_path, monkeypatch):
    one, pairs = measurements.get("one_head", smoke), measurements.get("table1", smoke)
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    for half, task in (("encoder", smoke.task), ("translation", smoke.translation_task)):
        assert weights_at_hand(half, smoke, task, SEED) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measurements.get("one_head", smoke).to_json() == one.to_json()
        assert measurements.get("table1", smoke).to_json() == pairs.to_json()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_translator_is_known_by_its_final_weights_or_by_an_epoch(smoke):
    task, folder = smoke.translation_task, training_folder(smoke.translation_task, 1)
    final = TranslationSubject.of(smoke, task)
    assert weights_at_hand("translation", smoke, task, final.run) == folder / FINAL
    early = TranslationSubject.of(smoke, task, epoch=2)
    assert early.run["epoch"] == 2
    path = weights_at_hand("translation", smoke, task, early.run)
    assert sha256_of(path) == early.run["weights_sha256"] != final.run["weights_sha256"]
    assert weights_at_hand("translation", smoke, task, {"seed": 1, "epoch": 99}) is None


def test_a_file_is_hashed_once_until_it_changes(tmp_path, monkeypatch):
    path, read = tmp_path / "weights", []
    path.write_bytes(b"one")
    monkeypatch.setattr(weights, "file_sha256", lambda path: read.append(path) or str(len(read)))
    assert sha256_of(path) == sha256_of(path) == "1"
    path.write_bytes(b"three")
    assert sha256_of(path) == "2" and len(read) == 2
