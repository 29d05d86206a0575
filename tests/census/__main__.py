"""``PYTHONPATH=tests python -m census [TYPE …]``: take the census, or that of some types.

What is measured goes into ``data/census.csv``; rows of types that are not asked stay as they are.
"""

from __future__ import annotations

import argparse
import sys

from census import model_types, read, take, tally, write
from headprune_lib.replication.paths import project_root


def main() -> None:
    """Read the arguments, ask the types, and write the table after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*", metavar="TYPE")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=60, help="that a type may take")
    parser.add_argument("--missing", action="store_true", help="only types that have no row yet")
    given = parser.parse_args()
    path = project_root() / "data" / "census.csv"
    rows = {row["model type"]: row for row in read(path)} if path.exists() else {}
    asked = given.types or model_types()
    if given.missing:
        asked = [name for name in asked if name not in rows]
    for row in take(asked, jobs=given.jobs, seconds=given.seconds):
        rows[row["model type"]] = row
        write(rows.values(), path)
    sys.stdout.write("".join(f"{n:4} {name}\n" for name, n in tally(rows.values()).items()))


if __name__ == "__main__":
    main()
