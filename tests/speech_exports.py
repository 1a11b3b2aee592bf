"""Streaming speech encoders with the names, shapes and metadata that exporters write; weights are random.

sherpa-onnx's scripts for NeMo's models and icefall's for zipformer say what these are; no code is theirs.
"""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.scripts import load_script

torch = pytest.importorskip("torch")
nn = torch.nn

ROOT = Path(__file__).parents[1]
PROMPTS = {"auto": 3, "en-US": 0, "ja-JP": 2, "pt-BR": 1}
TOKENS = 12
WIDTH, TEXT = 16, 6


def export(
    module: Any,
    path: Path,
    inputs: Mapping[str, Any],
    outputs: list[str],
    axes: Mapping[str, Mapping[int, str]],
    metadata: Mapping[str, object] | None = None,
) -> Path:
    """Write a module as these exporters do."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=outputs,
            dynamic_axes={name: dict(one) for name, one in axes.items()},
            opset_version=17,
            dynamo=False,
        )
    document = onnx.load(path)
    onnx.helper.set_model_props(document, {key: str(value) for key, value in (metadata or {}).items()})
    onnx.save(document, path)
    return path


def cache_aware(layers: int, context: int, kernel: int, bins: int = 128) -> Any:
    """A cache-aware FastConformer."""
    with pytest.MonkeyPatch.context() as patch:
        model = load_script(ROOT / "models" / "streaming-encoder" / "model.py", patch)
    torch.manual_seed(0)
    return model.StreamingEncoder(model.Size(layers, WIDTH, 2, bins, 4, context, kernel, TOKENS, 32))


def of_cache_aware(encoder: Any, hop: int) -> tuple[dict[str, Any], dict[str, dict[int, str]], dict[str, object]]:
    """Inputs, names of dimensions, and metadata as sherpa-onnx's scripts for NeMo give such an encoder."""
    size, window = encoder.size, hop + 9
    channel, time, filled = encoder.empty_state(1)
    inputs = {
        "audio_signal": torch.zeros(1, size.features, window),
        "length": torch.full((1,), window),
        "cache_last_channel": channel,
        "cache_last_time": time,
        "cache_last_channel_len": filled,
    }
    batch = {0: "batch"}
    axes = dict.fromkeys(("length", "cache_last_channel_len", "encoded_lengths", "cache_last_channel_next_len"), batch)
    axes |= {"audio_signal": {0: "batch", 2: "time"}}
    axes |= {f"cache_last_channel{end}": {0: "batch", 2: "cache_channel_time"} for end in ("", "_next")}
    axes |= {f"cache_last_time{end}": {0: "batch", 3: "cache_time_width"} for end in ("", "_next")}
    metadata = {
        "vocab_size": TOKENS,
        "window_size": window,
        "chunk_size_ms": 10 * hop,
        "chunk_shift": hop,
        "normalize_type": "",
        "cache_last_channel_dim1": size.layers,
        "cache_last_channel_dim2": size.context,
        "cache_last_channel_dim3": WIDTH,
        "cache_last_time_dim1": size.layers,
        "cache_last_time_dim2": WIDTH,
        "cache_last_time_dim3": size.kernel - 1,
        "pred_rnn_layers": 2,
        "pred_hidden": TEXT,
        "subsampling_factor": 8,
        "feat_dim": size.features,
    }
    return inputs, axes, metadata


