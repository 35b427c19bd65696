"""Writes tests/reference/goldens/: tiny checkpoints with random weights and what numpy_model.py computes from them.

    /usr/bin/python3 tools/reference/make_goldens.py [NAME...]       about a minute per golden; only numpy is needed

Each folder NAME/ is an ordinary checkpoint (config.json, model.safetensors) plus expected/model.safetensors:
    prompt [T] I32            token ids
    positions [P] I32         the rows whose logits are kept (every 7th and the last)
    logits [P, V] F32
    layer.L.{kv,state,conv}   the caches after the last token, F32: kv [T, latent + rope], state [heads, key, value],
                              conv [taps - 1, q | k | v]
    wrong.NAME [V] F32        logits of the last token under one misreading of the model (numpy_model.wrong_variants)
The widths are chosen to leave tails in vector loops. The prompt is chosen so that no router decision is close
(kMargin below): rounding in a float32 implementation must not change which experts run.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

import numpy as np

import numpy_model
from tensor_file import write_tensors

GOLDENS = Path(__file__).resolve().parents[2] / "tests/reference/goldens"
PROMPT_TOKENS = 150
MARGIN = 3e-3  # least gap between the last chosen and the first refused router score
VISIBLE = 5e-3  # least change of the last logits, relative to their rms, that a misreading must make
SATURATED_RATE = 20.0  # exp(A_log) of each layer's last head: its decay gates sit at their ends


@dataclass
class Shape:
    """The dimensions of one golden, in config.json's terms where it has one."""

    seed: int
    is_k3: bool = True
    hidden: int = 68
    layers: int = 9
    full_attn: tuple = (4, 8, 9)  # counted from one, as in the file
    vocab: int = 61
    kda_heads: int = 3  # differs from kda_dim, so that reading A_log per channel shows
    kda_dim: int = 16
    heads: int = 3
    q_lora: Optional[int] = 24
    kv_lora: int = 20
    nope: int = 12
    rope: int = 6
    v_dim: int = 10
    block: Optional[int] = 4
    dense_width: int = 100
    experts: int = 8
    top_k: int = 3
    shared: int = 2
    latent: Optional[int] = 64
    expert_width: int = 32
    routed_scale: float = 1.0


SHAPES = {
    "k3": Shape(seed=1),
    # The real head width; latent = hidden makes "shared experts read the latent" computable.
    "k3-wide-head": Shape(seed=2, hidden=128, layers=3, full_attn=(3,), kda_heads=1, kda_dim=128, heads=1, q_lora=40,
                          kv_lora=64, nope=128, rope=64, v_dim=128, block=2, experts=6, top_k=2, shared=1, latent=128,
                          expert_width=32),
    "kimi-linear": Shape(seed=3, is_k3=False, hidden=60, layers=6, full_attn=(3, 6), kda_heads=2, kda_dim=32,
                         q_lora=None, block=None, experts=6, shared=1, latent=None,
                         expert_width=36, routed_scale=2.446),
}


def config_document(s):
    """config.json with the keys of the published file."""
    tokens = {"bos_token_id": s.vocab - 5, "eos_token_id": s.vocab - 3, "pad_token_id": s.vocab - 1}
    kda_layers = [layer for layer in range(1, s.layers + 1) if layer not in s.full_attn]
    linear = {"full_attn_layers": list(s.full_attn), "kda_layers": kda_layers, "num_heads": s.kda_heads,
              "head_dim": s.kda_dim, "short_conv_kernel_size": 4}
    text = {
        "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "dtype": "bfloat16",
        "hidden_size": s.hidden, "num_hidden_layers": s.layers, "vocab_size": s.vocab, "rms_norm_eps": 1e-5,
        "num_attention_heads": s.heads, "num_key_value_heads": s.heads, "q_lora_rank": s.q_lora,
        "kv_lora_rank": s.kv_lora, "qk_nope_head_dim": s.nope, "qk_rope_head_dim": s.rope, "v_head_dim": s.v_dim,
        "mla_use_nope": True, "linear_attn_config": linear, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "intermediate_size": s.dense_width, "num_experts": s.experts, "num_experts_per_token": s.top_k,
        "num_shared_experts": s.shared, "moe_intermediate_size": s.expert_width,
        "moe_router_activation_func": "sigmoid", "moe_renormalize": True, "use_grouped_topk": True,
        "num_expert_group": 1, "topk_group": 1, "routed_scaling_factor": s.routed_scale, "num_nextn_predict_layers": 0,
        "tie_word_embeddings": False, **tokens,
    }
    if not s.is_k3:
        return {**text, "hidden_act": "silu", "model_max_length": 4096, "rope_theta": 10000.0, "rope_scaling": None}
    linear |= {"use_full_rank_gate": True, "gate_lower_bound": -5.0}
    text |= {
        "hidden_act": "situ", "activation_situ_beta": 4.0, "activation_situ_linear_beta": 25.0,
        "max_position_embeddings": 4096, "mla_use_output_gate": True, "attn_res_block_size": s.block,
        "routed_expert_hidden_size": s.latent, "latent_moe_use_norm": True, "topk_method": "noaux_tc",
        "quantization_config": {
            "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None, "weights": {
                "num_bits": 4, "type": "float", "symmetric": True, "strategy": "group", "group_size": 32,
                "scale_dtype": "torch.uint8"}}},
            "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
                       "re:.*lm_head.*"],
        },
    }
    return {"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", **tokens, "text_config": text}


