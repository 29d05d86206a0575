"""ONNX graphs of the encoder in ONNX Runtime: with all heads, and with half of them removed."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headprune_lib.export import export_onnx
from headprune_lib.replication.bench.compare import Row, compare
from headprune_lib.replication.bench.encoder import half_pruned
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.utils import without_labels


def rows(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Batches of 1 and of 16; graphs of one thread, as the session of the other is idle."""
    subject = EncoderSubject.of(profile)
    models = {"unpruned": copy.deepcopy(subject.model), "pruned": half_pruned(subject)}
    with tempfile.TemporaryDirectory() as folder:
        sessions = {}
        for name, model in models.items():
            written = export_onnx(model, Path(folder) / name).folder
            sessions[name] = _session(written / "model.onnx")
        found = []
        for size in (1, 16):
            sized = dataclasses.replace(profile, batch_size=size)
            batches = dataclasses.replace(subject, profile=sized).batches(
                subject.test.first(n_sentences)
            )
            feeds = [
                {name: value.numpy(force=True) for name, value in without_labels(batch).items()}
                for batch in batches.batches
            ]
            found.append(
                compare(
                    f"ONNX, unpruned, batch {size}",
                    _passes(sessions["unpruned"], feeds),
                    "ONNX, half the heads removed",
                    _passes(sessions["pruned"], feeds),
                    rounds,
                    None,
                    "above 1",
                )
            )
    return found


def _session(graph: Path) -> Any:
    import onnxruntime  # an extra

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def _passes(session: Any, feeds: list[dict]) -> Callable[[], None]:
    wanted = [one.name for one in session.get_inputs()]
    given = [{name: feed[name] for name in wanted} for feed in feeds]

    def run() -> None:
        for feed in given:
            session.run(None, feed)

    return run
