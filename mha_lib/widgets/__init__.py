"""The course's demos: live in Jupyter through mha_lib, live on the built site without a kernel.

Each demo is one Python class of traits (here) and one ES module (`js/`). In
Jupyter the Python side computes with mha_lib; on the built site the module's own
`compute` does, and a browser test holds the two together.
"""

from importlib.util import find_spec

if find_spec("anywidget") is None:
    raise ImportError(
        'the demos need anywidget, which is an extra: pip install "mha-course[widgets]"'
    )

from mha_lib.widgets.assets import site_assets
from mha_lib.widgets.base import CourseWidget
from mha_lib.widgets.copy_heads import CopyHeads
from mha_lib.widgets.cost_explorer import CostExplorer
from mha_lib.widgets.digit_heads import DigitHeads
from mha_lib.widgets.embedding_map import EmbeddingMap
from mha_lib.widgets.grammar_heads import GrammarHeads
from mha_lib.widgets.head_explorer import HeadExplorer
from mha_lib.widgets.head_pruning import HeadPruning
from mha_lib.widgets.letter_writer import LetterWriter
from mha_lib.widgets.mask_painter import MaskPainter
from mha_lib.widgets.meaning_by_layer import MeaningByLayer
from mha_lib.widgets.patch_attention import PatchAttention
from mha_lib.widgets.qkv_by_hand import QkvByHand
from mha_lib.widgets.quiz import quiz
from mha_lib.widgets.real_heads import RealHeads
from mha_lib.widgets.score_stepper import ScoreStepper
from mha_lib.widgets.shape_stepper import ShapeStepper
from mha_lib.widgets.soft_lookup import SoftLookup
from mha_lib.widgets.softmax_refresher import SoftmaxRefresher
from mha_lib.widgets.switchboard import Switchboard
from mha_lib.widgets.tiled_softmax import TiledSoftmax
from mha_lib.widgets.word_by_word import WordByWord
from mha_lib.widgets.word_order import WordOrder

__all__ = [
    "CopyHeads",
    "CostExplorer",
    "CourseWidget",
    "DigitHeads",
    "EmbeddingMap",
    "GrammarHeads",
    "HeadExplorer",
    "HeadPruning",
    "LetterWriter",
    "MaskPainter",
    "MeaningByLayer",
    "PatchAttention",
    "QkvByHand",
    "RealHeads",
    "ScoreStepper",
    "ShapeStepper",
    "SoftLookup",
    "SoftmaxRefresher",
    "Switchboard",
    "TiledSoftmax",
    "WordByWord",
    "WordOrder",
    "quiz",
    "site_assets",
]
