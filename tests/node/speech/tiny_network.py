"""A translation network of a few kilobytes with random weights, in the form CTranslate2 loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_WIDTH, _INNER, _LONGEST = 16, 32, 300
_SENTENCES = "\n".join(
    f"the cat sat on the mat and the dog ran over hill number {number}" for number in range(99)
)


def write_network(folder: Path, languages: list[str]) -> None:
    """Write `model.bin`, its vocabulary and `sentencepiece.bpe.model`."""
    import sentencepiece  # noqa: PLC0415
    from ctranslate2.specs.transformer_spec import TransformerSpec  # noqa: PLC0415

    (folder / "text").write_text(_SENTENCES)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=80,
        model_type="bpe",
        minloglevel=3,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    words = [pieces.id_to_piece(number) for number in range(3, pieces.get_piece_size())]
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *words, *languages]
    spec = TransformerSpec.from_config(num_layers=1, num_heads=2, pre_norm=True)
    _fill(spec, len(vocabulary))
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def _fill(spec: Any, words: int) -> None:
    import numpy as np  # noqa: PLC0415

    chance = np.random.default_rng(0)

    def some(*shape: int) -> Any:
        return chance.normal(size=shape).astype(np.float32)

    def linear(layer: Any, out: int, inside: int) -> None:
        layer.weight, layer.bias = some(out, inside), np.zeros(out, np.float32)

    def norm(layer: Any) -> None:
        layer.gamma, layer.beta = np.ones(_WIDTH, np.float32), np.zeros(_WIDTH, np.float32)

    def attention(layer: Any, *rows: int) -> None:
        norm(layer.layer_norm)
        for part, out in zip(layer.linear, rows, strict=True):
            linear(part, out * _WIDTH, _WIDTH)

    def forward(layer: Any) -> None:
        norm(layer.layer_norm)
        linear(layer.linear_0, _INNER, _WIDTH)
        linear(layer.linear_1, _WIDTH, _INNER)

    positions = some(_LONGEST, _WIDTH)
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = positions
        side.scale_embeddings = True
        norm(side.layer_norm)
        for layer in side.layer:
            attention(layer.self_attention, 3, 1)
            forward(layer.ffn)
    for layer in spec.decoder.layer:
        attention(layer.attention, 1, 2, 1)
    spec.encoder.embeddings[0].weight = some(words, _WIDTH)
    spec.decoder.embeddings.weight = some(words, _WIDTH)
    linear(spec.decoder.projection, words, _WIDTH)
