"""``PYTHONPATH=tests python -m census [TYPE …]``: take the census of all types, or of some.

Results go into ``data/census.csv``; rows of types that are not tested stay as they are.
"""

import sys

from census import model_types, read, take, tally, write
from headprune_lib.replication.paths import project_root

PATH = project_root() / "data" / "census.csv"
ROWS = {row["model type"]: row for row in read(PATH)}
for row in take(sys.argv[1:] or model_types()):
    ROWS[row["model type"]] = row
    write(ROWS.values(), PATH)
sys.stdout.write("".join(f"{n:4} {name}\n" for name, n in tally(ROWS.values()).items()))
