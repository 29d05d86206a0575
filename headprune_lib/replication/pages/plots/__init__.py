"""One function per figure: from a result's values to a matplotlib figure with the paper's values.

Every function takes the layout, wide or narrow, and draws in the style that is set: ``show_figure``
sets that of the pages. Layers and heads are counted from 1, changes of accuracy are in percentage
points, changes of BLEU in BLEU points.
"""

from headprune_lib.replication.pages.plots.figures import *
from headprune_lib.replication.pages.plots.style import *
