"""What models answer under a mask: one text at a time, without padding or anything shared."""

import numpy as np
import sacrebleu
import torch

from headprune_lib import full_mask, masked_heads
from headprune_lib.batching import teacher_forced, without_labels
from headprune_lib.generation.greedy import generate, marks_of


def answers(subject, examples, mask=None, model=None):
    """Of an encoder: right or wrong (n,), and nats (n,)."""
    model, right, nats = model or subject.model, [], []
    for i in range(len(examples)):
        (batch,) = subject.batches(examples.after(i).first(1)).batches
        with torch.no_grad(), masked_heads(model, mask or full_mask(model)):
            logits = model(**without_labels(batch)).logits[0].double()
        right.append(int(logits.argmax()) == int(batch["labels"]))
        nats.append(-float(logits.log_softmax(-1)[batch["labels"]]))
    return np.array(right), np.array(nats)


def translations(subject, pairs, mask=None, model=None, beams=1):
    """Of a translator: what it says of each source."""
    model = model or subject.model
    with masked_heads(model, mask or full_mask(model)):
        rows = [
            generate(model, [source], beams=beams)[0]
            for source in subject.translator.encode(pairs.sources)
        ]
    return subject.translator.pieces.texts(rows)


def bleu(subject, pairs, mask=None, model=None, beams=1):
    """sacrebleu's corpus BLEU of the translations."""
    made = translations(subject, pairs, mask, model, beams)
    return sacrebleu.corpus_bleu(made, [list(pairs.targets)]).score


def reference_nats(subject, pairs, mask=None, model=None):
    """Of a translator: nats (n,) of each reference, and how many pieces these have."""
    model, nats, pieces = model or subject.model, [], []
    marks, translator = marks_of(model), subject.translator
    rows = translator.encode(pairs.sources), translator.encode_targets(pairs.targets)
    for source, target in zip(*rows, strict=True):
        batch = teacher_forced([source], [target], marks.pad, marks.start)
        with torch.no_grad(), masked_heads(model, mask or full_mask(model)):
            logits = model(**without_labels(batch)).logits[0].double()
        labels = batch["labels"][0]
        nats.append(-float(logits.log_softmax(-1)[range(len(labels)), labels].sum()))
        pieces.append(len(labels))
    return np.array(nats), np.array(pieces)


def passage_nats(model, passages, mask=None):
    """Of a language model: nats (n,) of each passage's tokens after its first."""
    nats = []
    for ids in passages:
        with torch.no_grad(), masked_heads(model, mask or full_mask(model)):
            logits = model(input_ids=torch.tensor([ids])).logits[0, :-1].double()
        nats.append(-float(logits.log_softmax(-1)[range(len(ids) - 1), ids[1:]].sum()))
    return np.array(nats)
