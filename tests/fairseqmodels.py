"""Running fairseq, and the small models that it trains."""

import importlib
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SIZES = [
    f"--{side}-{name}={value}"
    for side in ("encoder", "decoder")
    for name, value in {
        "layers": 2, "embed-dim": 32, "ffn-embed-dim": 48, "attention-heads": 4,
    }.items()
]  # fmt: skip
TRAINING = [
    "--optimizer=adam", "--lr=5e-3", "--lr-scheduler=inverse_sqrt", "--warmup-updates=20",
    "--criterion=label_smoothed_cross_entropy", "--label-smoothing=0.1", "--max-tokens=1000",
    "--max-update=60", "--cpu", "--no-progress-bar", "--seed=1", "--no-epoch-checkpoints",
]  # fmt: skip
_WMT = ["--arch=transformer_vaswani_wmt_en_fr_big", "--share-all-embeddings"]
_IWSLT = ["--arch=transformer_iwslt_de_en"]
_PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before"]
SHAPES = {
    "joined": _WMT,
    "iwslt": [*_IWSLT, "--share-decoder-input-output-embed"],
    "joined, learned positions": [*_WMT, "--encoder-learned-pos", "--decoder-learned-pos"],
    "nothing shared": [*_IWSLT, "--activation-fn=gelu"],
    "pre-norm, nothing shared": [*_IWSLT, *_PRE_NORM],  # as the paper's IWSLT model
    "pre-norm, joined": [*_WMT, *_PRE_NORM],
    "pre-norm on one side": [*_IWSLT, _PRE_NORM[0]],
}


def run(module: str, *arguments: object) -> None:
    """Run a command of fairseq in a forked process, since fairseq takes seconds to import."""
    main = importlib.import_module(module).cli_main
    with tempfile.NamedTemporaryFile() as said:
        told = (main, [module, *map(str, arguments)], said.name)
        process = multiprocessing.get_context("fork").Process(target=_called, args=told)
        process.start()
        process.join()
        assert process.exitcode == 0, Path(said.name).read_text("utf-8")[-3000:]


def _called(main: Callable[[], None], words: list[str], said: str) -> None:
    with open(said, "w") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        sys.argv = words
        main()


def train_shape(name, prepared, tmp_path_factory):
    data, folder = prepared("joined" in name), tmp_path_factory.mktemp("checkpoints")
    run("fairseq_cli.train", data, *SHAPES[name], *SIZES, *TRAINING, "--save-dir", folder)
    return data, folder / "checkpoint_last.pt"