class Writer:
    """Collects random tensors under their checkpoint names."""

    def __init__(self, shape):
        self.s, self.rng, self.tensors = shape, np.random.default_rng(shape.seed), {}
        self.prefix = "language_model." if shape.is_k3 else ""

    def put(self, name, dtype, values):
        self.tensors[self.prefix + name] = (dtype, values)

    def matrix(self, name, rows, cols, spread=None, dtype="BF16"):
        self.put(name, dtype, self.rng.standard_normal((rows, cols)) * (spread or cols**-0.5))

    def norm(self, name, width, dtype="BF16"):
        self.put(name, dtype, 1 + 0.2 * self.rng.standard_normal(width))

    def expert(self, name, rows, cols):
        if not self.s.is_k3:
            return self.matrix(name + ".weight", rows, cols)
        self.put(name + ".weight_packed", "U8", self.rng.integers(0, 256, (rows, cols // 2)))
        self.put(name + ".weight_scale", "U8", self.rng.integers(122, 126, (rows, cols // 32)))

    def kda(self, name):
        s, width = self.s, self.s.kda_heads * self.s.kda_dim
        small = "F32" if s.is_k3 else "BF16"
        for part in "qkv":
            self.matrix(f"{name}{part}_proj.weight", width, s.hidden)
            self.put(f"{name}{part}_conv1d.weight", small, 0.5 * self.rng.standard_normal((width, 1, 4)))
        rates = np.log(self.rng.uniform(0.3, 3.0, s.kda_heads))
        rates[-1] = np.log(SATURATED_RATE) if s.kda_heads > 1 else rates[-1]
        if s.is_k3:
            self.put(name + "A_log", "F32", np.concatenate([rates, np.zeros(s.kda_dim - s.kda_heads)]))
            self.matrix(name + "g_proj.weight", width, s.hidden)
        else:
            self.put(name + "A_log", "F32", rates.reshape(1, 1, -1, 1))
            self.matrix(name + "g_a_proj.weight", s.kda_dim, s.hidden)
            self.matrix(name + "g_b_proj.weight", width, s.kda_dim)
        self.put(name + "dt_bias", "F32", self.rng.standard_normal(width) - 1)
        self.matrix(name + "f_a_proj.weight", s.kda_dim, s.hidden)
        self.matrix(name + "f_b_proj.weight", width, s.kda_dim)
        self.matrix(name + "b_proj.weight", s.kda_heads, s.hidden)
        self.norm(name + "o_norm.weight", s.kda_dim, small)
        self.matrix(name + "o_proj.weight", s.hidden, width)

    def mla(self, name):
        s, width = self.s, self.s.heads * (self.s.nope + self.s.rope)
        faint = 0.02 * s.hidden**-0.5  # low-rank inputs so small that the eps of their norms shows
        if s.q_lora:
            self.matrix(name + "q_a_proj.weight", s.q_lora, s.hidden, faint)
            self.norm(name + "q_a_layernorm.weight", s.q_lora)
            self.matrix(name + "q_b_proj.weight", width, s.q_lora)
        else:
            self.matrix(name + "q_proj.weight", width, s.hidden)
        rows = self.rng.standard_normal((s.kv_lora + s.rope, s.hidden)) * s.hidden**-0.5
        rows[: s.kv_lora] *= 0.02
        self.put(name + "kv_a_proj_with_mqa.weight", "BF16", rows)
        self.norm(name + "kv_a_layernorm.weight", s.kv_lora)
        self.matrix(name + "kv_b_proj.weight", s.heads * (s.nope + s.v_dim), s.kv_lora)
        if s.is_k3:
            self.matrix(name + "g_proj.weight", s.heads * s.v_dim, s.hidden)
        self.matrix(name + "o_proj.weight", s.hidden, s.heads * s.v_dim, 2 * (s.heads * s.v_dim) ** -0.5)

    def mlp(self, name, width):
        self.matrix(name + "gate_proj.weight", width, self.s.hidden, 2 * self.s.hidden**-0.5)
        self.matrix(name + "up_proj.weight", width, self.s.hidden, 2 * self.s.hidden**-0.5)
        self.matrix(name + "down_proj.weight", self.s.hidden, width)

    def moe(self, name):
        s, x = self.s, self.s.latent or self.s.hidden
        self.matrix(name + "gate.weight", s.experts, s.hidden)
        self.put(name + "gate.e_score_correction_bias", "F32", 0.2 * self.rng.standard_normal(s.experts))
        for e in range(s.experts):
            self.expert(f"{name}experts.{e}.w1", s.expert_width, x)
            self.expert(f"{name}experts.{e}.w3", s.expert_width, x)
            self.expert(f"{name}experts.{e}.w2", x, s.expert_width)
        if s.latent:
            self.matrix(name + "routed_expert_down_proj.weight", x, s.hidden)
            self.norm(name + "routed_expert_norm.weight", x)
            self.matrix(name + "routed_expert_up_proj.weight", s.hidden, x)
        self.mlp(name + "shared_experts.", s.shared * s.expert_width)

    def checkpoint(self):
        s = self.s
        self.matrix("model.embed_tokens.weight", s.vocab, s.hidden, 1.0)
        for layer in range(s.layers):
            name = f"model.layers.{layer}."
            self.norm(name + "input_layernorm.weight", s.hidden)
            self.norm(name + "post_attention_layernorm.weight", s.hidden)
            for site in ("self_attention_res", "mlp_res") if s.block else ():
                self.norm(f"{name}{site}_norm.weight", s.hidden)
                self.matrix(f"{name}{site}_proj.weight", 1, s.hidden)
            (self.mla if layer + 1 in s.full_attn else self.kda)(name + "self_attn.")
            if layer == 0:
                self.mlp(name + "mlp.", s.dense_width)
            else:
                self.moe(name + "block_sparse_moe.")
        if s.block:
            self.norm("model.output_attn_res_norm.weight", s.hidden)
            self.matrix("model.output_attn_res_proj.weight", 1, s.hidden)
        self.norm("model.norm.weight", s.hidden)
        self.matrix("lm_head.weight", s.vocab, s.hidden)
        return self.tensors


def choose_prompt(config, tensors, rng):
    """A random prompt whose close router decisions are replaced, first to last: the model is causal, so what precedes
    a replaced token keeps its margins."""
    prompt = rng.integers(0, config.vocab, PROMPT_TOKENS)
    for _ in range(100 * PROMPT_TOKENS):
        trace = numpy_model.run(config, tensors, prompt)
        close = np.flatnonzero(trace.margin < MARGIN)
        if not len(close):
            return prompt, trace
        prompt[close[0]] = rng.integers(0, config.vocab)
    raise RuntimeError("found no prompt without close router decisions")


def make(name):
    shape = SHAPES[name]
    folder = GOLDENS / name
    (folder / "expected").mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_document(shape), indent=2) + "\n")
    write_tensors(folder / "model.safetensors", Writer(shape).checkpoint())
    config, tensors = numpy_model.load(folder)  # what an implementation will read, rounding included
    prompt, trace = choose_prompt(config, tensors, np.random.default_rng(shape.seed + 1000))
    positions = np.unique([*range(0, PROMPT_TOKENS, 7), PROMPT_TOKENS - 1])
    expected = {"prompt": ("I32", prompt), "positions": ("I32", positions), "logits": ("F32", trace.logits[positions])}
    for layer, cache in enumerate(trace.caches):
        expected |= {f"layer.{layer}.{part}": ("F32", values) for part, values in cache.items()}
    rms = np.sqrt((trace.logits**2).mean())
    for wrong in numpy_model.wrong_variants(config):
        logits = numpy_model.run(config, tensors, prompt, wrong).logits[-1]
        change = np.abs(logits - trace.logits[-1]).max() / rms
        print(f"{name:14s} {wrong:28s} {change:.4f}")
        assert np.isfinite(logits).all() and change > VISIBLE, f"{name}: {wrong} does not show"
        expected[f"wrong.{wrong}"] = ("F32", logits)
    write_tensors(folder / "expected" / "model.safetensors", expected)
    print(f"{name}: rms of the logits {rms:.3f}, least router margin {trace.margin.min():.4f}, {asdict(shape)}")


if __name__ == "__main__":
    for golden in sys.argv[1:] or SHAPES:
        make(golden)
