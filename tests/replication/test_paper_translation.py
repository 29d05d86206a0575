"""The translation half of profile ``paper``: its own code and commands, with tiny models and text."""

import json
from importlib.util import find_spec
from pathlib import Path

import hub
import pytest
import translated
from processes import python

from headprune_lib.replication import store
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.paths import project_root

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(find_spec("fairseq") is None, reason="fairseq is not installed"),
]
IWSLT = "iwslt14-deen"
SMALLER = [  # sizes alone
    "--set", "fairseq.iwslt14-deen.pre-norm={epochs: 3, pieces: 60, options: [--encoder-layers=2,"
    " --decoder-layers=2, --encoder-embed-dim=32, --decoder-embed-dim=32,"
    " --encoder-ffn-embed-dim=48, --decoder-ffn-embed-dim=48, --encoder-attention-heads=4,"
    " --decoder-attention-heads=4, --max-tokens=400, --warmup-updates=10, --lr=5e-3,"
    " --dropout=0.0]}",
]  # fmt: skip
CHECKPOINTS = ["--set", "checkpoints.pre-norm={epochs: [1, 3], random_orders: 2}"]
COMMANDS = """
import json, sys
from headprune_lib.cli.app import app
import headprune_lib.cli, headprune_lib.replication.cli
for words in json.loads(sys.argv[1]):
    try:
        app(words, standalone_mode=False)
    except SystemExit as end:
        sys.exit(f"{words}: {end.code}")
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Everything the commands fetch, on a server, and the folders they write to."""
    folder = tmp_path_factory.mktemp("world")
    served = folder / "served" / "models" / "fair" / "archives"
    (folder / "wmt").mkdir()
    translated.pack_wmt(served / translated.WMT, translated.train_wmt(folder / "wmt"))
    translated.write_talks(served / "de-en.tgz")
    translated.write_news(folder / "sacrebleu")
    with hub.serving(folder / "served") as server:
        server.root = folder
        yield server


def headprune(server, *commands: list[str]) -> str:
    """Runs commands one after the other in a process of their own; gives what they print."""
    places = {"SACREBLEU": "sacrebleu", "HEADPRUNE_CACHE": "cache", "HEADPRUNE_RESULTS": "results"}
    own = {name: str(server.root / place) for name, place in places.items()}
    own |= {"PYTHONPATH": str(project_root()), "PYTHONWARNINGS": "ignore"}
    own["HEADPRUNE_MIRROR"] = f"{server.address}/fair/archives/resolve/main"
    return python(COMMANDS, json.dumps(commands), without="HEADPRUNE", **own).stdout


def reproduce(*names: str, more=()) -> list[list[str]]:
    return [["reproduce", name, "--profile", "paper", "--device", "cpu", *more] for name in names]


def stored(root: Path, measurement: str) -> store.Result:
    (key,) = store.find(measurement, root)
    return store.load(key, root)


def test_the_wmt_half_runs_by_its_commands_and_is_stored(world):
    artifacts = {
        "figure1a": "one_head",
        "table2": "all_but_one",
        "table5": "best_heads",
        "figure2a": "across_domains",
        "figure3a": "pruning_curve",
        "figure4": "pruning_by_kind",
    }
    lines = headprune(world, *reproduce(*artifacts)).splitlines()
    told = [line for line in lines if ", measured in " in line]
    assert [line.split(":")[0] for line in told] == list(artifacts)
    assert "of Moses' tokens" in told[0] and "as sacrebleu takes it" in told[0]
    root, archive = world.root / "results", world.root / "cache" / "archives" / "wmt14-enfr"
    results = {name: stored(root, name) for name in artifacts.values()}
    for result in results.values():
        assert evidence.rows_of(result) or result.measurement == "all_but_one", "no claim's"
        assert result.key[1:] == ("wmt14-enfr", "post-norm")
        runs = [run for part in result.parts.values() for run in part.runs]
        assert {run["weights_sha256"] for run in runs} == {file_sha256(archive / "model.pt")}
    one_head, curve = results["one_head"], results["pruning_curve"]
    assert one_head.n_examples == curve.n_examples == translated.NEWS["wmt13"][2]
    baseline = one_head.values["baseline"]
    assert baseline["bleu"] > 20 and 0 < baseline["sacrebleu"] != baseline["bleu"]
    best = results["best_heads"]
    assert best.dataset == "wmt14-enfr/valid"
    assert best.n_examples == translated.NEWS["wmt14/full"][2]
    assert results["across_domains"].dataset == "mtnt-enfr/test"
    importance = curve.values["curves"]["importance"]
    assert importance["mean"][0] == pytest.approx(baseline["bleu"], abs=1e-3)
    assert importance["sacrebleu"][0] == pytest.approx(baseline["sacrebleu"], abs=1e-3)
    assert sum(path.endswith(translated.WMT) for path in world.asked) == 1, "fetched once"


def test_the_iwslt_half_is_trained_by_fairseq_and_measured(world):
    commands = reproduce("figure5", more=SMALLER + CHECKPOINTS) + reproduce(
        "figure6d", more=SMALLER
    )
    told = headprune(world, *commands).splitlines()
    names = [line.split(":")[0] for line in told if line.startswith("figure")]
    assert names == ["figure5", "figure6d"]
    results = []
    for name in ("along_training", "pruning_curve"):  # of settings of their own: a folder each
        (folder,) = (world.root / "cache" / "results").glob(f"*/{name}")
        results.append(stored(folder.parent, name))
    along, curve = results
    assert all(map(evidence.rows_of, (along, curve))), "pages judge both"
    assert [training["seed"] for training in along.values["trainings"]] == [1, 2, 3]
    for training in along.values["trainings"]:
        first, last = training["checkpoints"]
        assert (first["epoch"], last["epoch"]) == (1, 3) and 3 * first["updates"] == last["updates"]
        assert last["loss"][0] < first["loss"][0] and len(last["sacrebleu"]) == 11
    assert (curve.task, curve.model, curve.n_examples) == (IWSLT, "pre-norm", 20)
    for seed in (1, 2, 3):
        folder = world.root / "cache" / "training" / f"{IWSLT}.pre-norm-seed{seed}"
        run = curve.parts["importance" if seed == 1 else f"importance training {seed}"].runs[0]
        assert run["weights_sha256"] == file_sha256(folder / "epoch-3" / "model.safetensors")