def nemotron(folder: Path, *, layers: int = 2, context: int = 6, kernel: int = 5, hop: int = 56) -> Path:
    """nemotron-3.5-asr-streaming: a cache-aware FastConformer, and the number of a language for each stream."""
    encoder = cache_aware(layers, context, kernel)

    class Prompted(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.prompt_kernel = encoder, nn.Linear(WIDTH + len(PROMPTS), WIDTH)

        def forward(self, signal: Any, length: Any, channel: Any, time: Any, filled: Any, prompt_index: Any) -> Any:
            encoded, lengths, _, channel, time, filled = self.encoder(signal, length, channel, time, filled)
            encoded = encoded.transpose(1, 2)
            prompt = torch.zeros(encoded.shape[0], encoded.shape[1], len(PROMPTS))
            chosen = prompt_index.view(encoded.shape[0], 1, 1).expand(-1, encoded.shape[1], -1)
            prompt = prompt.scatter(2, chosen, 1.0)
            encoded = self.prompt_kernel(torch.cat([encoded, prompt], -1)).transpose(1, 2)
            return encoded, lengths, channel, time, filled

    inputs, axes, metadata = of_cache_aware(encoder, hop)
    inputs["prompt_index"] = torch.full((1,), 3)
    axes |= {"prompt_index": {0: "batch"}, "outputs": {0: "batch", 2: "time"}}
    metadata |= {
        "model_type": "EncDecRNNTBPEModelWithPrompt",
        "prompt_dictionary": json.dumps(PROMPTS, sort_keys=True),
        "auto_prompt_id": 3,
    }
    outputs = ["outputs", "encoded_lengths", "cache_last_channel_next", "cache_last_time_next"]
    return export(
        Prompted(), folder / "encoder.onnx", inputs, [*outputs, "cache_last_channel_next_len"], axes, metadata
    )


def nemo_ctc(folder: Path, *, layers: int = 2, context: int = 6, kernel: int = 5, hop: int = 56) -> Path:
    """sherpa-onnx's streaming FastConformer with CTC: log-probabilities of tokens, and the caches."""
    encoder = cache_aware(layers, context, kernel, 80)

    class Scored(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, *given: Any) -> Any:
            _, lengths, scores, channel, time, filled = self.encoder(*given)
            return scores.log_softmax(-1), lengths, channel, time, filled

    inputs, axes, metadata = of_cache_aware(encoder, hop)
    axes |= {"logprobs": {0: "batch", 1: "time"}}
    metadata |= {"model_type": "EncDecHybridRNNTCTCBPEModel"}
    outputs = ["logprobs", "encoded_lengths", "cache_last_channel_next", "cache_last_time_next"]
    return export(Scored(), folder / "model.onnx", inputs, [*outputs, "cache_last_channel_next_len"], axes, metadata)


class Offline(nn.Module):  # type: ignore[misc]
    """An encoder that sees a whole window: subsampling by 8, and frames mixed with those around them."""

    def __init__(self, around: int = 3) -> None:
        super().__init__()
        self.subsampling = nn.Conv1d(128, WIDTH, 9, 8, 4)
        self.around = nn.Conv1d(WIDTH, WIDTH, 2 * around + 1, padding=around)

    def forward(self, audio_signal: Any, length: Any) -> Any:
        lengths = (length + 7) // 8
        heard = torch.arange(audio_signal.shape[2]) < length.unsqueeze(1)
        frames = torch.relu(self.subsampling(audio_signal * heard.unsqueeze(1)))
        valid = torch.arange(frames.shape[2]) < lengths.unsqueeze(1)
        frames = frames * valid.unsqueeze(1)
        return frames + torch.tanh(self.around(frames)), lengths


NEMO_AXES = {
    "audio_signal": {0: "audio_signal_dynamic_axes_1", 2: "audio_signal_dynamic_axes_2"},
    "length": {0: "length_dynamic_axes_1"},
    "outputs": {0: "outputs_dynamic_axes_1", 2: "outputs_dynamic_axes_2"},
    "encoded_lengths": {0: "encoded_lengths_dynamic_axes_1"},
}


def parakeet_unified(folder: Path, *, left: int = 70, chunk: int = 7, right: int = 7) -> Path:
    """parakeet-unified, buffered: no state, windows that overlap, of which the middle counts."""
    torch.manual_seed(1)
    window = 8 * (left + chunk + right)
    inputs = {"audio_signal": torch.zeros(1, 128, window), "length": torch.full((1,), window)}
    metadata = {
        "vocab_size": TOKENS,
        "normalize_type": "per_feature",
        "pred_rnn_layers": 2,
        "pred_hidden": TEXT,
        "subsampling_factor": 8,
        "model_type": "EncDecRNNTBPEModel",
        "model_author": "NeMo",
        "streaming_model_type": "buffered_nemo_rnnt",
        "buffered_streaming": 1,
        "buffer_left_encoder_frames": left,
        "buffer_chunk_encoder_frames": chunk,
        "buffer_right_encoder_frames": right,
        "buffer_left_feature_frames": 8 * left,
        "buffer_chunk_feature_frames": 8 * chunk,
        "buffer_right_feature_frames": 8 * right,
        "feat_dim": 128,
        "latency": f"{80 * (chunk + right)}ms",
    }
    return export(Offline(), folder / "encoder.onnx", inputs, ["outputs", "encoded_lengths"], NEMO_AXES, metadata)


def parakeet_tdt(folder: Path) -> Path:
    """parakeet-tdt: offline; every call is a whole utterance."""
    torch.manual_seed(2)
    inputs = {"audio_signal": torch.zeros(1, 128, 400), "length": torch.full((1,), 400)}
    metadata = {
        "vocab_size": TOKENS,
        "normalize_type": "per_feature",
        "pred_rnn_layers": 2,
        "pred_hidden": TEXT,
        "subsampling_factor": 8,
        "model_type": "EncDecRNNTBPEModel",
        "model_author": "NeMo",
        "feat_dim": 128,
    }
    return export(Offline(), folder / "encoder.onnx", inputs, ["outputs", "encoded_lengths"], NEMO_AXES, metadata)


class Zipformer(nn.Module):  # type: ignore[misc]
    """Six caches a layer, one of the subsampling, and the number of frames that were processed."""

    def __init__(self, layers: int, left: int, width: int) -> None:
        super().__init__()
        self.left, self.layers = left, layers
        self.embed = nn.Conv2d(1, 4, (7, 3), (2, 2), (0, 1))
        self.convnext = nn.Conv2d(4, 4, (4, 3), padding=(0, 1), groups=4)
        self.project = nn.Linear(4 * 40, WIDTH)
        self.keys, self.values, self.others, self.gates = (
            nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers)) for _ in range(4)
        )
        self.convs = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 4, groups=WIDTH) for _ in range(2 * layers))
        self.out = nn.Linear(WIDTH, width)

    def states(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for layer in range(self.layers):
            for name, shape in (
                ("key", (self.left, 1, WIDTH)),
                ("nonlin_attn", (1, 1, self.left, WIDTH)),
                ("val1", (self.left, 1, WIDTH)),
                ("val2", (self.left, 1, WIDTH)),
                ("conv1", (1, WIDTH, 3)),
                ("conv2", (1, WIDTH, 3)),
            ):
                found[f"cached_{name}_{layer}"] = torch.zeros(shape)
        found["embed_states"] = torch.zeros(1, 4, 3, 40)
        found["processed_lens"] = torch.zeros(1, dtype=torch.int64)
        return found

    def forward(self, x: Any, *states: Any) -> Any:
        *caches, embedded, processed = states
        seen = torch.relu(self.embed(x.unsqueeze(1)))
        whole = torch.cat([embedded, seen], 2)
        new = [whole[:, :, -3:]]
        seen = torch.relu(self.convnext(whole)[:, :, : seen.shape[2]])
        frames = self.project(seen.transpose(1, 2).flatten(2)).transpose(0, 1)  # [T, N, D]
        count = frames.shape[0]
        place = torch.arange(self.left + count)
        # of the cache, so many are filled
        filled = place.unsqueeze(0) >= (self.left - torch.clamp(processed, max=self.left)).unsqueeze(1)
        found = []
        for layer in range(self.layers):
            key, attended, first, second, conv1, conv2 = caches[6 * layer : 6 * layer + 6]
            keys = torch.cat([key, self.keys[layer](frames)])
            values = torch.cat([first, self.values[layer](frames)])
            others = torch.cat([second, self.others[layer](frames)])
            gates = torch.cat([attended[0].transpose(0, 1), torch.tanh(self.gates[layer](frames))])
            scores = torch.einsum("tnd,snd->nts", frames, keys) / 4
            weights = torch.where(filled.unsqueeze(1), scores, torch.tensor(-1e4)).softmax(-1)
            mixed = torch.einsum("nts,snd->tnd", weights, values + others * gates)
            one = torch.cat([conv1, (frames + mixed).permute(1, 2, 0)], 2)
            two = torch.cat([conv2, frames.permute(1, 2, 0)], 2)
            frames = frames + (self.convs[2 * layer](one) + self.convs[2 * layer + 1](two)).permute(2, 0, 1)
            found += [keys[-self.left :], gates[-self.left :].transpose(0, 1).unsqueeze(0), values[-self.left :]]
            found += [others[-self.left :], one[:, :, -3:], two[:, :, -3:]]
        return self.out(frames.transpose(0, 1)), *found, *new, processed + count


def zipformer(folder: Path, *, layers: int = 2, left: int = 8, hop: int = 32, ctc: bool = False) -> Path:
    """icefall's streaming zipformer: windows of 45 frames every 32, the batch in dimension 0 or 1; or its CTC."""
    torch.manual_seed(3)
    model = Zipformer(layers, left, TOKENS if ctc else WIDTH)
    states = model.states()
    places = {name: 1 if name[7:10] in ("key", "non", "val") else 0 for name in states}
    axes = {name: {place: "N"} for name, place in places.items()}
    axes |= {f"new_{name}": {place: "N"} for name, place in places.items()}
    frames = "log_probs" if ctc else "encoder_out"
    axes |= {"x": {0: "N"}, frames: {0: "N"}}
    metadata = {
        "model_type": "zipformer",
        "version": "1",
        "model_author": "k2-fsa",
        "decode_chunk_len": hop,
        "T": hop + 13,
        "num_encoder_layers": str(layers),
        "left_context_len": str(left),
    }
    inputs = {"x": torch.rand(1, hop + 13, 80), **states}
    file = "ctc-epoch-99-avg-1.onnx" if ctc else "encoder-epoch-99-avg-1.onnx"
    return export(model, folder / file, inputs, [frames, *(f"new_{name}" for name in states)], axes, metadata)


def icefall_ctc(folder: Path, **sizes: int) -> Path:
    """icefall's streaming zipformer with CTC: log-probabilities of tokens."""
    return zipformer(folder, ctc=True, **sizes)


class Conformer(nn.Module):  # type: ignore[misc]
    """Attention over a cache of `left` frames, whose filled part only the number of processed frames says."""

    def __init__(self, layers: int, left: int) -> None:
        super().__init__()
        self.left, self.embed, self.out = left, nn.Conv1d(80, WIDTH, 12, 4), nn.Linear(WIDTH, WIDTH)
        self.keys = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.convs = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 5, groups=WIDTH) for _ in range(layers))

    def forward(self, x: Any, cached_attn: Any, cached_conv: Any, processed_lens: Any) -> Any:
        frames = torch.tanh(self.embed(x.transpose(1, 2))).permute(2, 0, 1)  # [T, N, D]
        unfilled = torch.arange(self.left).flip(0) >= processed_lens.view(-1, 1)
        hidden = torch.cat([unfilled, torch.zeros(x.shape[0], frames.shape[0], dtype=torch.bool)], 1)
        held, ends = [], []
        for layer, (key, conv) in enumerate(zip(self.keys, self.convs, strict=True)):
            seen = torch.cat([cached_attn[layer], frames])
            scores = torch.einsum("tnd,snd->nts", key(frames), seen).masked_fill(hidden.unsqueeze(1), -1e4)
            frames = frames + torch.einsum("nts,snd->tnd", scores.softmax(-1), seen)
            whole = torch.cat([cached_conv[layer], frames])
            held, ends = [*held, seen[-self.left :]], [*ends, whole[-4:]]
            frames = frames + torch.tanh(conv(whole.permute(1, 2, 0))).permute(2, 0, 1)
        return self.out(frames.transpose(0, 1)), torch.stack(held), torch.stack(ends)


