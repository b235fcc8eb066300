# SPDX-License-Identifier: Apache-2.0
"""Small tokenizers, each built of the steps that a family of models uses. They are trained on strings that the test makes."""
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

import strings

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = pre_tokenizers.ByteLevel.alphabet()
FALLBACK = [f"<0x{i:02X}>" for i in range(256)]


def special(*texts, **how):
    return [AddedToken(t, special=True, normalized=False, **how) for t in texts]


def train(tok, r, alphabet=(), first=(), size=1500):
    # A vocabulary with U+0000 is refused: its file names that in a key, which our reader of JSON does not take.
    corpus = [strings.string(r).replace("\0", "") for _ in range(3000)]
    trainer = trainers.BpeTrainer(vocab_size=size + len(first) + len(alphabet), show_progress=False, initial_alphabet=list(alphabet), special_tokens=list(first))
    tok.train_from_iterator(corpus, trainer)
    return tok


def byte_level(tok, r, *, prefix=False):
    tok.decoder = decoders.ByteLevel()
    return train(tok, r, BYTES)


def gpt2(r):
    tok = Tokenizer(BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    byte_level(tok, r)
    tok.add_special_tokens(special("<|endoftext|>"))
    return tok


def prefixed(r):
    tok = Tokenizer(BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tok.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    byte_level(tok, r)
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False), AddedToken("<pad>", rstrip=True, special=True, normalized=False)])
    tok.add_tokens([AddedToken("there", single_word=True), AddedToken("we", single_word=True, lstrip=True, rstrip=True)])
    return tok


def llama3(r):
    tok = Tokenizer(BPE(ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    byte_level(tok, r)
    tok.add_special_tokens(special("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", *[f"<|reserved_special_token_{i}|>" for i in range(30)]))
    begin = tok.token_to_id("<|begin_of_text|>")
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", special_tokens=[("<|begin_of_text|>", begin)])])
    return tok


def qwen2(r):
    tok = Tokenizer(BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    byte_level(tok, r)
    tok.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tok.add_tokens([AddedToken(t, normalized=False) for t in ("<tool_call>", "</tool_call>", "<think>", "</think>")])
    return tok


def o200k(r):
    tok = Tokenizer(BPE(ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(O200K), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return byte_level(tok, r)


def smollm(r):
    tok = Tokenizer(BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    byte_level(tok, r)
    tok.add_special_tokens(special("<|im_start|>", "<|im_end|>", "<repo_name>"))
    return tok


def deepseek(r):
    tok = Tokenizer(BPE())
    tok.normalizer = normalizers.Sequence([])
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex("[\r\n]"), "isolated"), pre_tokenizers.Split(Regex(r"\s?\p{L}+"), "isolated"),
        pre_tokenizers.Split(Regex(r"\s?\p{P}+"), "isolated"), pre_tokenizers.Split(Regex("[一-龥ࠀ-一가-퟿]+"), "isolated"),
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    byte_level(tok, r)
    tok.add_special_tokens(special("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"))
    tok.add_tokens([AddedToken("<｜User｜>", normalized=False)])
    return tok


def bytes_normalized(r):
    tok = Tokenizer(BPE())
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.ByteLevel()])
    tok.pre_tokenizer = pre_tokenizers.Digits(individual_digits=False)
    byte_level(tok, r)
    tok.add_tokens([AddedToken("über uns"), AddedToken("ﬁne")])
    return tok


def llama2(r):
    tok = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    train(tok, r, first=special("<unk>", "<s>", "</s>") + FALLBACK)
    tok.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tok


def gemma(r):
    tok = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Replace(" ", "▁")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    train(tok, r, first=special("<pad>", "<eos>", "<bos>", "<unk>") + FALLBACK)
    tok.add_special_tokens(special("<start_of_turn>", "<end_of_turn>"))
    tok.add_tokens([AddedToken("\n" * i, normalized=False) for i in range(2, 9)] + [AddedToken("▁" * i, normalized=False) for i in range(2, 9)])
    return tok


def metaspace(scheme, split):
    def make(r):
        tok = Tokenizer(BPE(unk_token="<unk>"))
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
        tok.decoder = decoders.Metaspace(prepend_scheme=scheme, split=split)
        train(tok, r, first=special("<unk>", "<s>"))
        tok.add_tokens([AddedToken("<sep>", normalized=False), AddedToken("You")])
        return tok
    return make


def words(r):
    tok = Tokenizer(BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    tok.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\s+"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_next"), pre_tokenizers.Digits(individual_digits=False)])
    train(tok, r, first=["[UNK]"])
    tok.add_tokens([AddedToken("Café"), AddedToken("HTTPServer", single_word=True)])
    return tok


def parts(r):
    tok = Tokenizer(BPE(unk_token="[UNK]", fuse_unk=True, continuing_subword_prefix="##"))
    tok.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFD()])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.Punctuation("contiguous")])
    return train(tok, r, first=["[UNK]"])


ALL = {"gpt2": gpt2, "prefixed": prefixed, "llama3": llama3, "qwen2": qwen2, "o200k": o200k, "smollm": smollm, "deepseek": deepseek,
       "bytes_normalized": bytes_normalized, "llama2": llama2, "gemma": gemma, "metaspace_first": metaspace("first", True),
       "metaspace_always": metaspace("always", False), "metaspace_never": metaspace("never", True), "words": words, "parts": parts}
