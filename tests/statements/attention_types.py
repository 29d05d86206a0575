"""Page 06."""

from statements import found, on, row, values

PAGE = "notebooks/06_attention_types.ipynb"
OURS = ("pruning_by_kind", "enfr", "post-norm")
GERMAN = [("pruning_by_kind", "deen", model) for model in ("pre-norm", "post-norm-6")]


def gap(other, removed, of=OURS):
    along = values(*of)["differences_along"][f"enc-dec minus {other}"]
    return along[round(10 * removed)]["interval"]


def left(kind, removed, of=OURS):
    return values(*of)["kept"][f"{kind} importance"]["kept"][round(10 * removed)]


def nearest_rival(of):
    """Area of enc-dec minus that of the kind that is missed second most; below 0."""
    return max(values(*of)["areas"][kind]["difference"] for kind in ("enc-enc", "dec-dec"))


STATEMENTS = on(
    PAGE,
    {
        "from 60% on enc-dec falls to nothing, and enc-enc stays highest.": lambda: (
            left("enc-dec", 0.9) < 0.1
            and all(
                left("enc-enc", removed) > max(left("enc-dec", removed), left("dec-dec", removed))
                for removed in (0.6, 0.7, 0.8, 0.9)
            )
        ),
        "Yes, in each of three translators the decoder's attention to the encoder (*enc-dec*) "
        "is missed most.": lambda: (
            all(row(*of, "C4").word == "replicates" for of in (OURS, *GERMAN))
            and len(found("pruning_by_kind")) == 3
        ),
        "Up to 40%, dec-dec loses as much as enc-dec": lambda: all(
            gap("dec-dec", removed, of)[1] >= 0
            for of in (OURS, *GERMAN)
            for removed in (0.1, 0.2, 0.3, 0.4)
        ),
        "the post-norm one after Figure 5 had shown its outcome in part. They say the same: no "
        "difference between *enc-dec* and *dec-dec* is shown at 40%, and from 60% on removing "
        "*enc-dec* hurts most.": lambda: all(
            row(*of, "C4").word == "replicates"
            and row(*of, "C4").seen == ("partly" if of[2] == "post-norm-6" else False)
            and gap("dec-dec", 0.4, of)[0] < 0 < gap("dec-dec", 0.4, of)[1]
            and all(
                gap(other, removed, of)[1] < 0
                for other in ("enc-enc", "dec-dec")
                for removed in (0.6, 0.7, 0.8, 0.9)
            )
            and nearest_rival(of) < nearest_rival(OURS)
            for of in GERMAN
        ),
        "Without any attention of the encoder to itself they keep 94% and 90% of their BLEU.": lambda: (
            [round(left("enc-enc", 1.0, of), 2) for of in GERMAN] == [0.94, 0.9]
        ),
        "Here *enc-enc* does better than that and *dec-dec* worse, in all three models, so the "
        "paper's own criterion is not met.": lambda: all(
            left("enc-enc", 0.8, of) > 0.83 > left("dec-dec", 0.8, of)
            and row(*of, "C4").judged.met is False
            for of in (OURS, *GERMAN)
        ),
    },
)
