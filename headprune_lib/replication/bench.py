"""Benchmarks of masking, scoring and removal: medians of ratios in one run, with floors.

One file keeps the last timings of each machine, so that machines can be compared.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headprune_lib.messages import unknown
from headprune_lib.replication.data import Texts
from headprune_lib.replication.lazy import (
    ablation,
    criteria,
    discovery,
    encoders,
    generation,
    losses,
    masking,
    pruning,
    scoring,
    selection,
    setups,
    torch,
    utils,
)
from headprune_lib.replication.measurements.speed import attention_parameters
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import plain
from headprune_lib.replication.store.files import replace_files
from headprune_lib.replication.titles import machine

SCORES_BY = "scores by "
"""Prefix of the name of a row of ``criteria``; the criterion follows."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison. ``ratio`` is the median over rounds of seconds / reference seconds.

    ``floor`` is the ratio that the floating-point operations alone would allow.
    """

    what: str
    reference: str
    seconds: float
    reference_seconds: float
    ratio: float
    quartiles: tuple[float, float]
    floor: float | None
    target: str


def compare(
    what: str,
    function: Callable[[], object],
    reference: str,
    other: Callable[[], object],
    rounds: int,
    *,
    floor: float | None = None,
    target: str = "",
) -> Row:
    """Time two functions alternately, so that a slower moment of the machine hits both.

    Both run once to warm up, then ``rounds`` times; see :class:`Row` for the rest.
    """
    from tqdm import tqdm

    seconds = np.empty((rounds + 1, 2))
    for pair in tqdm(seconds, desc=f"{what} / {reference}", unit="round"):
        pair[:] = _seconds(function), _seconds(other)
    seconds = seconds[1:]
    low, ratio, high = np.quantile(seconds[:, 0] / seconds[:, 1], [0.25, 0.5, 0.75]).tolist()
    return Row(what, reference, *np.median(seconds, 0).tolist(), ratio, (low, high), floor, target)


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def bench(half: str, profile: Profile, *, n_sentences: int = 256, rounds: int = 5) -> list[dict]:
    """Run every comparison of a half, and return dicts of :class:`Row`'s fields.

    ``"criteria"`` in place of a half compares the time of scores, ``"sweeps"`` that of the
    translator's losses under each cut, ``"onnx"`` graphs with all and half of the encoder's heads.

    Raises:
        ValueError: an unknown half.
    """
    if half not in _BENCHES:
        raise ValueError(unknown("half", half, _BENCHES))
    return [dataclasses.asdict(row) for row in _BENCHES[half](profile, n_sentences, rounds)]


def read_runs(path: Path) -> list[dict[str, Any]]:
    """``{"rows": …, "provenance": …}`` of each machine, the latest first; none without a file."""
    if not path.is_file():
        return []
    runs = json.loads(path.read_text("utf-8"))["machines"]
    return sorted(runs, key=lambda run: run["provenance"]["date"], reverse=True)


def store_run(path: Path, rows: list[dict], provenance: dict[str, Any]) -> None:
    """Add a machine's run to a file, in place of the same machine's earlier one."""
    name = machine(provenance["hardware"])
    others = [run for run in read_runs(path) if machine(run["provenance"]["hardware"]) != name]
    content = {"machines": [{"rows": rows, "provenance": provenance}, *others]}
    replace_files({path: (json.dumps(plain(content), indent=1, sort_keys=True) + "\n").encode()})


# --- classifiers -----------------------------------------------------------------------------------


def _encoder(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Time exact I_h, sweeps over all heads, and pruned models."""
    return [
        *_scoring(profile, n_sentences, rounds),
        *_sweeps(profile, max(16, n_sentences // 4), max(1, rounds // 2)),
        *_pruned(profile, n_sentences, rounds),
    ]


def _criteria(profile: Profile, n: int, rounds: int) -> list[Row]:
    """Time scores by every criterion against one forward pass over the same text.

    Scores are taken under the eager kernel, which returns attention weights and has the faster
    backward pass on a CPU; the pass runs under the kernel that is fastest without gradients. A
    greedy search and Shapley values take thousands of passes, so few texts suffice.
    """
    scored, run = (setups.EncoderSubject.of(profile, kernel=kernel) for kernel in ("eager", "sdpa"))
    batches = scored.batches(scored.test.first(n)).batches
    return [
        compare(
            f"{SCORES_BY}{name}",
            partial(scoring.score_heads, scored.model, batches, name),
            "one forward pass",
            partial(utils.pass_seconds, run.model, batches),
            rounds,
        )
        for name in criteria.CRITERIA
        if name != "random"  # reads no text
    ]


def _graphs(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Time graphs in ONNX Runtime with all heads, and with half of them removed.

    Batches have 1 and 16 rows. Sessions have one thread, as that of the other graph is idle.
    """
    from headprune_lib.export import export_onnx

    subject = setups.EncoderSubject.of(profile)
    models = {"unpruned": copy.deepcopy(subject.model), "pruned": half_pruned(subject)}
    with tempfile.TemporaryDirectory() as folder:
        sessions = {
            name: _session(export_onnx(model, Path(folder) / name).folder / "model.onnx")
            for name, model in models.items()
        }
        return [
            compare(
                f"ONNX, unpruned, batch {size}",
                _passes(sessions["unpruned"], batches),
                "ONNX, half the heads removed",
                _passes(sessions["pruned"], batches),
                rounds,
                target="above 1",
            )
            for size in (1, 16)
            for batches in [_batches_of(subject, size, n_sentences)]
        ]


def _session(graph: Path) -> Any:
    import onnxruntime  # an extra

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def _passes(session: Any, batches: list[utils.Batch]) -> Callable[[], None]:
    names = [value.name for value in session.get_inputs()]
    feeds = [{name: batch[name].numpy(force=True) for name in names} for batch in batches]

    def run() -> None:
        for feed in feeds:
            session.run(None, feed)

    return run


def _batches_of(subject: setups.EncoderSubject, size: int, n: int) -> list[utils.Batch]:
    tokenizer = load_tokenizer(subject.profile.model)
    limit = subject.profile.finetuning.max_length
    return encoders.make_batches(tokenizer, subject.test.first(n), size, limit).batches


def _scoring(profile: Profile, n: int, rounds: int) -> list[Row]:
    subject = setups.EncoderSubject.of(profile, kernel="eager")
    batches = subject.batches(subject.test.first(n)).batches
    trained = copy.deepcopy(subject.model).train()
    trained.base_model.embeddings.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in trained.parameters() if p.requires_grad], lr=0.0)

    def step() -> None:
        for batch in batches:
            trained(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    layers = len(discovery.find_heads(subject.model))
    # passes and gradients; the lowest q, k, v need no gradient
    floor = (2 * layers - 3 / 12) / layers
    # a training step adds the weights' gradients: three forward passes
    return [
        compare(
            "exact I_h",
            partial(scoring.score_heads, subject.model, batches, "importance"),
            reference,
            other,
            rounds,
            floor=floor / passes,
            target=target,
        )
        for reference, other, passes, target in (
            ("forward pass", partial(utils.pass_seconds, subject.model, batches), 1, "at most 2.0"),
            ("training step", step, 3, "at most 0.7"),
        )
    ]


def _sweeps(profile: Profile, n: int, rounds: int) -> list[Row]:
    subject = setups.EncoderSubject.of(profile)
    examples = subject.test.first(n)
    batches, padded = subject.batches(examples).batches, padded_batches(subject, examples)
    masks = ablation.one_head_masks(subject.model)

    def reused() -> None:
        for _ in ablation.one_head_ablation(subject.model, batches):
            pass

    def plain() -> None:
        for mask in masks.values():
            for _ in ablation.masked_logits(subject.model, batches, mask):
                pass

    def naive() -> None:
        with torch.inference_mode():
            for mask in masks.values():
                with masking.masked_heads(subject.model, mask):
                    for batch in padded:
                        subject.model(**batch)

    sweep = "one-head sweep, activations reused"
    floor = sweep_work(subject.model) / (len(masks) * len(discovery.find_heads(subject.model)))
    return [
        compare(
            sweep, reused, "plain masked sweep", plain, rounds, floor=floor, target="at most 0.6"
        ),
        compare(
            "plain masked pass a head, padded to 128, file order",
            naive,
            sweep,
            reused,
            rounds,
            target="at least 6",
        ),
    ]


def sweep_work(model: torch.nn.Module) -> float:
    """Layers that a sweep over every head computes: one uncut pass, and what is above each cut.

    Above a cut are the feed-forward part of its own layer (8 of 12 products) and later layers.
    """
    blocks = discovery.find_heads(model)
    cuts = (
        8 / 12 + len(blocks) - 1 - i for i, block in enumerate(blocks) for _ in block.kept_heads
    )
    return len(blocks) + sum(cuts)


def padded_batches(subject: setups.EncoderSubject, examples: Texts) -> list[utils.Batch]:
    """Batches in file order with every sentence padded to the limit, as simple scripts do it."""
    limit, size = subject.profile.finetuning.max_length, subject.profile.batch_size
    tokenizer, in_order = load_tokenizer(subject.profile.model), range(len(examples))
    return [
        {
            name: torch.nn.functional.pad(batch[name], (0, limit - batch[name].shape[1]))
            for name in ("input_ids", "attention_mask")
        }
        for batch in encoders.make_batches(tokenizer, examples, size, limit, in_order).batches
    ]


def half_pruned(subject: setups.EncoderSubject) -> torch.nn.Module:
    """The subject's model without the less important half of its heads."""
    scores = scoring.head_importance(
        subject.model, subject.batches(subject.scoring.first(256)).batches
    )
    order = selection.rank_heads(scores)
    mask = selection.order_mask(subject.model, order, len(order) // 2)
    return pruning.prune_heads(copy.deepcopy(subject.model), mask)


def _pruned(profile: Profile, n: int, rounds: int) -> list[Row]:
    subject = setups.EncoderSubject.of(profile)
    pruned = half_pruned(subject)
    attention = attention_parameters(subject.model)
    linear = sum(
        module.weight.numel()
        for module in subject.model.base_model.encoder.modules()
        if isinstance(module, torch.nn.Linear)
    )
    return [
        compare(
            f"unpruned, batch {size}",
            partial(utils.pass_seconds, subject.model, batches),
            "half the heads removed",
            partial(utils.pass_seconds, pruned, batches),
            rounds,
            floor=linear / (linear - attention / 2),
            target="at least 1.15",
        )
        for size in (16, 64)
        for batches in [_batches_of(subject, size, n)]
    ]


# --- translators -----------------------------------------------------------------------------------


def _loss_sweeps(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Time each translation's loss under each one-head cut: reused, and by plain masked passes."""
    subject = setups.TranslationSubject.of(profile, profile.translation_task)
    model, marks = subject.model, generation.marks_of(subject.model)
    sources = subject.translator.encode(subject.split("test").first(n_sentences).sources)
    targets = [[*draft, marks.end] for draft in generation.generate(model, sources)]
    groups = utils.by_length(sources, setups.GROUP)
    batches = [
        utils.teacher_forced(
            [sources[i] for i in part], [targets[i] for i in part], marks.pad, marks.start
        )
        for part in groups
    ]
    masks = ablation.one_head_masks(model)

    def reused() -> None:
        for _ in ablation.one_head_ablation(model, batches, reduce=losses.cross_entropy):
            pass

    def plain() -> None:
        for mask in masks.values():
            with masking.masked_heads(model, mask):
                criteria.search.mean_loss(model, batches)

    s = sum(batch["input_ids"].numel() for batch in batches)
    t = sum(batch["decoder_input_ids"].numel() for batch in batches)
    return [
        compare(
            "one-head sweep of losses, activations reused",
            reused,
            "plain masked passes",
            plain,
            rounds,
            floor=loss_sweep_work(model, s, t),
            target="at most 0.6",
        )
    ]


def loss_sweep_work(model: torch.nn.Module, s: int, t: int) -> float:
    """Multiplications of a sweep over every head, as a share of those of one plain pass per head.

    Args:
        s, t: pieces of the sources and of the targets. Attention's own products are left out.
    """
    config = model.config
    width, layers = config.d_model, config.decoder_layers
    ends = 2 * width * config.decoder_ffn_dim  # the feed-forward part, a piece
    views, words = 2 * width**2, config.vocab_size * width
    encoder, decoder = 4 * width**2 + ends, 6 * width**2 + ends
    behind = t * (layers * decoder + words) + s * layers * views  # what an encoder's cut changes
    whole = s * config.encoder_layers * encoder + behind
    heads, needed = ablation.one_head_masks(model), whole  # one pass without a cut
    for kind, layer, _ in heads:
        if kind == "enc-enc":
            needed += s * ((config.encoder_layers - layer - 1) * encoder + ends) + behind
        else:  # the decoder's own attention is followed by that to the encoder: queries, output
            rest = ends + (2 * width**2 if kind == "dec-dec" else 0)
            needed += t * ((layers - layer - 1) * decoder + rest + words)
    return needed / (len(heads) * whole)


_BENCHES = {
    "encoder": _encoder,
    "criteria": _criteria,
    "sweeps": _loss_sweeps,
    "onnx": _graphs,  # ONNX is an extra
}
