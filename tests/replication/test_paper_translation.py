"""The translation half of profile ``paper``: its own code and commands, with tiny models and text."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import hub
import pytest
import translated

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
    "--set", "checkpoints.pre-norm={epochs: [1, 3], random_orders: 2}",
]  # fmt: skip
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
    folder = server.root
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMANDS, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=False,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("HEADPRUNE")},
            "PYTHONPATH": str(project_root()),
            "SACREBLEU": str(folder / "sacrebleu"),
            "HEADPRUNE_MIRROR": f"{server.address}/fair/archives/resolve/main",
            "HEADPRUNE_CACHE": str(folder / "cache"),
            "HEADPRUNE_RESULTS": str(folder / "results"),
            "OMP_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-2000:]
    return done.stdout


def reproduce(*names: str, more=()) -> list[list[str]]:
    return [["reproduce", name, "--profile", "paper", "--device", "cpu", *more] for name in names]


def stored(root: Path, measurement: str) -> store.Result:
    (found,) = [
        result
        for key in store.find(measurement, root)
        for result in [store.stored(key, root)]
        if result is not None
    ]
    return found


def test_the_wmt_half_runs_by_its_commands_and_is_stored(world):
    names = ["figure1a", "table2", "table5", "figure2a", "figure3a", "figure4"]
    told = headprune(world, *reproduce(*names)).splitlines()
    assert [line.split(":")[0] for line in told] == names
    assert "of Moses' tokens" in told[0] and "as sacrebleu takes it" in told[0]
    root, archive = world.root / "results", world.root / "cache" / "archives" / "wmt14-enfr"
    found = {
        name: stored(root, name)
        for name in ("one_head", "all_but_one", "best_heads", "across_domains", "pruning_curve",
                     "pruning_by_kind")
    }  # fmt: skip
    for result in found.values():
        assert evidence.rows_of(result) or result.measurement == "all_but_one", "no claim's"
        assert result.key[1:] == ("wmt14-enfr", "post-norm")
        runs = [run for part in result.parts.values() for run in part.runs]
        assert {run["weights_sha256"] for run in runs} == {file_sha256(archive / "model.pt")}
        assert (root / result.key[0] / "wmt14-enfr.post-norm.json").is_file()
    news = translated.NEWS
    assert found["one_head"].n_examples == found["pruning_curve"].n_examples == news["wmt13"][2]
    baseline = found["one_head"].values["baseline"]
    assert baseline["bleu"] > 20 and 0 < baseline["sacrebleu"] != baseline["bleu"]
    assert len(found["one_head"].values["heads"]) == 3 * 2 * 4
    best = found["best_heads"]
    assert (best.dataset, best.n_examples) == ("wmt14-enfr/valid", news["wmt14/full"][2])
    assert best.values["n_selection"] == news["wmt13"][2]
    assert found["across_domains"].dataset == "mtnt-enfr/test"
    curve = found["pruning_curve"].values["curves"]["importance"]
    assert curve["mean"][0] == pytest.approx(baseline["bleu"], abs=1e-3)
    assert curve["sacrebleu"][0] == pytest.approx(baseline["sacrebleu"], abs=1e-3)
    assert sum(one.endswith(translated.WMT) for one in world.asked) == 1, "fetched once"


def test_the_iwslt_half_is_trained_by_fairseq_and_measured(world):
    told = headprune(world, *reproduce("figure5", "figure6d", more=SMALLER)).splitlines()
    assert [line.split(":")[0] for line in told if line.startswith("figure")] == [
        "figure5",
        "figure6d",
    ]
    (root,) = (world.root / "cache" / "results").glob("*/along_training")
    figure5 = stored(root.parent, "along_training")
    along = figure5.values
    assert [one["seed"] for one in along["trainings"]] == [1, 2, 3]
    for training in along["trainings"]:
        first, last = training["checkpoints"]
        assert (first["epoch"], last["epoch"]) == (1, 3) and 3 * first["updates"] == last["updates"]
        assert last["loss"][0] < first["loss"][0] and len(last["sacrebleu"]) == 11
    (root,) = (world.root / "cache" / "results").glob("*/pruning_curve")
    curve = stored(root.parent, "pruning_curve")
    assert all(map(evidence.rows_of, (figure5, curve))), "pages judge both"
    assert (curve.task, curve.model, curve.n_examples) == (IWSLT, "pre-norm", 20)
    assert len(curve.values["curves"]["importance"]["runs"]) == 3
    for seed in (1, 2, 3):
        folder = world.root / "cache" / "training" / f"{IWSLT}.pre-norm-seed{seed}"
        kept = sorted(path.name for path in folder.iterdir())
        assert kept == ["curve.json", "epoch-1", "epoch-2", "epoch-3", "recipe.json"]
        run = curve.parts["importance" if seed == 1 else f"importance training {seed}"].runs[0]
        assert run["weights_sha256"] == file_sha256(folder / "epoch-3" / "model.safetensors")
