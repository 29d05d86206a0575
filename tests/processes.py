"""Python in a process of its own."""

import os
import subprocess
import sys


def python(code, *arguments, ends=0, cwd=None, **environment):
    """The process when it has ended as it should; a variable that is None is not set in it."""
    kept = {k: v for k, v in {**os.environ, **environment}.items() if v is not None}
    words = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=kept)
    assert done.returncode == ends, done.stderr[-3000:] + done.stdout[-2000:]
    return done
