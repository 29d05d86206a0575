"""The ``headprune`` command: what it writes where, and how it refuses."""

import dataclasses
import json
import re
import shlex
from pathlib import Path

import nbformat
import pytest
from ownmodels import run as headprune

from headprune_lib.replication import measurements, store
from headprune_lib.replication.cli import results, training
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.models import encoders as weights
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store import Part, Result

PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


@pytest.fixture
def notebook(tmp_path, monkeypatch) -> Path:
    shows = "import os, sys\nprint('50%', file=sys.stderr)\nprint(os.path.expanduser('~/x'), 1 / n)"
    cells = [
        nbformat.v4.new_code_cell("n = 2\nfresh = False", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(shows),
    ]
    (tmp_path / "there").mkdir()
    path = tmp_path / "there" / "small.ipynb"
    for file, held in ((path, cells), (path.with_name("bare.ipynb"), cells[1:])):
        nbformat.write(nbformat.v4.new_notebook(cells=held, metadata=PYTHON), file)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return path


def printed(path: Path) -> str:
    (output,) = nbformat.read(path, as_version=4).cells[-1].outputs  # what went wrong is not kept
    home, _, number = output.text.partition(" ")
    assert home == "~/x"  # of nobody's machine
    return number


@pytest.mark.slow
def test_run_writes_in_place_or_beside_where_a_parameter_changes(notebook):
    result = headprune("run", str(notebook.with_suffix("")), "-p", "fresh", "True")
    assert result.exit_code == 0 and str(notebook) in result.stdout, result.output
    assert printed(notebook) == "0.5\n" and not list(Path.cwd().iterdir())
    before = notebook.read_bytes()
    assert headprune("run", str(notebook)).exit_code == 0
    assert notebook.read_bytes() == before and b"papermill" not in before
    result = headprune("run", str(notebook), "-p", "n", "4", "-p", "fresh", "True")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("small-run.ipynb")
    assert printed(Path("small-run.ipynb")) == "0.25\n"
    assert "parameters of your own: <code>n = 4" in Path("small-run.html").read_text()
    result = headprune("run", str(notebook), "-p", "n", "-8")
    assert result.stdout.startswith("small-2-run.ipynb"), "another run has another name"
    assert printed(Path("small-2-run.ipynb")) == "-0.125\n"
    assert notebook.read_bytes() == before
    result = headprune("run", str(notebook), "-p", "n", "0", "--output", str(notebook))
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr and "was not written" in result.stderr
    assert notebook.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["NOTEBOOK", "-p", "m", "1"], "unknown parameter of small.ipynb 'm'"),
        (["NOTEBOOK", "--output", "nowhere/x.ipynb"], "no folder"),
        (["NOTEBOOK", "--output", "x.html"], "or a name that ends in .ipynb"),
        (["../there/bare.ipynb", "-p", "n", "1"], "bare.ipynb has no cell tagged 'parameters'"),
        (["there/smal"], "unknown notebook 'smal'"),
        (["01", "-p", "task", "reviws"], "unknown task 'reviws': did you mean reviews"),
        (["01", "-p", "n_verses", "many"], "n_verses is 'many'. Give a valid integer\n"),
        (["01_one_head", "-p", "profile", "smok"], "unknown profile 'smok': did you mean smoke"),
        (["01", "-p", "fresh", "2"], "fresh is 2. Give True or False"),
        (["01", "-p", "device", "cuda:99"], "cuda:99"),
        (["01", "-p", "seed", "5x"], "seed is '5x'. Give a whole number"),
    ],
)
def test_what_a_notebook_cannot_be_run_with_is_refused(notebook, arguments, message):
    before = notebook.read_bytes()
    words = [str(notebook) if word == "NOTEBOOK" else word for word in arguments]
    result = headprune("run", *words)
    assert result.exit_code == 2 and message in result.stderr
    assert "Traceback" not in result.output
    assert notebook.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reproduce figure1", "unknown artifact 'figure1': did you mean"),
        ("reproduce all --task sst2", "all does not take --task"),
        ("train synthetic --profile smoke --publish", "for translation models"),
        ("reproduce language_heads --model smollm", "did you mean smollm2"),
        ("verify one_head --model ./my-checkpoint", "no folder ./my-checkpoint. Give one that"),
        ("reproduce table1 --model ./my-marian", "no folder ./my-marian. Give one that"),
        ("train deen --model prenorm", "of deen 'prenorm': did you mean pre-norm"),
        ("reproduce figure1b --n-examples 5 --set n_examples=6", "given twice"),
        ("reproduce figure1b --set steps=[", "Give NAME=VALUE"),
        ("reproduce figure1b --set stepps=3", "unknown parameter 'stepps': did you mean"),
        ("reproduce figure1b --set steps=0", "steps is 0. Give at least 1"),
        ("reproduce figure3b --n-examples 1", "n_examples is 1. Give at least 2"),
        ("reproduce figure1b --by 'training 1'", "training 1 is none of the further trainings"),
        ("reproduce figure1b --by 'training 99'", "training 99 is none of the further trainings"),
        ("reproduce table1 --by 'training 1'", "training 1 is the first one of enfr"),
        ("reproduce language_curve --by 'importance training 2'", "has no training 2"),
        ("verify one_head/reviews.minilm --task sst2", "Leave out --task"),
        ("train enfr --data .", "enfr has text of its own. Leave out --data"),
        ("reproduce figure1b --workers 0", "'--workers': Input should be greater than or equal"),
        ("reproduce figure1b --workers 1 --scheduler tcp://x:1", "--scheduler both given"),
        ("reproduce table1 --n-examples 5", "does not depend on --n-examples"),
        *(
            (f"reproduce {words} --set {name}={value}", f"does not depend on --set {name}")
            for words, name, value in [
                ("figure1b", "steps", 7),
                ("table1", "n_scoring", 7),
                ("figure3b --profile smoke --by importance", "random_orders", 3),
                ("figure5 --profile smoke", "checkpoints.pre-norm.every", 2),
            ]
        ),
        *(
            (f"reproduce figure1b --set {name}=x", f"{name} is no value to set. Choose a profile")
            for name in ("name", "given", "folder", "main_task")
        ),
        ("reproduce table1 --n-verses -3 --set steps=0", "steps is 0. Give at least 1. n_verses"),
        ("reproduce figure1b --set n_examples=2.5", "n_examples is 2.5. Give a valid integer"),
        ("reproduce figure1b --set finetuning.epohcs=3", "parameter of finetuning 'epohcs': did"),
        ("reproduce figure1b --set finetuning.learning_rate=fast", "learning_rate is 'fast'. Give"),
        (
            "reproduce figure1a --set translation.enfr.post-norm.shape.layers=1.5",
            "enfr.post-norm.shape.layers is 1.5. Give a valid integer",
        ),
        ("reproduce figure1a --set translation.enfr.deep={}", "enfr.deep.shape is missing"),
        ("reproduce table4 --set speed.shape=tyni", "unknown shape 'tyni': did you mean tiny"),
        ("reproduce table4 --set speed.share=-1", "speed.share is -1. Give at least 0"),
        ("reproduce table4 --set speed.share=1.5", "speed.share is 1.5. Give at most 1"),
        ("reproduce figure1b --set seeds=[]", "seeds is []. Give one at least"),
        ("reproduce figure3b --set seeds=[1,1]", "seeds is [1, 1]. Give each of them once"),
        ("reproduce table4 --set speed.batch_sizes=[]", "speed.batch_sizes is []. Give one"),
        ("reproduce figure1b --set finetuning.warmup=2", "finetuning.warmup is 2. Give at most 1"),
        ("reproduce figure1b --device cdua", "unknown device 'cdua': did you mean cuda"),
        ("train --device meta", "no device 'meta' here"),
        ("reproduce figure1b --seed -1", "seed is -1. Give a whole number"),
        ("plan --data nowhere", "nowhere to read text from. Give another, or hub"),
        ("reproduce table4 --scheduler no.json", "no scheduler file no.json"),
        ("bench --output pyproject.toml/b.json", "pyproject.toml cannot be written to"),
        ("gpu --device cpu --out pyproject.toml/x", "pyproject.toml/x cannot be written to"),
        ("reproduce figure2b --profile smoke --task synthetic-words", "no text of another domain"),
        (
            "reproduce figure3b --profile smoke --by 'oracle training 2' --set further_seeds=[2]"
            " --set seeds=[1]",
            "Ask for 'oracle leak-free'",
        ),
        *(
            (f"reproduce {name} --profile smoke --by {part!r}", message)
            for name, part, message in [
                ("figure1b", "xyzzy", "'xyzzy' is not a training. Give a name such as"),
                ("figure3b", "importence", "did you mean importance"),
                ("figure3b", "fisher low", "'fisher low' has low, which fisher does not take"),
                ("figure3b", "importance-entropy alpha=2", "Give alpha=0 to alpha=1"),
                ("figure3b", "importance twice", "unknown order 'importance twice'"),
                ("figure3b", "importance tuned", "have the word tuned, which fits gates"),
                ("language_recovery", "xyzzy", "Give a name such as 'removed 30%'"),
                ("figure4", "enc importance", "Begin with enc-enc, enc-dec, dec-dec"),
                ("table5", "training 77", "training 77 is not one of the profile's"),
                ("figure3b", "random training 7", "training 7 is not one of the further trainings"),
                ("figure5", "importance", "'importance' is not a training"),
                ("stability", "importance rescored", "is scored again at each step"),
            ]
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_computed(line, message, elsewhere):
    result = headprune(*shlex.split(line))
    assert result.exit_code == 2 and message in result.output
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(
    "line",
    [
        "figure3b --set steps=7",
        "figure1b --set batch_size=7 --set finetuning.epochs=2",
        "figure1b --set steps=10",  # the profile's own
        "figure6b --set stand_ins.cola=synthetic-pairs",
        pytest.param("figure5 --set checkpoints.post-norm.shares=[0.3]", marks=pytest.mark.slow),
        "language_curve --set language.batch_size=7 --set language.shares=[0.5]",
        "table4 --set speed.repetitions=2",
    ],
)
def test_values_that_matter_are_taken(line, elsewhere):
    result = headprune("reproduce", "--profile", "smoke", "--dry-run", *shlex.split(line))
    assert result.exit_code == 0 and " would be stored in " in result.stdout, result.output


@pytest.fixture
def own_results(smoke, tmp_path, monkeypatch):
    """A test's own folder of results of profile ``smoke``."""
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path))
    return results_folder(smoke)


