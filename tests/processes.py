"""Python in a process of its own."""

import os
import subprocess
import sys


def python(code, *arguments, ends=0, cwd=None, without=(), **environment):
    """The process when it has ended as it should.

    Args:
        without: how the names of variables begin that are not handed on.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(without)} | environment
    words = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=kept)
    assert done.returncode == ends, done.stderr[-3000:] + done.stdout[-2000:]
    return done
