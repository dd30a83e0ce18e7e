"""What a model that writes token after token need not compute again: its keys and values.

A new token asks with its own query, but what the earlier tokens hold and give has not changed.

Letters in shapes: B batch, h_kv key heads, S keys, d_k and d_v widths of a key and a value.
"""

import weakref
from typing import Self

import torch
from torch import Tensor

from mha_lib.checks import check_size
from mha_lib.tensor_checks import check_dtype, check_tensor


class KVCache:
    """The keys and values of all tokens so far, of one layer.

    Each call of `MultiHeadAttention` with `cache=` appends its new tokens and attends to all.
    One cache is for one layer and one batch of sequences.

    Keys and values are written into a buffer with room to spare, which doubles when it is full:
    so S tokens cost about S copies and not S^2 / 2. Where gradients are on, the buffer is left
    alone and a new tensor made each time, since autograd needs the old ones as they were: write
    under `torch.no_grad()`.

    Args:
        max_length: Room for this many tokens is made when the first come, and more are refused;
            None is any number.

    Attributes:
        max_length: As given.
        length: How many tokens it holds, S.
        nbytes: How many bytes their keys and values are; the room to spare does not count.

    Raises:
        ValueError: max_length is below 1.
        TypeError: max_length is not a whole number.

    >>> cache = KVCache()
    >>> prompt, word = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 1, 4)  # (B, h_kv, N, d)
    >>> keys, values = cache.append(prompt, prompt)
    >>> keys, values = cache.append(word, word)
    >>> keys.shape, cache.length, cache.nbytes
    (torch.Size([1, 2, 6, 4]), 6, 384)
    """

    def __init__(self, max_length: int | None = None) -> None:
        """Begin with nothing; the first tokens say how wide keys and values are."""
        self.max_length = None if max_length is None else check_size("max_length", max_length)
        self._layer: weakref.ref[object] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything, so that another sequence can begin.

        The buffer is given back too: what `append` returned stays as it was.

        >>> cache = KVCache()
        >>> _ = cache.append(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2))
        >>> cache.reset()
        >>> cache.length
        0
        """
        self.length = 0
        self._buffers: tuple[Tensor, Tensor] | None = None  # each (B, h_kv, room, d)

    @property
    def nbytes(self) -> int:
        """How many bytes the keys and values held are."""
        return sum(x.numel() * x.element_size() for x in self._held())

    def is_for(self, layer: object) -> bool:
        """Whether the cache is for this layer: it is for the first that it is given to.

        One that holds nothing is for any layer.

        >>> cache, first, second = KVCache(), torch.nn.Identity(), torch.nn.Identity()
        >>> _ = cache.append(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2))
        >>> cache.is_for(first), cache.is_for(second), cache.is_for(first)
        (True, False, True)
        """
        if self._layer is None or self.length == 0:
            self._layer = weakref.ref(layer)
        return self._layer() is layer

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new tokens, and return those of all tokens so far.

        Args:
            key: (B, h_kv, N, d_k), of the N new tokens.
            value: (B, h_kv, N, d_v).

        Returns:
            All keys (B, h_kv, S, d_k) and all values (B, h_kv, S, d_v).

        Raises:
            ValueError: Sizes or a device that differ from what the cache holds, or more tokens
                than max_length. The cache is then left as it was.
            TypeError: A dtype that differs from what it holds.

        >>> KVCache(max_length=2).append(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2))
        Traceback (most recent call last):
        ValueError: 3 more tokens make 3, above max_length=2; make the cache with max_length=3 \
or more, or call reset() before another sequence
        """
        self._check(key, value)
        old = (None, None) if self._buffers is None else self._buffers
        self._buffers = (self._extended(old[0], key), self._extended(old[1], value))
        self.length += key.shape[2]
        keys, values = self._held()
        return keys, values

    def crop(self, length: int) -> None:
        """Forget all tokens but the first ones, as when a guess is taken back.

        The next tokens are written over those that are forgotten, in what `append` returned too.

        Raises:
            ValueError: There are not so many, or length is below 0.
            TypeError: length is not a whole number.

        >>> cache = KVCache()
        >>> _ = cache.append(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2))
        >>> cache.crop(1)
        >>> cache.length
        1
        """
        if length != 0:
            length = check_size("length", length)
        if length > self.length:
            raise ValueError(f"length={length} is above {self.length}, what the cache holds")
        if length == 0:
            self.reset()  # another batch may begin
        self.length = length

    def _held(self) -> list[Tensor]:
        """Return the keys and values without the room to spare, or nothing."""
        return [] if self._buffers is None else [x[:, :, : self.length] for x in self._buffers]

    def _extended(self, buffer: Tensor | None, x: Tensor) -> Tensor:
        """Return a buffer (B, h_kv, room, d) that begins with what was held and then has x."""
        begin, end = self.length, self.length + x.shape[2]
        old = x[:, :, :0] if buffer is None else buffer[:, :, :begin]
        if torch.is_grad_enabled():
            return torch.cat((old, x), dim=2)
        # What inference_mode made, only inference_mode may write to.
        frozen = old.is_inference() and not torch.is_inference_mode_enabled()
        if buffer is None or buffer.shape[2] < end or frozen:
            B, h_kv, _, d = x.shape
            buffer = x.new_zeros(B, h_kv, self.max_length or max(end, 2 * begin), d)
            buffer[:, :, :begin] = old
        buffer[:, :, begin:end] = x
        return buffer

    def _check(self, key: Tensor, value: Tensor) -> None:
        """Refuse what does not go with one another, or with what is held."""
        for name, x in (("key", key), ("value", value)):
            check_dtype(name, check_tensor(name, x))
            if x.dim() != 4 or x.shape[2] == 0:
                raise ValueError(
                    f"{name} has shape {tuple(x.shape)}, but a cache takes (B, h_kv, N, d), "
                    "N at least 1; split the features into heads first, as MultiHeadAttention does"
                )
        _check_same("value", value, "key", key, but="width")
        for name, x, held in zip(("key", "value"), (key, value), self._held(), strict=False):
            _check_same(name, x, "the cache", held, but="length")
        end = self.length + key.shape[2]
        if self.max_length is not None and end > self.max_length:
            raise ValueError(
                f"{key.shape[2]} more tokens make {end}, above max_length={self.max_length}; make "
                f"the cache with max_length={end} or more, or call reset() before another sequence"
            )

    def __deepcopy__(self, memo: dict[int, object] | None = None) -> Self:
        """Copy the numbers, as beam search does for each beam; deepcopy alone refuses gradients."""
        twin = type(self)(self.max_length)
        if self._buffers is not None:
            twin._buffers = (self._buffers[0].clone(), self._buffers[1].clone())
        twin.length = self.length
        return twin

    # Two caches with one buffer would write over one another's tokens.
    __copy__ = __deepcopy__

    def __getstate__(self) -> dict[str, object]:
        """Leave out the layer, so that a cache can be pickled."""
        return {**vars(self), "_layer": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_length={self.max_length}, length={self.length})"


def _check_same(name: str, x: Tensor, other: str, y: Tensor, *, but: str) -> None:
    """Refuse x where anything but one axis is not as it is in y."""
    facts = ("batch", "key heads", "length", "width", "device", "dtype")
    of_x, of_y = (*x.shape, x.device, x.dtype), (*y.shape, y.device, y.dtype)
    for fact, ours, theirs in zip(facts, of_x, of_y, strict=True):
        if fact == but or ours == theirs:
            continue
        way_out = "one cache is for one layer and one batch, so make another or call reset()"
        if other == "key":
            way_out = "each key needs a value of its own, on its device and with its dtype"
        error = TypeError if fact == "dtype" else ValueError
        raise error(f"{name} has {fact} {ours}, but {other} has {theirs}; {way_out}")