def test_a_flipped_byte_in_stored_outcomes_is_named_and_measured_again(own_results):
    words = ["reproduce", "figure3b", "--profile", "smoke", "--stored"]
    told = headprune(*words)
    assert told.exit_code == 0, told.output
    path = own_results / "pruning_curve" / "synthetic.tiny.random.npz"
    whole = path.read_bytes()
    content = bytearray(whole)
    content[len(whole) // 2] ^= 1
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"random.npz is damaged .* set aside as .*damaged-"):
        again = headprune(*words)
    assert again.exit_code == 0 and path.read_bytes() == whole
    numbers = here(told.stdout.splitlines())
    assert numbers and {*numbers} <= {*again.stdout.splitlines()}


@pytest.mark.parametrize(
    ("stopped", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "cannot be written (No space left on device)", "x.npz"), 2, "x.npz"),
        (None, 2, "/results/smoke/one_head cannot be written to (Not a directory)"),
    ],
)
def test_what_stops_a_measurement_is_told_in_one_line(stopped, code, told, elsewhere, monkeypatch):
    def stop(*_, **__):
        raise stopped

    if stopped is None:
        (elsewhere / "results").touch()
    else:
        monkeypatch.setattr(measurements, "get", stop)
    result = headprune("reproduce", "figure1b", "--profile", "smoke")
    assert result.exit_code == code and told in result.stderr and "Traceback" not in result.output
    assert stopped is None or f"is kept in {elsewhere}/cache. To continue, run: " in result.stderr
    assert not (elsewhere / "cache").exists()


