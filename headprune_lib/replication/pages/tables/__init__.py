"""Tables for pages, in which our values stand next to the published ones."""

from headprune_lib.replication.pages.tables.beyond import *
from headprune_lib.replication.pages.tables.markup import *
from headprune_lib.replication.pages.tables.paper import *
from headprune_lib.replication.pages.tables.verdicts import *
