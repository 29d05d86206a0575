"""Modules that are imported on first use.

torch and transformers take seconds to import, and most commands compute nothing: they show stored
results, or refuse a name. So modules that declare a measurement, or locate weights, import their
dependencies from here, as Python 3.15's ``lazy import`` (PEP 810) would do.
"""

from importlib import import_module
from types import ModuleType
from typing import Any


class _Lazy(ModuleType):
    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self.__name__), attribute)

    def __reduce__(self) -> tuple:
        """Pickle the module as its name, for a worker."""
        return import_module, (self.__name__,)


nbformat = _Lazy("nbformat")
pandas = _Lazy("pandas")
papermill = _Lazy("papermill")
proportion = _Lazy("statsmodels.stats.proportion")
sacrebleu = _Lazy("sacrebleu")
safetensors_torch = _Lazy("safetensors.torch")
torch = _Lazy("torch")
transformers = _Lazy("transformers")

ablation = _Lazy("headprune_lib.ablation")
attention = _Lazy("headprune_lib.attention")
criteria = _Lazy("headprune_lib.criteria")
discovery = _Lazy("headprune_lib.discovery")
fairseq_import = _Lazy("headprune_lib.fairseq_import")
gguf = _Lazy("headprune_lib.export.gguf")
losses = _Lazy("headprune_lib.losses")
mask_tuning = _Lazy("headprune_lib.mask_tuning")
masking = _Lazy("headprune_lib.masking")
pruning = _Lazy("headprune_lib.pruning")
saving = _Lazy("headprune_lib.saving")
scoring = _Lazy("headprune_lib.scoring")
selection = _Lazy("headprune_lib.selection")
utils = _Lazy("headprune_lib.utils")

generation = _Lazy("headprune_lib.replication.models.generation")
encoders = _Lazy("headprune_lib.replication.models.encoders")
language = _Lazy("headprune_lib.replication.models.language")
measurements = _Lazy("headprune_lib.replication.measurements")
planning = _Lazy("headprune_lib.replication.planning")
profiles = _Lazy("headprune_lib.replication.profiles")
setups = _Lazy("headprune_lib.replication.setups")
store = _Lazy("headprune_lib.replication.store")
training = _Lazy("headprune_lib.replication.models.training")
translators = _Lazy("headprune_lib.replication.models.translators")
