"""Attention shared by several processes: each gets some of the heads, or some of the sequence.

`tensor_parallel` deals out the heads, `ring_attention` (in ring.py) the sequence, and
`context_parallel` hands the sequence to torch's own ring. A program that uses them is started by
`torchrun --standalone --nproc-per-node 2 program.py`, and begins with

    torch.distributed.init_process_group("gloo")  # "nccl" on GPUs
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))  # or "cuda"
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, experimental
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from mha_lib.checks import either, nearest_divisors
from mha_lib.layer_checks import check_float_projections
from mha_lib.multihead import MultiHeadAttention
from mha_lib.ring import merge, ring_attention

__all__ = ["context_parallel", "merge", "ring_attention", "tensor_parallel"]


def tensor_parallel(layer: MultiHeadAttention, device_mesh: DeviceMesh) -> MultiHeadAttention:
    """Deal the heads of `layer` out to the ranks of `device_mesh` (Shoeybi et al. 2019, Megatron).

    Heads never meet before `out_proj`. So each rank keeps the rows of W_Q, W_K and W_V that make
    its own heads, and the columns of W_O that read them; one sum over the ranks gives each the
    whole output. Every rank passes the whole input, and gets its whole gradient. The weights
    become DTensors, filled from the first rank of the mesh.

    What is left on a rank is a layer of its own heads: num_heads and num_kv_heads count these, and
    the head axis of a mask, bias, head_mask, cache or trace is about these. `prune_heads` and a
    trace's `contributions` need the whole W_O: not after this. With dropout, seed each rank
    differently, or all drop the same weights.

    Args:
        layer: Changed in place.
        device_mesh: One axis of devices of the layer's kind, on which every rank must call this.

    Returns:
        `layer`.

    Raises:
        ValueError: A number of heads or key heads that the mesh does not divide.
        TypeError: `layer` is something else, or is quantised, or split already.

    >>> import torch
    >>> from torch import distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> layer = tensor_parallel(MultiHeadAttention(8, 2), dist.init_device_mesh("cpu", (1,)))
    >>> layer(torch.randn(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    >>> dist.destroy_process_group()
    """
    if not isinstance(layer, MultiHeadAttention):
        raise TypeError(
            f"layer is of type {type(layer).__name__}; tensor_parallel takes a MultiHeadAttention, "
            "so call it on each one that your model has"
        )
    if isinstance(layer.q_proj.weight, DTensor):
        raise TypeError("layer is split over ranks already; split a layer once")
    check_float_projections(layer, "split it")
    ranks = device_mesh.size()
    for name, heads in (("num_heads", layer.num_heads), ("num_kv_heads", layer.num_kv_heads)):
        if heads % ranks:
            raise ValueError(
                f"{name}={heads} is not divisible by the {ranks} ranks of device_mesh, and no head "
                f"is cut; use {either(nearest_divisors(heads, ranks))} ranks"
            )
    # Named for x @ W: nn.Linear holds W transposed, so its rows are the columns that are meant.
    plan = dict.fromkeys(("q_proj", "k_proj", "v_proj"), ColwiseParallel())
    parallelize_module(layer, device_mesh, {**plan, "out_proj": RowwiseParallel()})
    layer.num_heads //= ranks
    layer.num_kv_heads //= ranks
    if layer.positions == "alibi":
        layer.slopes = layer.slopes.chunk(ranks)[device_mesh.get_local_rank()]
    return layer


def context_parallel(
    device_mesh: DeviceMesh, *, buffers: Sequence[Tensor], seq_dims: Sequence[int]
) -> AbstractContextManager[None]:
    """Inside a `with`, let torch's own ring compute causal self-attention on CUDA devices.

    A thin cover for `torch.distributed.tensor.experimental.context_parallel`, which is a prototype.
    It has not been run with this library, which was made on a machine without CUDA.

    Inside, each buffer is cut to this rank's part of the sequence, and torch's
    `scaled_dot_product_attention` is a ring: use the backend "sdpa", causal=True, as many key
    heads as heads, and no mask, bias or window. A rank gets one early and one late part, so that
    all have as much to do; `positions` of a layer would number these wrongly, so add positions
    before, or pass them as a buffer. Run the backward pass inside too.

    Args:
        device_mesh: One axis of "cuda" devices.
        buffers: Every tensor with a sequence axis: the input, the targets.
        seq_dims: Which axis that is, for each buffer.

    Raises:
        ValueError: A mesh of other devices, or a sequence whose length is not a multiple of twice
            the number of ranks.
    """
    if device_mesh.device_type != "cuda":
        raise ValueError(
            f"context_parallel needs a mesh of CUDA devices, but device_mesh is of "
            f"{device_mesh.device_type!r}; use ring_attention, which runs anywhere"
        )
    parts = 2 * device_mesh.size()
    for buffer, dim in zip(buffers, seq_dims, strict=True):
        if buffer.shape[dim] % parts:
            raise ValueError(
                f"axis {dim} of a buffer of shape {tuple(buffer.shape)} is not divisible into "
                f"{parts} parts, two for each rank; pad the sequence to a multiple of {parts}"
            )
    return experimental.context_parallel(
        device_mesh, buffers=list(buffers), buffer_seq_dims=list(seq_dims)
    )
