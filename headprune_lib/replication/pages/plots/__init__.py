"""One function a figure: from a result's values to a matplotlib figure, the paper's value beside.

Every function takes the layout, wide or narrow, in which the figure is drawn. Layers and heads are
counted from 1, changes of accuracy are in percentage points, changes of BLEU in BLEU points.
"""

from headprune_lib.replication.pages.plots.encoder import *
from headprune_lib.replication.pages.plots.independent import *
from headprune_lib.replication.pages.plots.language import *
from headprune_lib.replication.pages.plots.palette import *
from headprune_lib.replication.pages.plots.published_orders import *
from headprune_lib.replication.pages.plots.recovery import *
from headprune_lib.replication.pages.plots.scores import *
from headprune_lib.replication.pages.plots.style import *
from headprune_lib.replication.pages.plots.tasks import *
from headprune_lib.replication.pages.plots.training_dynamics import *
from headprune_lib.replication.pages.plots.translation import *
from headprune_lib.replication.pages.plots.which_first import *
