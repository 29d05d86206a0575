"""Ours beside the paper's: published values, and tables for pages."""

from headprune_lib.replication.pages.tables.again import *
from headprune_lib.replication.pages.tables.encoder import *
from headprune_lib.replication.pages.tables.grids import *
from headprune_lib.replication.pages.tables.independent import *
from headprune_lib.replication.pages.tables.language import *
from headprune_lib.replication.pages.tables.markup import *
from headprune_lib.replication.pages.tables.pages import *
from headprune_lib.replication.pages.tables.published_masks import *
from headprune_lib.replication.pages.tables.published_orders import *
from headprune_lib.replication.pages.tables.recovery import *
from headprune_lib.replication.pages.tables.scores import *
from headprune_lib.replication.pages.tables.speed import *
from headprune_lib.replication.pages.tables.tasks import *
from headprune_lib.replication.pages.tables.translation import *
from headprune_lib.replication.pages.tables.verdicts import *
from headprune_lib.replication.pages.tables.which_first import *
from headprune_lib.replication.published import *
