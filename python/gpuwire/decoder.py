# SPDX-License-Identifier: Apache-2.0
"""Causal language models of transformers as networks of steps: rows of any lanes, keys and values in pages.

A step has rows. Each is one token at one position of one lane (src/generate/step/step.h says more). transformers calls
attention through a table of functions, so an entry of ours puts keys and values into pages and attends to them. All
other layers see a batch of one sequence, and work on rows alone."""
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import errors

PAGE = 16  # tokens: GEN_PAGE
SIZES = (1, 2, 4, 8, 16, 32, 64, 256, 1024)  # rows that graphs are captured for
_NAME = "gpuwire"  # of the entries in transformers' tables
_RUN_WORDS = 4  # uint32 words of a struct gen_run
_STEP_WORDS = 24  # of a struct gen_step


class Shape(NamedTuple):
    """What the cache and the scheduler must know of a model."""
    vocab: int
    context: int  # positions that it knows
    layers: int
    heads: int  # of keys and values
    width: int  # elements of a head of keys, or of values: the larger one


class Memory(NamedTuple):
    """Tensors that graphs and scheduler share. All lie on the model's device."""
    step: Any  # the struct itself, as words
    token: Any
    position: Any
    lane: Any
    run: Any
    out: Any
    page: Any
    cache: Any  # [layers, 2, pages, heads, PAGE, width]
    logits: Any  # float32 [lanes, vocab]


class Attention(NamedTuple):
    """One call of attention: keys and values of these rows go into the cache, then each row attends to its lane."""
    memory: Memory
    rows: int
    layer: int
    query: Any  # [rows, heads, width of keys], in C order
    key: Any  # [rows, heads of keys, width of keys]
    value: Any  # [rows, heads of keys, width of values]
    out: Any  # [rows, heads, width of values]
    scale: float
    window: int  # 0: none
    cap: float  # of the scores; 0: none
    sink: Optional[Any]  # [heads]: one more score for each softmax


Attend = Callable[[Attention], None]


def shape(model: Any, name: str) -> Shape:
    """Reads a model's configuration. Unsupported: it is no decoder whose attention can be replaced."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or [])
    other = kinds - {"full_attention", "sliding_attention", "chunked_attention"}
    if other or "chunked_attention" in kinds:
        raise errors.Unsupported(f"model {name}: its layers of type {', '.join(sorted(other or kinds))} keep more than keys "
                                 "and values, or see less; models of full and sliding attention work")
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Shape(vocab=config.vocab_size, context=getattr(config, "max_position_embeddings", None) or 2**31 - 1,
                 layers=config.num_hidden_layers, heads=getattr(config, "num_key_value_heads", None) or heads, width=width)


def memory(torch: Any, device: Any, dtype: Any, what: Shape, lanes: int, context: int, pages: int,
           max_rows: int) -> Memory:
    """Takes the memory of a decoder. Zeroed, so that the page of a row without a lane exists."""
    def words(*dims: int) -> Any:
        return torch.zeros(dims, dtype=torch.int32, device=device)

    return Memory(step=words(_STEP_WORDS), token=words(max_rows), position=words(max_rows), lane=words(max_rows),
                  run=words(max_rows, _RUN_WORDS), out=words(lanes), page=words(lanes, -(-context // PAGE)),
                  cache=torch.zeros((what.layers, 2, pages, what.heads, PAGE, what.width), dtype=dtype, device=device),
                  logits=torch.zeros((lanes, what.vocab), dtype=torch.float32, device=device))


class Decoder:
    """A model whose attention goes through pages while `with` lasts.

        with Decoder(model, memory, attend, name) as decoder:
            decoder.run(rows)        # or is captured
    """

    def __init__(self, model: Any, where: Memory, attend: Attend, name: str):
        self._model, self._memory, self._attend, self._name = model, where, attend, name
        self._rows = 0
        self._calls: List[int] = []
        self._before: Any = None

    def __enter__(self) -> "Decoder":
        _register()
        config = self._model.config.get_text_config()
        self._before = getattr(config, "_attn_implementation", None)
        if not _replaces(self._model):
            raise errors.Unsupported(f"model {self._name}: {type(self._model).__name__} does not take its attention from "
                                     "transformers' table of functions, so that keys and values cannot lie in pages")
        _current.append(self)
        return self

    def __exit__(self, *why: Any) -> None:
        _current.remove(self)
        if self._before is not None:
            self._model.set_attn_implementation(self._before)

    def run(self, rows: int) -> None:
        """One step of `rows` rows, which lie in the memory. Writes the logits of the wanted ones."""
        m, self._rows = self._memory, rows
        wanted = min(rows, m.out.shape[0])
        self._calls.clear()
        # Entries beyond the wanted rows are left over from earlier, larger steps.
        keep = m.out[:wanted].clamp(0, rows - 1).long()
        position = m.position[:rows].long()[None]
        result = self._model(input_ids=m.token[:rows].long()[None], position_ids=position, use_cache=False,
                             logits_to_keep=keep)
        m.logits[:wanted].copy_(result.logits[0])

    def check(self) -> None:
        """After a run: was each layer's attention ours, once?"""
        layers = self._memory.cache.shape[0]
        if sorted(self._calls) != list(range(layers)):
            raise errors.Unsupported(f"model {self._name}: {len(self._calls)} calls of attention in a pass of {layers} "
                                     "layers; each layer must call it once")

    def attention(self, module: Any, query: Any, key: Any, value: Any, options: Dict[str, Any]) -> Tuple[Any, None]:
        """transformers' call, with tensors [1, heads, rows, width]."""
        q, k, v = (t[0].transpose(0, 1).contiguous() for t in (query, key, value))
        out = q.new_empty((q.shape[0], q.shape[1], v.shape[2]))
        scale = options.get("scaling")
        self._calls.append(module.layer_idx)
        self._attend(Attention(self._memory, self._rows, module.layer_idx, q, k, v, out,
                               scale if scale is not None else q.shape[2]**-0.5, options.get("sliding_window") or 0,
                               options.get("softcap") or 0.0, options.get("s_aux")))
        return out[None], None


_current: List[Decoder] = []  # the one that is inside its `with`


def _register() -> None:
    """Adds our entries to transformers' tables: an attention, and masks that it does not need."""
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface
    except ImportError:
        raise errors.Unsupported("a decoder needs transformers 4.56 or newer, which takes attention from a table; install "
                                 "it, or give the model's folder") from None

    def attention(module: Any, query: Any, key: Any, value: Any, _mask: Any, **options: Any) -> Tuple[Any, None]:
        if not _current:
            raise errors.Error("the attention \"gpuwire\" works while a generator is captured alone")
        return _current[-1].attention(module, query, key, value, options)

    AttentionInterface.register(_NAME, attention)
    AttentionMaskInterface.register(_NAME, lambda *_, **__: None)


def _replaces(model: Any) -> bool:
    """Takes the model its attention from the table?"""
    if not getattr(model, "_supports_attention_backend", False):
        return False
    model.set_attn_implementation(_NAME)
    return model.config.get_text_config()._attn_implementation == _NAME
