"""Answers of models under a mask, one text at a time without padding, and training by hand."""

import itertools
import random

import numpy as np
import sacrebleu
import torch
import transformers
from tiny import logits_of

from headprune_lib import masked_heads, ones_mask
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.models.encoders import make_batches, shuffled_by_length
from headprune_lib.replication.models.generation import generate, marks_of
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.models.weights import BFLOAT16, working_precision
from headprune_lib.utils import teacher_forced


def answers(subject, examples, mask=None, model=None):
    """An encoder's answers to examples: right or wrong, (n,), and the loss in nats, (n,)."""
    model, right, nats = model or subject.model, [], []
    for i in range(len(examples)):
        (batch,) = subject.batches(examples.after(i).first(1)).batches
        logits = logits_of(model, batch, mask)[0].double()
        right.append(int(logits.argmax()) == int(batch["labels"]))
        nats.append(-float(logits.log_softmax(-1)[batch["labels"]]))
    return np.array(right), np.array(nats)


def translations(subject, pairs, mask=None, model=None, beams=1):
    """A translator's translation of each source."""
    model = model or subject.model
    with masked_heads(model, mask or ones_mask(model)):
        rows = [
            generate(model, [source], beams=beams)[0]
            for source in subject.translator.encode(pairs.sources)
        ]
    return subject.translator.pieces.texts(rows)


def bleu(subject, pairs, mask=None, model=None, beams=1):
    """sacrebleu's corpus BLEU of the translations."""
    made = translations(subject, pairs, mask, model, beams)
    return sacrebleu.corpus_bleu(made, [list(pairs.targets)]).score


def reference_nats(subject, pairs, mask=None):
    """A translator's loss in nats on each reference, (n,), and each one's number of pieces."""
    model, nats, pieces = subject.model, [], []
    marks, translator = marks_of(model), subject.translator
    rows = translator.encode(pairs.sources), translator.encode_targets(pairs.targets)
    for source, target in zip(*rows, strict=True):
        batch = teacher_forced([source], [target], marks.pad, marks.start)
        logits = logits_of(model, batch, mask)[0].double()
        labels = batch["labels"][0]
        nats.append(-float(logits.log_softmax(-1)[range(len(labels)), labels].sum()))
        pieces.append(len(labels))
    return np.array(nats), np.array(pieces)


def passage_nats(model, passages, mask=None):
    """A language model's loss in nats on each passage's tokens after the first, (n,)."""
    nats = []
    for ids in passages:
        logits = logits_of(model, {"input_ids": torch.tensor([ids])}, mask)[0, :-1].double()
        nats.append(-float(logits.log_softmax(-1)[range(len(ids) - 1), ids[1:]].sum()))
    return np.array(nats)


def fitted(model, batches, settings):
    """Fine-tune by hand what is not frozen; ``batches`` has a list of batches for each epoch.

    With AdamW, linear warmup and decay, gradients clipped, and bfloat16 where a processor has it.
    """
    n_updates = sum(map(len, batches))
    optimizer = torch.optim.AdamW(
        (p for p in model.parameters() if p.requires_grad),
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
    )
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(settings.warmup * n_updates), n_updates
    )
    mixed = working_precision(BFLOAT16, "cpu") == BFLOAT16
    model.train()
    for batch in itertools.chain(*batches):
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
    return model.eval()


def epochs_of(profile, settings, seed):
    """Yield the batches of each epoch: by length, in an order drawn by the seed."""
    train = TASKS[profile.task].split("train", profile.data).first(settings.n_train)
    generator, tokenizer = random.Random(seed), load_tokenizer(profile.model)
    for _ in range(settings.epochs):
        order = shuffled_by_length(train, settings.batch_size, generator)
        yield make_batches(
            tokenizer, train, settings.batch_size, settings.max_length, order
        ).batches
