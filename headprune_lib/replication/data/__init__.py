"""Tasks: where a task's text comes from, how it is split, and its labels or translations.

>>> [task.name for task in TASKS.values() if task.metric == "f1"]
['synthetic-pairs', 'mrpc']
"""

from headprune_lib.replication.data.classification import TASKS, read_rated, whole_task
from headprune_lib.replication.data.fetch import (
    Archive,
    MissingData,
    Source,
    WrongChecksum,
    check_fetched,
    check_hub_cache,
    data_folder,
    file_sha256,
    locate,
    noted,
    set_aside_if_wrong,
)
from headprune_lib.replication.data.iwslt import Moses
from headprune_lib.replication.data.own import OWN_TEXTS, own_pairs, own_text
from headprune_lib.replication.data.parallel import LANGUAGE_TASKS, TRANSLATION_TASKS
from headprune_lib.replication.data.synthetic import WORDS, word_tokenizer
from headprune_lib.replication.data.texts import Metric, Texts, normalise, split_by_hash
