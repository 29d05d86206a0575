"""The wheel as a user gets it, outside of any checkout."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from processes import python

ROOT = Path(__file__).parents[1]
BUILT_FROM = ("headprune_lib", "pyproject.toml", "setup.py", "README.md", "LICENSE")
# Not installed by `pip install .`; transformers requires yaml, and typer pydantic.
MISSING = (
    *("accelerate", "datasets", "matplotlib", "nbformat", "pandas", "papermill", "peft"),
    *("sacrebleu", "scipy", "seaborn", "sentencepiece", "statsmodels"),
)

pytestmark = pytest.mark.nightly


def pip(command, *words):
    words = [command, "--quiet", "--no-deps", "--no-index", *map(str, words)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in BUILT_FROM:  # a copy: building leaves folders behind
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    pip("wheel", "--no-build-isolation", "--wheel-dir", folder, source)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory):
    """Run Python with the wheel's library in place of the checkout's, in a folder of its own."""
    target, here = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("here")
    pip("install", "--target", target, wheel)
    own = {"PYTHONPATH": str(target), "HOME": str(here), "HF_HUB_OFFLINE": "1"}
    outer = ("HEADPRUNE_", "PYTHON")
    start = f"""
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop().split()))
import headprune_lib
assert headprune_lib.__file__.startswith({str(target)!r}), headprune_lib.__file__
"""

    def run(code, *arguments, missing):
        words = (start + code, *arguments, " ".join(missing))
        return python(*words, cwd=here, without=outer, **own).stdout

    return run


def test_it_holds_the_library_and_its_own_files_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"headprune_lib"}
    assert "headprune_lib/py.typed" in names
    for name in ("profiles/default", "data/classification", "claims/claims", "gpu"):
        assert f"headprune_lib/replication/{name}.yml" in names
    assert "headprune_lib/cli/report.html.jinja" in names


COMMAND = "from headprune_lib.cli import main; main()"
WHOLE_WAY = """
import torch, transformers
from headprune_lib import head_importance, load_pruned, prune_heads, prune_mask, save_pruned

torch.manual_seed(0)
config = transformers.BertConfig(vocab_size=30, max_position_embeddings=24, hidden_size=16,
                                 num_attention_heads=4, num_hidden_layers=3, intermediate_size=24)
model = transformers.BertForSequenceClassification(config).eval()
ids = torch.randint(3, 30, (6, 8))
batch = {"input_ids": ids, "labels": torch.tensor([0, 1, 0, 1, 0, 1])}
mask = prune_mask(model, head_importance(model, [batch]), 0.5)
prune_heads(model, mask)
save_pruned(model, "pruned")
again = load_pruned("pruned")
assert torch.equal(model(ids).logits, again(ids).logits)
assert headprune_lib.__version__
print(sum(int(part.sum()) for part in mask.values()))
"""


def test_the_library_works_wholly_without_the_replications_packages(run):
    assert run(WHOLE_WAY, missing=(*MISSING, "pydantic", "typer")) == "6\n"
    assert "self" in run(COMMAND, "inspect", "pruned", missing=MISSING)