@pytest.mark.slow
def test_steps_for_a_gpu_are_skipped_or_copied_and_found_again_and_fail_alone(
    smoke, tmp_path, monkeypatch
):
    def ran(*words):
        done = headprune("gpu", "--profile", "smoke", "--out", str(tmp_path), *words)
        told = json.loads((tmp_path / "gpu.json").read_text())
        return done.exit_code, [step["state"] for step in told["steps"]], told["check"]

    code, states, checked = ran("--device", "cpu", "--minutes", "0")
    assert (code, states) == (0, ["skipped"] * 4) and checked["agrees"]
    assert checked["apart"]["float32 eager"] == 0 < checked["apart"]["bfloat16 sdpa"] < 0.1
    broken = dataclasses.replace(measurements.MEASUREMENTS["speed"], measure=lambda *_: 1 / 0)
    monkeypatch.setitem(measurements.MEASUREMENTS, "speed", broken)
    assert ran("--device", "cpu")[:2] == (1, ["failed"] + ["measured"] * 3)
    copied = {path: path.read_bytes() for path in tmp_path.glob("*/*/**/*.*")}
    parts = json.loads((tmp_path / "smoke/one_head/synthetic.tiny.json").read_text())["parts"]
    seeds = {name: part["runs"][0]["seed"] for name, part in parts.items()}
    assert seeds == {"outcomes": 1, "training 2": 2}
    assert ran("--device", "cpu")[:2] == (1, ["failed"] + ["stored"] * 3)
    assert {path: path.read_bytes() for path in copied} == copied


