"""Look into models that others have trained: each layer's heads, on a sentence of yours.

`loading.py` reads any encoder or decoder that the library transformers knows; `reading.py` holds
what a model shows of one sentence; `packaged.py` reads the copies of two models that Python
packages carry, where no hub can be asked; `export.py` writes the file of real heads that the
site shows. transformers is loaded when a model is, never before.
"""

from mha_lib.pretrained.loading import Pretrained, load
from mha_lib.pretrained.packaged import load_packaged
from mha_lib.pretrained.reading import LayerTrace, Reading

__all__ = ["LayerTrace", "Pretrained", "Reading", "load", "load_packaged"]
