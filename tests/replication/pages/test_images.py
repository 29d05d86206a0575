"""Figures lose bytes, not what is on them."""

import io

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from headprune_lib.replication.pages.images import small_png


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def test_a_figure_looks_the_same_in_less_than_half_the_bytes():
    figure, axes = plt.subplots()
    image = axes.imshow(np.linspace(-1, 1, 72).reshape(6, 12), cmap="RdBu")
    figure.colorbar(image)
    axes.set_title("change of accuracy")
    file = io.BytesIO()
    figure.savefig(file, format="png")
    plt.close(figure)
    small = small_png(file.getvalue())
    assert len(small) < 0.5 * len(file.getvalue())
    before, after = pixels(file.getvalue()), pixels(small)
    assert before.shape == after.shape
    assert np.abs(before - after).mean() < 1
    assert np.abs(before - after).max() < 40
    assert small_png(small) == small


def test_what_is_transparent_becomes_white():
    file = io.BytesIO()
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(file, "PNG")
    assert (pixels(small_png(file.getvalue())) == 255).all()