def here(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("  here ")]


def test_numbers_of_two_trainings_are_told_apart(own_results):
    for artifact in ("table6", "figure1b"):
        words = ("reproduce", artifact, "--profile", "smoke")
        (alone,) = here(headprune(*words).stdout.splitlines())
        first, second = here(headprune(*words, "--by", "training 2").stdout.splitlines())
        assert first.replace(", training 1:", ":") == alone and ", training 2:" in second
        assert second.partition(": ")[2] != first.partition(": ")[2]
    path = own_results / "one_head" / "synthetic.tiny.json"
    result = store.load(store.Key.at(path), own_results)
    further = result.values["further"]
    parts = {"training 2": result.parts["training 2"]}
    only = dataclasses.replace(result, values={"further": further}, parts=parts)
    assert here(results.compared(only, path)) == [second]
    three = {**result.values, "further": {**further, "training 3": result.values}}
    (mean,) = here(results.compared(dataclasses.replace(result, values=three), path))
    assert "in the mean over 3 trainings" in mean and "training 1" not in mean


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("figure3b --by entropy", r"entropy: accuracy 0\.\d+ with all heads, 0\.\d+ without 10%, "),
        ("language_curve --by entropy", r"entropy: perplexity \d+\.\d with all heads, .*out 100%"),
        ("head_roles", "no number that a claim is judged by: see the file"),
    ],
)
@pytest.mark.usefixtures("own_results")
def test_a_result_that_no_claim_rests_on_says_its_scores(line, wanted):
    done = headprune("reproduce", "--profile", "smoke", *shlex.split(line))
    assert re.search(rf"^  here       {wanted}", done.stdout, re.MULTILINE), done.output


@pytest.mark.usefixtures("own_results")
def test_effects_that_are_all_alike_leave_the_scores_of_each_domain(smoke):
    result = measurements.get("figure2b", smoke)
    undefined = {"r": None, "interval": [None, None], "p": None}
    agreement = {"pearson": undefined, "spearman": undefined, "within": undefined}
    agreement |= {"left_out": [None, None], "reliability": [None, None], "ceiling": None}
    both = {domain: {"loss": agreement, "accuracy": agreement} for domain in ("a", "b")}
    one_class = dataclasses.replace(result, values={**result.values, "correlations": both})
    told = here(results.compared(one_class, measurements.where("figure2b", smoke)))
    assert [line.rpartition(" ")[0].split("  ")[-1].strip() for line in told] == [
        *("synthetic, accuracy", "synthetic, log_loss"),
        *("synthetic-far, accuracy", "synthetic-far, log_loss"),
    ]


