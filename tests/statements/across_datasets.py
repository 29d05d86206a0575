"""Page 03."""

import numpy as np

from headprune_lib.replication import published
from headprune_lib.replication.bounds import C7_RELIABILITY
from statements import found, on, row, rows, values

PAGE = "notebooks/03_across_datasets.ipynb"
REVIEWS = ("across_domains", "reviews", "minilm")
MPNET = ("across_domains", "sst2", "mpnet")
HELD = ("across_domains", "snli-held", "minilm")
HELD_BY_MPNET = ("across_domains", "snli-held", "mpnet")
SICK = ("across_domains", "snli", "minilm")
ENGLISH = ("across_domains", "enfr", "post-norm")


def agreement(measure, *key):
    return [found[measure] for found in values(*key)["correlations"].values()]


def without_the_edge(measure="bleu"):
    """Pearson over the encoder's own heads but the one that costs most BLEU."""
    heads = sorted(values(*ENGLISH)["heads"], key=lambda head: head["bleu home"])[1:]
    home, far = ([head[f"{measure} {place}"] for head in heads] for place in ("home", "far"))
    return np.corrcoef(home, far)[0, 1]


STATEMENTS = on(
    PAGE,
    {
        "of SICK, leaves it open: {glue:text}`mpnet_held_r`": lambda: (
            agreement("loss", *HELD_BY_MPNET)[0]["spearman"]["interval"][0] < 0
            and row(*HELD_BY_MPNET, "C7").word == "differs"
        ),
        "both models' effects on the two texts are **reversed**": lambda: all(
            (pearson := agreement("accuracy", *one)[0]["pearson"])["r"] < 0
            and pearson["p"] < 0.01
            and row(*one, "C7").word == "differs"
            for one in (HELD, HELD_BY_MPNET)
        ),
        "only the translator's interval within layers lies clearly above 0.": lambda: (
            values(*ENGLISH)["correlations"]["loss"]["within"]["interval"][0] > 0.2
            and all(
                correlation["within"]["interval"][0] < 0.05
                for one in found("figure2b")
                for correlation in agreement("loss", *one.key)
            )
        ),
        "One head makes the line of BLEU; in loss the others lie on the line too.": lambda: (
            without_the_edge() < 0.2 and without_the_edge("loss") > 0.9
        ),
        "Now two clouds point up: heads that matter on reviews matter to Amazon reviews and NYT "
        "editorials too.": lambda: (
            {
                domain
                for domain, found in values(*REVIEWS)["correlations"].items()
                if found["loss"]["spearman"]["interval"][0] > 0
            }
            == {"amazon", "nyt"}
        ),
        "Log-loss shows what accuracy hides.": lambda: all(
            min(loss["reliability"]) > max(0.9, min(accuracy["reliability"]))
            for loss, accuracy in zip(
                agreement("loss", *REVIEWS), agreement("accuracy", *REVIEWS), strict=True
            )
        ),
        "By log-loss, the heads that matter on reviews also matter in {glue:text}`sure_loss`": lambda: (
            sum(found["spearman"]["interval"][0] > 0 for found in agreement("loss", *REVIEWS)) >= 2
        ),
        "Our rule asks for one half, so these results do not count.": lambda: (
            C7_RELIABILITY == 0.5
            and agreement("loss", *MPNET)[0]["reliability"][0] < C7_RELIABILITY
            and not any(row.counts for row in rows(*MPNET, "C7"))
        ),
        "The data are too noisy to tell whether this is weaker than the paper's 0.68.": lambda: (
            published.paper("figure2")["bert"]["pearson_r"] == 0.68
            and max(found["ceiling"] for found in agreement("loss", *MPNET)) < 0.68
        ),
        "In log-loss the effects are measured well on both sides.": lambda: all(
            min(agreement("loss", *one)[0]["reliability"]) > 0.8 for one in (SICK, HELD)
        ),
        "From SNLI to SICK one fine-tuning of three agrees": lambda: (
            agreement("loss", *HELD)[0]["spearman"]["interval"][0] > 0
            and agreement("loss", *SICK)[0]["spearman"]["interval"][0] < 0
        ),
        "answering *neutral* everywhere would beat a model that learned from SNLI": lambda: (
            values(*SICK)["baselines"]["sick"]["accuracy"] < 0.57
        ),
        "Heads do matter alike in both Englishes; the paper's measure alone would not show it "
        "here.": lambda: (
            values(*ENGLISH)["correlations"]["loss"]["spearman"]["interval"][0] > 0
            and values(*ENGLISH)["correlations"]["bleu"]["pearson"]["interval"][0] < 0
        ),
    },
)
