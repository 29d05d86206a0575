"""Small models that fairseq itself trains, once a session."""

import random
from importlib.util import find_spec

import pytest
from fairseqmodels import SHAPES, run, train_shape


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """Made-up words, and each of them backwards: source and target files, three splits."""
    folder, generator = tmp_path_factory.mktemp("text"), random.Random(0)
    words = [first + second for first in "bdgk" for second in "aeou"]
    for split, n in (("train", 400), ("valid", 40), ("test", 40)):
        rows = [generator.choices(words, k=generator.randint(2, 8)) for _ in range(n)]
        (folder / f"{split}.xx").write_text("".join(f"{' '.join(row)}\n" for row in rows))
        (folder / f"{split}.yy").write_text(
            "".join(f"{' '.join(word[::-1] for word in row)}\n" for row in rows)
        )
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