OF_ALL_KINDS = {"n_examples": 20, "n_verses": 5, "n_headline": 5, "seed": 5, "translation_seed": 4}
CHECKPOINTS = {"translation_model": "pre-norm", "checkpoints": {"pre-norm": {"every": 2}}}
WORDS = {"task": "synthetic-words", "finetuning": {"learning_rate": 1e-5, "epochs": 2}}


@pytest.mark.parametrize(
    ("artifact", "parts", "given", "command"),
    [
        ("figure1b", None, OF_ALL_KINDS, "one_head --profile smoke --n-examples 20 --seed 5"),
        ("table1", None, OF_ALL_KINDS, "one_head --profile smoke --task toy --n-verses 5 --seed 4"),
        (
            *("figure5", ["training 6"], CHECKPOINTS),
            "along_training --profile smoke --task toy --model pre-norm --by 'training 6' "
            "--set checkpoints.pre-norm.every=2",
        ),
        (
            *("figure1b", None, WORDS),
            "one_head --profile smoke --task synthetic-words "
            "--set finetuning.learning_rate=1.0e-05 --set finetuning.epochs=2",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_the_command_that_is_noted_asks_for_the_same_again(
    artifact, parts, given, command, monkeypatch
):
    def asked_for(name, profile, task, parts):
        request = measurements.find_artifact(name, profile, task, parts)
        names = parts or request.parts
        signatures = [request.signature(name) for name in names]
        return request.command(), signatures

    told, wanted = asked_for(artifact, load_profile("smoke", **given), None, parts)
    assert told == f"headprune reproduce {command}"
    again = []
    monkeypatch.setattr(
        measurements,
        "get",
        lambda name, profile, *, task, parts, **_: (
            again.append(asked_for(name, profile, task, parts)) or some_result()
        ),
    )
    monkeypatch.setattr("headprune_lib.replication.profiles.check_here", lambda _: None)
    result = headprune(*shlex.split(told)[1:])
    assert result.exit_code == 0, result.output
    assert again == [(told, wanted)]


@pytest.mark.parametrize(
    "words", ["one_head --task enfr --seed 1", "agreement --profile smoke --seed 2"]
)
def test_a_number_is_an_option_where_another_one_would_matter(words):
    result = headprune("reproduce", *words.split(), "--dry-run")
    assert result.exit_code == 0, result.output


def test_a_quick_run_notes_no_value_that_it_does_not_depend_on():
    request = measurements.find_artifact(
        "which_first", load_profile("smoke", n_examples=20, speed={"share": 0.3}), None, None
    )
    quick, depends, left_out = request.as_asked()
    assert depends and left_out and quick.profile != request.profile
    assert quick.command() == "headprune reproduce which_first --profile smoke --n-examples 20"
    assert (quick.profile.n_selection, quick.profile.n_domain) == (20, 20)


def some_result():
    part = Part({}, [], {"seconds": 2.0, "date": ""})
    return Result("agreement", "t", "m", "smoke", "t/test", 7, "accuracy", "", {}, "", {"o": part})


# --- tasks of the project as names of models ----------------------------------------------------


def test_a_name_is_a_folder_or_what_is_stored_and_nothing_is_trained(monkeypatch, tmp_path):
    assert "bert-base-uncased" not in training.named_models()
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    monkeypatch.setattr(weights, "models_root", lambda: tmp_path)
    monkeypatch.setattr(weights, "finetune", lambda *_: pytest.fail("trained"))
    result = headprune("inspect", "synthetic")
    assert result.exit_code == 2
    assert (
        "no weights of synthetic are stored here. Run `headprune train synthetic`" in result.stderr
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews").mkdir()
    assert "reviews/config.json is missing" in headprune("inspect", "reviews").stderr


@pytest.mark.slow
def test_the_committed_translator_is_inspected_and_not_scored(tmp_path):
    kinds = {row["kind"] for row in json.loads(headprune("inspect", "enfr", "--json").output)}
    assert kinds == {"enc-enc", "enc-dec", "dec-dec"}
    (rows := tmp_path / "rows.tsv").write_text("source\ttarget\nthe sea\tla mer\n")
    result = headprune("score", "enfr", str(rows))
    assert result.exit_code == 2 and "pieces of its own vocabulary" in result.stderr
