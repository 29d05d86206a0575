"""The training loop where memory has no room for a batch."""

import pytest
import torch
from tiny import batch_for, build, without_dropout

from headprune_lib.replication.models.training import BatchTrainer, fit
from headprune_lib.replication.models.weights import FLOAT32


class _Tight(BatchTrainer):
    """Memory for so many examples; it runs out in the backward pass."""

    rows, tried = 3, ()

    def compute_loss(self, model, inputs, *given, **named):
        n = len(inputs["labels"])
        loss = super().compute_loss(model, inputs, *given, **named)
        self.tried = (*self.tried, n)
        if n > self.rows:
            loss.backward()
            raise torch.OutOfMemoryError("no room")
        return loss


def _trained(kind, name, folder, **further):
    made, batches = [], [batch_for(name, n=n, seed=n) for n in (7, 5, 8)]
    model = without_dropout(build(name))

    def trainer(**given):
        made.append(kind(**given))
        made[0].model_accepts_loss_kwargs = False
        return made[0]

    settings = {"seed": 1, "device": "cpu", "precision": FLOAT32, "epochs": 2, **further}
    fit(model, batches, folder, "test", trainer=trainer, learning_rate=1e-3, **settings)
    return model, made[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "smoothing"), [("bert", 0.0), ("marian", 0.0), ("gpt2", 0.0), ("marian", 0.1)]
)
def test_an_update_is_the_same_in_parts(name, smoothing, tmp_path):
    smoothed = {"label_smoothing_factor": smoothing}
    plain, _ = _trained(BatchTrainer, name, tmp_path / "plain", **smoothed)
    parted, trainer = _trained(_Tight, name, tmp_path / "parts", **smoothed)
    for (path, one), two in zip(plain.named_parameters(), parted.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-9, msg=path)
    # the first had no room, and nothing as large is tried again
    assert trainer.tried[0] > 3 >= max(trainer.tried[1:])
    assert sum(trainer.tried[1:]) == 2 * (7 + 5 + 8)
