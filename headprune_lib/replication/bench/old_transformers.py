"""What transformers 4.46.3, the last line with ``head_mask``, does with one model; run by itself.

``python old_transformers.py FOLDER`` reads the model, batches and the heads to remove from a folder.
For every line on its standard input, the name of a job, it does that job and prints one line of
JSON: numbers by which the answer can be told from another. It imports nothing of this library, which
needs transformers 5.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    """Answer jobs until the input ends."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    settings = json.loads((folder / "bench.json").read_text("utf-8"))
    torch.set_num_threads(settings["threads"])
    given = torch.load(folder / "batches.pt", weights_only=True)
    jobs = Jobs(model, given, settings["cut"])
    _say({"transformers": transformers.__version__, "torch": torch.__version__})
    for line in sys.stdin:
        _say({"answer": getattr(jobs, line.strip())()})


def _say(what: dict) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Jobs:
    """Each method is a job, as scripts for the old transformers do it."""

    def __init__(self, model: Any, given: dict[str, list], cut: dict) -> None:
        self.model, self.given = model, given
        self.cut = {int(layer): heads for layer, heads in cut.items()}
        self.pruned: Any = None

    def importance(self) -> list[list[float]]:
        """|d mean loss / d head mask| in the mean over batches; gradients of all weights are computed too."""
        return self._importance(weights=True)

    def importance_frozen(self) -> list[list[float]]:
        """The same without the weights' gradients."""
        return self._importance(weights=False)

    def sweep(self) -> list[float]:
        """Every head cut in turn: one pass over all batches a head."""
        return self._sweep(self.given["sweep"])

    def padded_sweep(self) -> list[float]:
        """The same on batches in file order, every sentence padded to the limit."""
        return self._sweep(self.given["padded"])

    def pass_pruned(self) -> float:
        """A pass over all batches with heads removed by ``prune_heads``."""
        import copy

        if self.pruned is None:
            self.pruned = copy.deepcopy(self.model)
            self.pruned.prune_heads(self.cut)
        return self._pass(self.pruned, self.given["sweep"])

    def remove(self) -> int:
        """Remove heads from a copy."""
        import copy

        model = copy.deepcopy(self.model)
        model.prune_heads(self.cut)
        return sum(parameter.numel() for parameter in model.parameters())

    def _importance(self, weights: bool) -> list[list[float]]:
        import torch

        self.model.requires_grad_(weights)
        config = self.model.config
        shape = config.num_hidden_layers, config.num_attention_heads
        mask = torch.ones(shape, requires_grad=True)
        total = torch.zeros(shape)
        for batch in self.given["batches"]:
            logits = self.model(**_inputs(batch), head_mask=mask).logits
            torch.nn.functional.cross_entropy(logits, batch["labels"], reduction="mean").backward()
            total += mask.grad.abs()
            mask.grad = None
            self.model.zero_grad()
        return (total / len(self.given["batches"])).tolist()

    def _sweep(self, batches: list) -> list[float]:
        import torch

        config = self.model.config
        answers = []
        for layer in range(config.num_hidden_layers):
            for head in range(config.num_attention_heads):
                mask = torch.ones(config.num_hidden_layers, config.num_attention_heads)
                mask[layer, head] = 0
                answers.append(self._pass(self.model, batches, head_mask=mask))
        return answers

    def _pass(self, model: Any, batches: list, **more: Any) -> float:
        import torch

        with torch.no_grad():
            return sum(
                float(model(**_inputs(batch), **more).logits.abs().sum()) for batch in batches
            )


def _inputs(batch: dict) -> dict:
    return {name: value for name, value in batch.items() if name != "labels"}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