def conformer(folder: Path, *, layers: int = 2, left: int = 20, chunk: int = 8) -> Path:
    """icefall's streaming conformer: windows of 43 frames every 32, the batch in dimension 2, a number to count."""
    torch.manual_seed(5)
    inputs = {
        "x": torch.zeros(1, 4 * chunk + 11, 80),
        "cached_attn": torch.zeros(layers, left, 1, WIDTH),
        "cached_conv": torch.zeros(layers, 4, 1, WIDTH),
        "processed_lens": torch.zeros(1, dtype=torch.int64),
    }
    axes = {name: {2 if "cached" in name else 0: "N"} for name in (*inputs, "encoder_out")}
    axes |= {f"new_{name}": axes[name] for name in ("cached_attn", "cached_conv")}
    metadata = {
        "model_type": "conformer",
        "model_author": "k2-fsa",
        "pad_length": 11,
        "decode_chunk_len": 4 * chunk,
        "cnn_module_kernel": 5,
        "left_context": left,
        "chunk_size": chunk,
        "T": 4 * chunk + 11,
    }
    outputs = ["encoder_out", "new_cached_attn", "new_cached_conv"]
    return export(Conformer(layers, left), folder / "encoder-epoch-9-avg-1.onnx", inputs, outputs, axes, metadata)


