"""The ``headprune`` command: what it writes where, and how it refuses."""

import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import os
import shlex
import shutil
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from headprune_lib.replication import cluster, measurements
from headprune_lib.replication.cli import app
from headprune_lib.replication.measurements.obtaining import command_of, signature
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store import Part, Result

PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def headprune(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def notebook(tmp_path, monkeypatch) -> Path:
    cells = [
        nbformat.v4.new_code_cell("n = 2\nfresh = False", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("print(1 / n)"),
    ]
    (tmp_path / "there").mkdir()
    path = tmp_path / "there" / "small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=PYTHON), path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return path


def printed(path: Path) -> str:
    return nbformat.read(path, as_version=4).cells[-1].outputs[0].text


@pytest.mark.parametrize("parameters", [[], ["-p", "fresh", "True"]])
def test_run_in_place(notebook, parameters):
    result = headprune("run", str(notebook.with_suffix("")), *parameters)
    assert result.exit_code == 0, result.output
    assert str(notebook) in result.stdout
    assert printed(notebook) == "0.5\n"
    assert not list(Path.cwd().iterdir())


@pytest.mark.slow
def test_changed_parameters_leave_the_notebook_alone(notebook):
    before = notebook.read_bytes()
    result = headprune("run", str(notebook), "-p", "n", "4", "-p", "fresh", "True")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("small-run.ipynb")
    assert printed(Path("small-run.ipynb")) == "0.25\n"
    assert notebook.read_bytes() == before


@pytest.mark.slow
def test_output(notebook):
    result = headprune("run", str(notebook), "-p", "n", "-8", "--output", "eight.ipynb")
    assert result.exit_code == 0, result.output
    assert printed(Path("eight.ipynb")) == "-0.125\n"


@pytest.mark.slow
def test_several_notebooks(notebook):
    assert headprune("run", str(notebook), str(notebook)).exit_code == 0
    assert headprune("run", str(notebook), str(notebook), "--output", "x").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "m", "1"], "unknown parameter of small.ipynb 'm'"),
        (["-p", "n"], "-p takes a name and a value, not n"),
        (["--output", "nowhere/x.ipynb"], "no folder"),
    ],
)
def test_refusals(notebook, arguments, message):
    before = notebook.read_bytes()
    result = headprune("run", str(notebook), *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert notebook.read_bytes() == before


@pytest.mark.slow
def test_a_wrong_value_of_a_notebook_is_told_in_a_line(tmp_path, monkeypatch):
    for name in ("RESULTS", "CACHE"):
        monkeypatch.setenv(f"HEADPRUNE_{name}", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    parameters = {"profile": "smoke", "device": "cuda:99", "fresh": "True"}
    words = [word for pair in parameters.items() for word in ("-p", *pair)]
    result = headprune("run", "01_one_head", *words)
    assert result.exit_code == 2
    assert "cuda:99" in result.stderr and "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_no_such_notebook(notebook):
    result = headprune("run", "there/smal")
    assert result.exit_code == 2
    assert "unknown notebook 'smal'" in result.stderr


@pytest.mark.slow
def test_a_failing_notebook(notebook):
    before = notebook.read_bytes()
    result = headprune("run", str(notebook), "-p", "n", "0", "--output", str(notebook))
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr and "was not written" in result.stderr
    assert notebook.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "figure1"], "unknown artifact 'figure1': did you mean"),
        (["reproduce", "figure1b", "--profile", "smok"], "did you mean smoke"),
        (["reproduce", "figure1b", "--task", "reviws"], "did you mean reviews"),
        (["train", "--profile", "bass"], "unknown profile 'bass': did you mean base"),
        (["tune", "reviws"], "unknown task 'reviws': did you mean reviews"),
        (["reproduce", "language_heads", "--model", "smollm"], "did you mean smollm2"),
        (["reproduce", "figure1b", "--set", "device=5"], "device is 5; give a valid string"),
        (["reproduce", "figure1b", "--n-examples", "5", "--set", "n_examples=6"], "given twice"),
        (["reproduce", "figure1b", "--device", "cpu", "--set", "device=cpu"], "given twice"),
        (["train", "enrf"], "unknown task 'enrf': did you mean enfr"),
        (["reproduce", "table1", "--task", "reviews"], "unknown task 'reviews'"),
        (["reproduce", "figure1b", "--task", "enfr"], "unknown task 'enfr'"),
        *(
            ([command, name, "--model", given], f"unknown model {of}{given!r}{near}")
            for command, name, given, of, near in [
                ("reproduce", "one_head", "mpnnet", "", ": did you mean mpnet"),
                ("reproduce", "one_head", "bert", "", ": did you mean bert-base"),
                ("reproduce", "one_head", "pre-norm", "", ""),
                ("reproduce", "table1", "mpnet", "of enfr ", ""),
                ("reproduce", "all", "mpnnet", "", ": did you mean mpnet"),
                ("verify", "one_head", "./my-checkpoint", "", ""),
                ("verify", "figure6d", "prenorm", "of deen ", ": did you mean pre-norm"),
                ("train", "reviews", "mpnnet", "", ": did you mean mpnet"),
                ("train", "deen", "prenorm", "of deen ", ": did you mean pre-norm"),
            ]
        ),
        *(
            (["reproduce", name, "--profile", "smoke", "--by", part], message)
            for name, part, message in [
                ("figure1b", "xyzzy", "one_head has no parts such as 'xyzzy'"),
                ("figure3b", "importence", "did you mean importance"),
                ("which_first", "xyzzy", "unknown order 'xyzzy'"),
                ("language_curve", "entropy rescored", "scored once"),
                ("language_recovery", "xyzzy", "give a name such as 'removed 30%'"),
                ("figure4", "enc importance", "begin with enc-enc, enc-dec, dec-dec"),
                ("figure5", "training 77", "training 77 is none of the profile's"),
                ("figure3a", "importance training 77", "training 77 is none of the profile's"),
                ("table5", "training 77", "training 77 is none of the profile's"),
            ]
        ),
        *(
            (["reproduce", name, "--profile", "smoke", option, "5"], f"does not depend on {option}")
            for name, option in [
                ("table1", "--n-examples"),
                ("figure1b", "--n-verses"),
                ("recipes", "--n-examples"),
                ("language_heads", "--seed"),
            ]
        ),
        (["train", "synthetic", "--profile", "smoke", "--publish"], "for translation models"),
        *(
            ([*words, "--device", device], message)
            for words in (
                ["reproduce", "figure1b"],
                ["verify", "figure1b"],
                ["train"],
                ["tune"],
                ["plan", "smoke"],
            )
            for device, message in [
                ("cdua", "unknown device 'cdua': did you mean cuda"),
                ("meta", "no device 'meta' here"),
            ]
        ),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_cannot_be_is_refused_before_anything_is_computed(
    arguments, message, tmp_path, monkeypatch
):
    for name in ("RESULTS", "CACHE"):
        monkeypatch.setenv(f"HEADPRUNE_{name}", str(tmp_path))
    result = headprune(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not list(tmp_path.iterdir())


def test_reproduce_measures_and_stores(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path / "cache")
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    result = headprune("reproduce", "figure1b", "--profile", "smoke")
    assert result.exit_code == 0, result.output
    assert "figure1b: 48 examples, measured in" in result.output
    assert (tmp_path / "results" / "smoke" / "one_head" / "synthetic.tiny.json").is_file()


@pytest.mark.parametrize(
    ("artifact", "parts", "given", "command"),
    [
        ("figure1b", None, {}, "one_head --profile smoke"),
        (
            "figure1b",
            None,
            {"n_examples": 20, "n_verses": 5, "n_headline": 5, "seed": 5, "translation_seed": 4},
            "one_head --profile smoke --n-examples 20 --seed 5",
        ),
        (
            "table1",
            None,
            {"n_examples": 20, "n_verses": 5, "n_headline": 5, "seed": 5, "translation_seed": 4},
            "one_head --profile smoke --task toy --n-verses 5 --seed 4",
        ),
        ("recipes", None, {"n_examples": 20}, "recipes --profile smoke"),
        (
            "figure5",
            ["training 6"],
            {"translation_model": "pre-norm", "checkpoints": {"pre-norm": {"every": 2}}},
            "along_training --profile smoke --task toy --model pre-norm --by 'training 6' "
            "--set checkpoints.pre-norm.every=2",
        ),
        (
            "figure1b",
            None,
            {"task": "synthetic-words", "finetuning": {"learning_rate": 1e-5, "epochs": 2}},
            "one_head --profile smoke --task synthetic-words "
            "--set finetuning.learning_rate=1.0e-05 --set finetuning.epochs=2",
        ),
        ("one_head", None, {"model": "minilm"}, "one_head --profile smoke --model minilm"),
        (
            "figure1b",
            None,
            {"device": "cuda", "data": "hub"},
            "one_head --profile smoke --data hub --device cuda",
        ),
        ("figure1b", None, {"device": "cpu"}, "one_head --profile smoke"),
    ],
)
def test_the_command_that_is_noted_asks_for_the_same_again(
    artifact, parts, given, command, monkeypatch
):
    def asked_for(name, profile, task, parts):
        measurement, half, profile, task = measurements.find_artifact(name, profile, task, parts)
        names = parts or measurement.parts(profile, half, task)
        signatures = [signature(measurement, half, profile, task, name) for name in names]
        return command_of(measurement, half, profile, task, parts), signatures

    told, wanted = asked_for(artifact, load_profile("smoke", **given), None, parts)
    assert told == f"headprune reproduce {command}"
    again = []
    monkeypatch.setattr(
        measurements,
        "get",
        lambda name, profile, *, task, parts, **_: (
            again.append(asked_for(name, profile, task, parts)) or some_result(name)
        ),
    )
    monkeypatch.setattr("headprune_lib.replication.profiles.check_here", lambda _: None)
    result = headprune(*shlex.split(told)[1:])
    assert result.exit_code == 0, result.output
    assert again == [(told, wanted)]


def some_result(name):
    part = Part({}, [], {"seconds": 2.0, "date": ""})
    return Result(name, "t", "m", "smoke", "t/test", 7, "accuracy", "", {}, "", {"o": part})


@pytest.mark.parametrize(
    "error", [OSError("the disk is full"), RuntimeError("CUDA out of memory"), MemoryError("all")]
)
def test_all_goes_on_past_what_cannot_be_measured_and_ends_with_code_1(monkeypatch, error):
    asked = []

    def get(name, profile, **_):
        asked.append((name, profile.name))
        if name == "table3":
            raise error
        return some_result(name)

    monkeypatch.setattr(measurements, "artifacts", lambda _: ["figure1b", "table3", "table4"])
    monkeypatch.setattr(measurements, "get", get)
    told = headprune("reproduce", "all", "--profile", "smoke")
    assert asked == [(name, "smoke") for name in ("figure1b", "table3", "table4")]
    assert told.exit_code == 1
    assert "figure1b: 7 examples, measured in 2 s" in told.output
    assert f"table3: {error}" in told.output
    assert "not measured: table3; the same command goes on there" in told.output
    assert "no --task" in headprune("reproduce", "all", "--task", "sst2").output


def test_a_profile_for_a_gpu_says_so_where_there_is_none(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for words in (["reproduce", "figure1b"], ["train", "mnli"], ["verify", "figure1b"]):
        told = headprune(*words, "--profile", "paper")
        assert told.exit_code == 2 and "torch finds no GPU here" in told.output


def test_speed_on_a_gpu_is_not_timed_without_one(smoke, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="there is no GPU here: measure it on a machine that has"):
        measurements.get("table4", dataclasses.replace(smoke, device="cuda"), fresh=True)


def test_who_asks_a_scheduler_needs_no_gpu(monkeypatch):
    asked = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(cluster, "at_scheduler", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(
        measurements, "get", lambda name, profile, **_: asked.append(profile) or some_result(name)
    )
    told = headprune("reproduce", "figure1b", "--profile", "paper", "--scheduler", "tcp://a:1")
    assert told.exit_code == 0, told.output
    (profile,) = asked
    assert (profile.device, profile.device_here) == ("cuda", "cpu")


@pytest.mark.parametrize(
    "words",
    [
        ("translate", "enfr", "a", "--beams", "0"),
        ("bench", "--rounds", "0"),
        ("bench", "--n-sentences", "0"),
    ],
)
def test_values_that_cannot_be_are_refused_before_anything_is_done(words):
    result = headprune(*words)
    assert result.exit_code == 2 and "Invalid value" in result.output


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("steps", "give NAME=VALUE"),
        ("=3", "give NAME=VALUE"),
        ("steps=[", "give NAME=VALUE"),
        ("stepps=3", "unknown parameter 'stepps': did you mean steps"),
        ("steps=0", "steps is 0; give at least 1"),
    ],
)
def test_a_value_of_the_profiles_that_is_none_is_refused(given, told):
    result = headprune("reproduce", "figure1b", "--profile", "smoke", "--set", given)
    assert result.exit_code == 2 and told in result.stderr


# --- several commands at once ---------------------------------------------------------------------

ORDERS = (
    "importance",
    "importance unnormalised",
    "importance reversed",
    "random",
    "entropy",
    "magnitude",
    "fisher",
    "confidence",
)


def run_in_a_process(words: list[str], environment: dict[str, str]) -> None:
    os.environ.update(environment)
    app(words)


@pytest.mark.slow
def test_several_commands_at_once_lose_nothing(tmp_path, monkeypatch):
    """Eight orders of one curve, twice: first nothing is trained, then all are measured again."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))  # where processes find this module
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["headprune_lib.replication.measurements", "transformers.trainer"]
    )
    environment = {
        f"HEADPRUNE_{name.upper()}": str(tmp_path / name) for name in ("results", "cache")
    }
    folder = tmp_path / "results" / "smoke" / "pruning_curve"
    for _ in range(2):
        processes = [
            context.Process(
                target=run_in_a_process,
                args=(
                    ["reproduce", "pruning_curve", "--profile", "smoke", "--by", order],
                    environment,
                ),
            )
            for order in ORDERS
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(300)
        assert [process.exitcode for process in processes] == [0] * len(ORDERS)
        stored = json.loads((folder / "synthetic.tiny.json").read_text())
        assert stored["parts"].keys() == {*ORDERS} <= stored["values"]["curves"].keys()
        for name, part in stored["parts"].items():
            content = (folder / f"synthetic.tiny.{name.replace(' ', '-')}.npz").read_bytes()
            assert hashlib.sha256(content).hexdigest() == part["raw_sha256"]
        assert len([*folder.glob("*.npz")]) == len(ORDERS)
        assert not list((tmp_path / "cache" / "journals").glob("*/*"))
