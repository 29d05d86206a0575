"""Ours beside the paper's: published values, and tables for pages."""

from headprune_lib.replication.pages.tables.beyond import *
from headprune_lib.replication.pages.tables.markup import *
from headprune_lib.replication.pages.tables.paper import *
from headprune_lib.replication.pages.tables.verdicts import *
