"""The description that a package index shows; all else is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

# An index cannot follow links into the repository: pictures go, links leave their words.
ELSEWHERE = r"\((?!https?://)[^()]*\)"
readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
readme = re.sub(rf"^!\[.*\]{ELSEWHERE}\n+", "", readme, flags=re.MULTILINE)
readme = re.sub(rf"\[([^\[\]]*)\]{ELSEWHERE}", r"\1", readme)

setup(long_description=readme, long_description_content_type="text/markdown")
