"""Small models that fairseq itself trains, once a session."""

from importlib.util import find_spec

import pytest
from fairseqmodels import SHAPES, run, train_shape
from translated import pairs


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """Made-up sentences, and each word of them backwards: source and target files, three splits."""
    folder = tmp_path_factory.mktemp("text")
    for seed, (split, n) in enumerate({"train": 400, "valid": 40, "test": 40}.items()):
        sides = zip(*pairs(n, seed), strict=True)
        for side, lines in zip(("xx", "yy"), sides, strict=True):
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture(scope="session")
def prepared(text):
    if find_spec("fairseq") is None:
        pytest.skip("fairseq is not installed")

    def prepare(joined):
        folder = text / ("joined" if joined else "apart")
        if not folder.exists():
            words = ["-s", "xx", "-t", "yy", "--workers", 1, "--destdir", folder]
            for split in ("train", "valid", "test"):
                words += [f"--{split}pref", text / split]
            run("fairseq_cli.preprocess", *words, *["--joined-dictionary"] * joined)
        return folder

    return prepare


@pytest.fixture(scope="session", params=[name for name in SHAPES if "one side" not in name])
def trained(request, prepared, tmp_path_factory):
    """Prepared data and a checkpoint, of each shape in turn."""
    return train_shape(request.param, prepared, tmp_path_factory)
