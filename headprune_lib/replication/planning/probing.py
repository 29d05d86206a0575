"""How fast this machine does the work, timed on models of the same shapes with random weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headprune_lib.replication.lazy import generation, torch, transformers, utils
from headprune_lib.replication.models.pretrained import BASES
from headprune_lib.replication.models.translators import new_model
from headprune_lib.replication.profiles import Profile, Published, Recipe, Shape

LENGTH = 64
"""Tokens per sentence for an encoder: more than most sentences of these tasks have."""
_PIECES = 30  # of a sentence to translate and of its translation
_GPU_BATCH, _CPU_BATCH = 64, 4
# For recipes without a shape: transformer_vaswani_wmt_en_fr_big, transformer_iwslt_de_en.
_SHAPES = {
    "wmt14-enfr": Shape(6, 16, 1024, 4096, 44_512, 0.1),
    "iwslt14-deen": Shape(6, 8, 512, 1024, 8_000, 0.3, "before"),
}


@dataclass(frozen=True)
class Probe:
    """Speed of a task's model on this machine, in passes and translations per second.

    ``training_bytes`` is the least memory of a training step; 0 if nothing is trained.
    ``translating_bytes`` is that of translating a batch, at the peak on a GPU, else of the weights
    alone; 0 if nothing is translated.
    """

    passes_per_second: float
    training_bytes: int
    measured: bool
    translations_per_second: float = 0.0
    translating_bytes: int = 0


def told(probes: Mapping[str, Probe]) -> dict[str, list[str]]:
    """Speed in words -> the tasks whose models have it."""
    by_speed: dict[str, list[str]] = {}
    for task, probe in probes.items():
        words = f"{probe.passes_per_second:.0f} passes a second"
        if probe.translations_per_second:
            words += f", {probe.translations_per_second:.1f} translations"
        if probe.translating_bytes:
            words += f"; at least {probe.translating_bytes / 1e9:.1f} GB of memory to translate"
        if probe.training_bytes:
            words += (
                f"; {'' if probe.measured else 'at least '}{probe.training_bytes / 1e9:.1f} GB to "
                f"train{'' if probe.measured else ', activations not counted'}"
            )
        by_speed.setdefault(words, []).append(task)
    return by_speed


def config_of(profile: Profile) -> transformers.PretrainedConfig:
    """The configuration of a profile's encoder; nothing is fetched for it."""
    base = BASES[profile.model]
    if base.build is not None:
        return base.build()
    if base.hub and not base.given:
        return transformers.BertConfig()  # BERT-base's is the class's own
    return transformers.AutoConfig.from_pretrained(base.folder())


def shape_of(profile: Profile, task: str) -> Shape:
    """The shape of a profile's translator for a task."""
    recipe = profile.translator(task, profile.model_of(task))
    if isinstance(recipe, Published) and recipe.folder:
        config = transformers.AutoConfig.from_pretrained(recipe.folder)
        size = (config.d_model, config.encoder_ffn_dim, config.vocab_size, config.dropout)
        return Shape(config.encoder_layers, config.encoder_attention_heads, *size)
    return recipe.shape if isinstance(recipe, Recipe) else _SHAPES[task]


def probe_encoder(profile: Profile, seconds: float) -> Probe:
    """Time forward passes on the profile's device, after a warm-up."""
    device = torch.device(profile.device)
    with torch.random.fork_rng(devices=[]):
        model = transformers.AutoModelForSequenceClassification.from_config(config_of(profile))
    model.to(device).eval()
    longest = min(LENGTH, model.config.max_position_embeddings)
    # on a CPU a larger batch is no faster per example, and takes a minute with a large model
    rows = profile.batch_size if device.type == "cuda" else min(8, profile.batch_size)
    ids = torch.ones(rows, longest, dtype=torch.long, device=device)

    def once() -> None:
        model(input_ids=ids)[0].cpu()

    with torch.inference_mode():
        speed = _rate(once, len(ids), seconds)
    if device.type == "cuda":
        return Probe(speed, _training_peak(model, profile), measured=True)
    # weights, gradients and Adam's two moments in float32
    return Probe(speed, 16 * utils.n_parameters(model), measured=False)


def _training_peak(model: transformers.PreTrainedModel, profile: Profile) -> int:
    """Bytes at the peak of one update at the longest sentences."""
    torch.cuda.reset_peak_memory_stats()
    optimizer, size = torch.optim.AdamW(model.parameters()), profile.finetuning.batch_size
    longest = min(profile.finetuning.max_length, model.config.max_position_embeddings)
    ids = torch.ones(size, longest, dtype=torch.long, device=model.device)
    with torch.autocast("cuda", torch.bfloat16):
        loss = model.train()(input_ids=ids, labels=ids[:, 0] * 0).loss
    loss.backward()
    optimizer.step()
    return torch.cuda.max_memory_allocated()


def probe_translator(profile: Profile, task: str, seconds: float) -> Probe:
    """Time passes and translations of a task's shape on the profile's device, after a warm-up."""
    device = torch.device(profile.device)
    with torch.random.fork_rng(devices=[]):
        model = new_model(shape_of(profile, task), 0).to(device).eval()
    size = _CPU_BATCH if device.type == "cpu" else _GPU_BATCH
    marks, rows = generation.marks_of(model), [[5] * _PIECES] * size
    batch = utils.teacher_forced(rows, rows, marks.pad, marks.start)
    batch = utils.to_device(utils.without_labels(batch), device)
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    lengths = {"min_new_tokens": _PIECES, "max_new_tokens": _PIECES}

    def once() -> None:
        model(**batch).logits[0, 0].cpu()

    def translate() -> None:
        model.generate(**source, num_beams=profile.beams, do_sample=False, **lengths).cpu()

    n_weights = utils.n_parameters(model)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with torch.inference_mode():
        forward = _rate(once, size, seconds)
        translated = _rate(translate, size, seconds)
    held = torch.cuda.max_memory_allocated() if device.type == "cuda" else 4 * n_weights
    recipe = profile.translator(task, profile.model_of(task))
    trained = 0 if isinstance(recipe, Published) else 16 * n_weights
    return Probe(forward, trained, False, translated, held)


def _rate(work: Callable[[], object], size: int, seconds: float) -> float:
    """Examples per second, after a warm-up; ``work`` waits for the device."""
    work()
    done, started = 0, time.perf_counter()
    while not done or time.perf_counter() - started < seconds:
        work()
        done += size
    return done / (time.perf_counter() - started)
