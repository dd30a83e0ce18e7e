"""The Python side of the cost explorer."""

import re
from itertools import pairwise

import pytest

from mha_lib import layer_cost
from mha_lib.cost import MODELS, model_cost
from mha_lib.widgets import CostExplorer, assets
from mha_lib.widgets.cost_explorer import BATCHES, LENGTHS, SEES
from tests.widgets.refusals import assert_refused

FLOPS = ("projections", "products", "feed_forward", "ends")


@pytest.mark.parametrize("model", MODELS)
def test_the_parts_are_all_that_model_cost_counts(model: str) -> None:
    seq = MODELS[model].positions
    demo = CostExplorer(model=model, seq=seq, batch=4)
    now, cost = demo.result["now"], model_cost(model, batch=4, bytes_per_number=2)
    assert sum(now[name] for name in FLOPS) == cost.forward_flops
    assert now["projections"] == cost.projection_flops
    assert now["products"] == cost.product_flops
    assert now["score_bytes"] == cost.score_bytes
    assert now["kv_cache_bytes"] == cost.kv_cache_bytes
    assert demo.result["weight_bytes"] == 2 * cost.parameters
    # The two matrices of a feed-forward layer hold twice what the four projections do.
    assert now["feed_forward"] == 2 * now["projections"]
    assert now["ends"] > 0


def test_it_opens_where_scores_are_few_and_grow_fastest() -> None:
    result = CostExplorer().result
    now, doubled = result["now"], result["doubled"]
    assert (result["model"], result["seq"]) == ("gpt3", 2048)
    assert now["products"] < 0.03 * sum(now[name] for name in FLOPS)
    growth = {name: doubled[name] / now[name] for name in now}
    assert growth.pop("products") == growth.pop("score_bytes") == 4
    assert set(growth.values()) == {2}


@pytest.mark.parametrize("model", MODELS)
def test_at_the_crossing_products_cost_what_projections_do(model: str) -> None:
    heads = MODELS[model].num_heads
    for num_kv_heads in (heads, 1):
        demo = CostExplorer(model=model, num_kv_heads=num_kv_heads)
        demo.seq = demo.result["crossing"]
        assert demo.result["now"]["products"] == demo.result["now"]["projections"]
    assert CostExplorer(model=model).result["crossing"] == 2 * MODELS[model].embed_dim


def test_a_window_takes_the_square_away() -> None:
    demo = CostExplorer(model="gpt2-small", seq=8192, sees=1024)
    now, doubled = demo.result["now"], demo.result["doubled"]
    assert doubled["products"] == 2 * now["products"]
    assert doubled["score_bytes"] == 2 * now["score_bytes"]
    assert doubled["kv_cache_bytes"] == now["kv_cache_bytes"]
    assert demo.result["crossing"] is None
    full = CostExplorer(model="gpt2-small", seq=8192).result["now"]
    assert full["products"] == 8 * now["products"]
    assert full["projections"] == now["projections"]
    # A window that is wider than the text hides nothing.
    demo.seq = 512
    assert demo.result["now"] == CostExplorer(model="gpt2-small", seq=512).result["now"]
    demo.sees = 4096
    assert demo.result["crossing"] == 1536


def test_fewer_key_heads_make_cache_and_projections_smaller() -> None:
    demo = CostExplorer(num_kv_heads=8)
    layer = layer_cost(12288, 96, num_kv_heads=8, seq=2048, bytes_per_number=2)
    assert demo.result["now"]["kv_cache_bytes"] == 96 * layer.kv_cache_bytes
    assert demo.result["now"]["projections"] == 96 * layer.projection_flops
    all_heads = CostExplorer().result
    saved = layer_cost(12288, 96, seq=1).parameters - layer.parameters
    assert all_heads["weight_bytes"] - demo.result["weight_bytes"] == 2 * 96 * saved
    assert all_heads["now"]["score_bytes"] == demo.result["now"]["score_bytes"]


def test_only_models_that_generate_keep_a_cache() -> None:
    for model, sizes in MODELS.items():
        cache = CostExplorer(model=model).result["now"]["kv_cache_bytes"]
        assert bool(cache) == sizes.generates


def test_another_model_has_all_of_its_own_key_heads() -> None:
    demo = CostExplorer(num_kv_heads=8)
    demo.model = "gpt2-xl"
    assert demo.num_kv_heads == 25
    assert CostExplorer(model="bert-base").num_kv_heads == 12


def test_the_curve_is_what_each_length_costs() -> None:
    demo = CostExplorer(model="vit-b-16", batch=2)
    curve = demo.result["curve"]
    for place, length in enumerate(LENGTHS):
        demo.seq = length
        assert {name: curve[name][place] for name in curve} == {
            name: demo.result["now"][name] for name in curve
        }
    assert all(1.3 < later / earlier <= 1.5 for earlier, later in pairwise(LENGTHS))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seq", 15, "seq=15 is outside 16 to 131072; give a length between them"),
        ("seq", 131073, "seq=131073 is outside"),
        ("num_kv_heads", 5, "cannot be shared equally by the 96 heads of gpt3; use one of 1, 2,"),
        ("num_kv_heads", 0, "num_kv_heads=0 cannot be shared"),
        ("model", "gpt4", "'gpt2-xl'"),
        ("batch", 3, "64"),
        ("sees", 1000, "1024"),
    ],
)
def test_what_cannot_be_used_is_refused(name: str, value: object, message: str) -> None:
    assert_refused(CostExplorer, name, value, message)


def test_every_text_that_may_be_needed_is_there() -> None:
    texts = assets.strings("en")["cost_explorer"]
    assert {f"model_{name}" for name in MODELS} == {key for key in texts if key[:6] == "model_"}
    assert {f"part_{name}" for name in CostExplorer().result["now"]} <= texts.keys()
    assert (BATCHES[0], SEES[0]) == (1, None)


def test_a_reader_without_javascript_gets_the_table() -> None:
    table = CostExplorer().fallback()
    rows = re.findall(r"<code>(\w+)</code></th><td>([\d,]+)</td><td>([\d,]+)</td>", table)
    now, doubled = CostExplorer().result["now"], CostExplorer().result["doubled"]
    assert {name: int(cell.replace(",", "")) for name, cell, _ in rows} == now
    assert {name: int(cell.replace(",", "")) for name, _, cell in rows} == doubled