class WeNet(nn.Module):  # type: ignore[misc]
    """A conformer with CTC, a cache of keys and values, and places that the caller counts."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embed, self.places = nn.Conv1d(80, WIDTH, 7, 4), nn.Embedding(50, WIDTH)
        self.keys = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(layers))
        self.convs = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 5, groups=WIDTH) for _ in range(layers))
        self.ctc = nn.Linear(WIDTH, TOKENS)

    def forward(self, x: Any, offset: Any, required_cache_size: Any, attn: Any, conv_cache: Any, mask: Any) -> Any:
        frames = torch.tanh(self.embed((x / 8).transpose(1, 2)).transpose(1, 2))
        place = offset - required_cache_size + torch.arange(frames.shape[1])
        frames = frames + self.places(place % 50)
        held, ends = [], []
        for layer, (key, conv) in enumerate(zip(self.keys, self.convs, strict=True)):
            both = torch.cat([attn[layer], key(frames)], 1)
            keys, values = both.chunk(2, -1)
            scores = (frames @ keys.transpose(1, 2)).masked_fill(~mask, -1e4)
            frames = frames + scores.softmax(-1) @ values
            whole = torch.cat([conv_cache[layer], frames.transpose(1, 2)], 2)
            held, ends = [*held, both[:, -attn.shape[2] :]], [*ends, whole[:, :, -4:]]
            frames = frames + torch.tanh(conv(whole)).transpose(1, 2)
        return self.ctc(8 * frames).log_softmax(-1), torch.stack(held), torch.stack(ends)


def wenet(folder: Path, *, layers: int = 2, chunk: int = 16, left: int = 2) -> Path:
    """WeNet's encoder by sherpa-onnx's script, which calls three sizes T."""
    torch.manual_seed(6)
    held, window = chunk * left, 4 * (chunk - 1) + 7
    inputs = {
        "x": torch.rand(1, window, 80),
        "offset": torch.tensor([held]),
        "required_cache_size": torch.tensor([held]),
        "attn_cache": torch.zeros(layers, 1, held, 2 * WIDTH),
        "conv_cache": torch.zeros(layers, 1, WIDTH, 4),
        "attn_mask": torch.arange(held + chunk).view(1, 1, -1) >= held,
    }
    axes = {"x": {0: "N", 1: "T"}, "attn_cache": {2: "T"}, "attn_mask": {2: "T"}, "log_probs": {0: "N"}}
    metadata = {
        "model_type": "wenet_ctc",
        "model_author": "wenet",
        "chunk_size": chunk,
        "left_chunks": left,
        "right_context": 6,
        "subsampling_factor": 4,
        "vocab_size": TOKENS,
    }
    outputs = ["log_probs", "next_att_cache", "next_conv_cache"]
    return export(WeNet(layers), folder / "model-streaming.onnx", inputs, outputs, axes, metadata)


class Tone(nn.Module):  # type: ignore[misc]
    """A recurrence over ten parts of 300 ms of samples, whose state is float16."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.cell, self.out = nn.Linear(240, WIDTH), nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, signal: Any, state: Any) -> Any:
        parts = torch.tanh(self.part(signal.to(torch.float32).view(signal.shape[0], 10, 240) / 4096))
        held, found = state.to(torch.float32), []
        for place in range(10):
            held = torch.tanh(self.cell(torch.cat([parts[:, place], held], 1)))
            found.append(self.out(held).log_softmax(-1))
        return torch.stack(found, 1), held.to(torch.float16)


def tone(folder: Path) -> Path:
    """T-one: 300 ms of 8-kHz samples as int32, CTC."""
    torch.manual_seed(7)
    inputs = {"signal": torch.zeros(2, 2400, 1, dtype=torch.int32), "state": torch.zeros(2, WIDTH, dtype=torch.float16)}
    outputs = ["logprobs", "state_next"]
    axes = {name: {0: "batch_size"} for name in (*inputs, *outputs)}
    metadata = {"model_type": "t-one", "sample_rate": 8000, "frame_length_ms": 300, "state_dim": WIDTH}
    return export(Tone(), folder / "model.onnx", inputs, outputs, axes, metadata)
