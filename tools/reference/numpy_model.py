"""The text model of Kimi K3 and Kimi-Linear in float64 numpy: an independent witness for src/model and src/cpu.

Written from the published formulas (Kimi Linear, arXiv 2510.26692; Kimi K3 report, arXiv 2607.24653), not from the C++
code, and in the plainest form of each: token-by-token recurrence, expanded attention, dequantised experts. Reads an
ordinary checkpoint folder. `run(..., wrong=NAME)` computes one of the named misreadings of the model instead (see
`wrong_variants`): the goldens hold them so that the tests can prove that each would be noticed.

    /usr/bin/python3 tools/reference/numpy_model.py FOLDER 1 2 3     prints the logits of the last token
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensor_file import read_folder

LORA_NORM_EPS = 1e-6  # the low-rank norms are built without an eps: their class default holds
L2_EPS = 1e-6
FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


class Config:
    """The fields of config.json the computation needs. A missing key is a KeyError."""

    def __init__(self, document):
        self.is_k3 = "text_config" in document
        text = document["text_config"] if self.is_k3 else document
        linear = text["linear_attn_config"]
        self.prefix = "language_model." if self.is_k3 else ""
        self.hidden, self.layers, self.vocab = text["hidden_size"], text["num_hidden_layers"], text["vocab_size"]
        self.eps = text["rms_norm_eps"]
        # The lists count layers from one.
        self.is_mla = [layer + 1 in linear["full_attn_layers"] for layer in range(self.layers)]
        assert all(kind != (layer + 1 in linear["kda_layers"]) for layer, kind in enumerate(self.is_mla))

        self.kda_heads, self.kda_dim = linear["num_heads"], linear["head_dim"]
        self.taps = linear["short_conv_kernel_size"]
        self.bound = linear.get("gate_lower_bound")
        self.full_rank_gate = linear.get("use_full_rank_gate", False)

        self.heads, self.q_lora = text["num_attention_heads"], text["q_lora_rank"]
        self.latent_kv, self.v_dim = text["kv_lora_rank"], text["v_head_dim"]
        self.nope, self.rope = text["qk_nope_head_dim"], text["qk_rope_head_dim"]
        self.mla_gate = text.get("mla_use_output_gate", False)
        assert text["mla_use_nope"]

        self.block = text.get("attn_res_block_size")
        self.dense_layers = text["first_k_dense_replace"]
        self.top_k = text["num_experts_per_token"]
        self.experts = text["num_experts"]
        self.latent = text.get("routed_expert_hidden_size")
        self.routed_scale = text["routed_scaling_factor"]
        self.mxfp4 = "quantization_config" in text
        self.situ = text["hidden_act"] == "situ"
        if self.situ:
            self.gate_cap, self.up_cap = text["activation_situ_beta"], text["activation_situ_linear_beta"]


def wrong_variants(config):
    """The misreadings that make sense for this configuration. Reading the layer lists from zero is not among them: it
    asks for tensors the checkpoint does not have."""
    names = ["kda_gate_before_norm", "l2norm_mean", "beta_times_two", "conv_taps_reversed", "conv_without_silu",
             "decay_on_value_axis", "read_before_update", "mla_scale_nope", "drop_rope_dims", "rotated_rope",
             "lora_eps_is_rms_eps", "kv_b_values_first", "router_bias_in_weights", "experts_gate_up_swapped"]
    if config.bound is None:
        names += ["gate_sigmoid_form"]
    else:
        names += ["gate_clamped_softplus"]
    if config.is_k3 and config.kda_heads != config.kda_dim:
        names += ["a_log_per_channel"]
    if config.mla_gate:
        names += ["mla_gate_missing"]
    if config.block:
        names += ["bank_the_mix", "restart_missing", "residual_pairs_swapped", "residual_sums_normed_rows"]
    if config.latent:
        names += ["latent_norm_per_expert", "latent_norm_missing"]
    else:
        names += ["routed_scale_missing", "weights_not_renormalised"]
    if config.latent == config.hidden:
        names += ["shared_reads_latent"]
    if config.mxfp4:
        names += ["nibble_order_swapped"]
    if config.situ:
        names += ["situ_sigmoid_capped", "situ_up_uncapped", "situ_is_silu"]
    return names


@dataclass
class Trace:
    """What a pass leaves: logits [T, V]; margin [T], the least gap between the last chosen and the first refused router
    score over all layers; per layer the caches after the last token."""

    logits: np.ndarray
    margin: np.ndarray
    caches: list


# ---------------------------------------------------------------- small functions


def sigmoid(x):
    return np.exp(-np.logaddexp(0.0, -x))


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)


def project(x, matrix):
    return np.matmul(x, matrix.T)


def softmax_last(x):
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def rotate(x, positions):
    """Rotary embedding (halves convention, base 10000) of the last axis; only for the wrong variant."""
    half = x.shape[-1] // 2
    angle = positions[:, None] / 10000.0 ** (np.arange(half) / half)
    angle = angle.reshape(angle.shape[:1] + (1,) * (x.ndim - 2) + (half,))
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1)


def unpack_mxfp4(packed, scale, swapped=False):
    """Byte i of a row: column 2i in the low nibble, 2i+1 in the high one; one power-of-two scale per 32 columns."""
    low, high = packed & 0x0F, packed >> 4
    codes = np.stack([high, low] if swapped else [low, high], axis=-1).reshape(packed.shape[0], -1)
    values = np.where(codes & 8, -1.0, 1.0) * FP4[codes & 7]
    grouped = values.reshape(values.shape[0], -1, 32) * 2.0 ** (scale.astype(np.float64) - 127)[:, :, None]
    return grouped.reshape(values.shape)


# ---------------------------------------------------------------- the model


class Pass:
    """One pass over a whole prompt from empty caches."""

    def __init__(self, config, tensors, wrong=None):
        assert wrong is None or wrong in wrong_variants(config), wrong
        self.c, self.tensors, self.wrong = config, tensors, wrong

    def w(self, name):
        return self.tensors[self.c.prefix + name]

    def run(self, tokens):
        c = self.c
        self.margin = np.full(len(tokens), np.inf)
        caches, bank = [], []
        x = self.w("model.embed_tokens.weight")[np.asarray(tokens)]
        for layer in range(c.layers):
            name = f"model.layers.{layer}."
            first, second = "self_attention_res", "mlp_res"
            if self.wrong == "residual_pairs_swapped":
                first, second = second, first
            mixed = self.mix(x, bank, name + first)
            opens_block = bool(c.block) and layer % c.block == 0
            if opens_block:
                bank.append(mixed if self.wrong == "bank_the_mix" else x)
            h = rms_norm(mixed, self.w(name + "input_layernorm.weight"), c.eps)
            y, cache = (self.mla if c.is_mla[layer] else self.kda)(h, name + "self_attn.")
            caches.append(cache)
            x = y if opens_block and self.wrong != "restart_missing" else x + y
            mixed = self.mix(x, bank, name + second)
            h = rms_norm(mixed, self.w(name + "post_attention_layernorm.weight"), c.eps)
            x = x + (self.mlp(h, name + "mlp.") if layer < c.dense_layers else self.moe(h, name + "block_sparse_moe."))
        x = self.mix(x, bank, "model.output_attn_res")
        logits = project(rms_norm(x, self.w("model.norm.weight"), c.eps), self.w("lm_head.weight"))
        return Trace(logits, self.margin, caches)

    def mix(self, x, bank, name):
        """Attention over depth: scores from normalised rows, sum of the rows as they are."""
        if not self.c.block or not bank:
            return x
        rows = np.stack([*bank, x])
        normed = rms_norm(rows, self.w(name + "_norm.weight"), self.c.eps)
        share = softmax_last(project(normed, self.w(name + "_proj.weight"))[..., 0].T)
        if self.wrong == "residual_sums_normed_rows":
            rows = rms_norm(rows, 1.0, self.c.eps)
        return np.einsum("tr,rth->th", share, rows)

    # ------------------------------------------------------------ Kimi Delta Attention

    def kda(self, h, name):
        c, heads, width = self.c, self.c.kda_heads, self.c.kda_dim
        raw = [project(h, self.w(f"{name}{part}_proj.weight")) for part in "qkv"]
        q, k, v = (self.short_conv(x, self.w(f"{name}{part}_conv1d.weight")).reshape(-1, heads, width)
                   for x, part in zip(raw, "qkv"))
        q, k = self.unit(q) / np.sqrt(width), self.unit(k)
        z = project(project(h, self.w(name + "f_a_proj.weight")), self.w(name + "f_b_proj.weight"))
        decay = np.exp(self.log_decay(z.reshape(-1, heads, width), name))
        beta = sigmoid(project(h, self.w(name + "b_proj.weight")))
        if self.wrong == "beta_times_two":
            beta = 2 * beta
        out, state = self.delta_rule(q, k, v, decay, beta)
        if c.full_rank_gate:
            gate = project(h, self.w(name + "g_proj.weight"))
        else:
            gate = project(project(h, self.w(name + "g_a_proj.weight")), self.w(name + "g_b_proj.weight"))
        gate = sigmoid(gate.reshape(out.shape))
        norm = self.w(name + "o_norm.weight")
        if self.wrong == "kda_gate_before_norm":
            out = rms_norm(out * gate, norm, c.eps)
        else:
            out = rms_norm(out, norm, c.eps) * gate
        history = np.concatenate([np.zeros((c.taps - 1, 3 * heads * width)), np.concatenate(raw, axis=1)])
        cache = {"state": state, "conv": history[-(c.taps - 1) :]}
        return project(out.reshape(len(h), -1), self.w(name + "o_proj.weight")), cache

    def short_conv(self, x, weight):
        """Depthwise and causal; the last tap meets the current row; SiLU follows."""
        taps = weight.reshape(weight.shape[0], -1).T
        if self.wrong == "conv_taps_reversed":
            taps = taps[::-1]
        total = np.zeros_like(x)
        for back, tap in enumerate(taps[::-1]):
            total[back:] += tap * x[: len(x) - back]
        return total if self.wrong == "conv_without_silu" else total * sigmoid(total)

    def unit(self, x):
        square = (x**2).mean(-1) if self.wrong == "l2norm_mean" else (x**2).sum(-1)
        return x / np.sqrt(square + L2_EPS)[..., None]

    def log_decay(self, z, name):
        c = self.c
        u = z + self.w(name + "dt_bias").reshape(c.kda_heads, c.kda_dim)
        a_log = self.w(name + "A_log").reshape(-1)
        if self.wrong == "a_log_per_channel":
            rate = np.exp(a_log[: c.kda_dim])[None, None, :]
        else:
            rate = np.exp(a_log[: c.kda_heads])[None, :, None]
        sigmoid_form = c.bound is not None or self.wrong == "gate_sigmoid_form"
        if self.wrong == "gate_clamped_softplus":
            return np.maximum(-rate * np.logaddexp(0.0, u), c.bound)
        if sigmoid_form:
            return (c.bound if c.bound is not None else -5.0) * sigmoid(rate * u)
        return -rate * np.logaddexp(0.0, u)

    def delta_rule(self, q, k, v, decay, beta):
        """S' = Diag(decay) S; S = S' + beta k (v - S'^T k)^T; out = S^T q, one token after another. S [N, key, value]."""
        state = np.zeros((q.shape[1], q.shape[2], v.shape[2]))
        out = np.empty_like(v)
        for t in range(len(q)):
            before = state
            forget = decay[t][:, None, :] if self.wrong == "decay_on_value_axis" else decay[t][:, :, None]
            state = state * forget
            recalled = np.einsum("nkv,nk->nv", state, k[t])
            state = state + (beta[t][:, None] * k[t])[:, :, None] * (v[t] - recalled)[:, None, :]
            out[t] = np.einsum("nkv,nk->nv", before if self.wrong == "read_before_update" else state, q[t])
        return out, state

    # ------------------------------------------------------------ multi-head latent attention

    def mla(self, h, name):
        c, count = self.c, len(h)
        lora_eps = c.eps if self.wrong == "lora_eps_is_rms_eps" else LORA_NORM_EPS
        if c.q_lora:
            low = rms_norm(project(h, self.w(name + "q_a_proj.weight")), self.w(name + "q_a_layernorm.weight"), lora_eps)
            q = project(low, self.w(name + "q_b_proj.weight"))
        else:
            q = project(h, self.w(name + "q_proj.weight"))
        q = q.reshape(count, c.heads, c.nope + c.rope)
        q_nope, q_rope = q[..., : c.nope], q[..., c.nope :]
        both = project(h, self.w(name + "kv_a_proj_with_mqa.weight"))
        latent = rms_norm(both[:, : c.latent_kv], self.w(name + "kv_a_layernorm.weight"), lora_eps)
        k_rope = both[:, c.latent_kv :]
        cache = {"kv": np.concatenate([latent, k_rope], axis=1)}
        if self.wrong == "rotated_rope":
            q_rope, k_rope = rotate(q_rope, np.arange(count)), rotate(k_rope, np.arange(count))
        expanded = project(latent, self.w(name + "kv_b_proj.weight")).reshape(count, c.heads, c.nope + c.v_dim)
        if self.wrong == "kv_b_values_first":
            v, k_nope = expanded[..., : c.v_dim], expanded[..., c.v_dim :]
        else:
            k_nope, v = expanded[..., : c.nope], expanded[..., c.nope :]
        score = np.einsum("inc,jnc->nij", q_nope, k_nope)
        if self.wrong != "drop_rope_dims":
            score = score + np.einsum("inr,jr->nij", q_rope, k_rope)
        score = score / np.sqrt(c.nope if self.wrong == "mla_scale_nope" else c.nope + c.rope)
        future = np.triu(np.ones((count, count), bool), 1)
        share = softmax_last(np.where(future, -np.inf, score))
        out = np.einsum("nij,jnv->inv", share, v).reshape(count, -1)
        if c.mla_gate and self.wrong != "mla_gate_missing":
            out = out * sigmoid(project(h, self.w(name + "g_proj.weight")))
        return project(out, self.w(name + "o_proj.weight")), cache

    # ------------------------------------------------------------ feed-forward

    def glu(self, gate, up):
        if not self.c.situ or self.wrong == "situ_is_silu":
            return gate * sigmoid(gate) * up
        capped = self.c.gate_cap * np.tanh(gate / self.c.gate_cap)
        linear = up if self.wrong == "situ_up_uncapped" else self.c.up_cap * np.tanh(up / self.c.up_cap)
        return capped * sigmoid(capped if self.wrong == "situ_sigmoid_capped" else gate) * linear

    def mlp(self, h, name):
        gate, up = project(h, self.w(name + "gate_proj.weight")), project(h, self.w(name + "up_proj.weight"))
        return project(self.glu(gate, up), self.w(name + "down_proj.weight"))

    def expert_matrix(self, name):
        if self.c.mxfp4:
            return unpack_mxfp4(self.w(name + ".weight_packed"), self.w(name + ".weight_scale"),
                                self.wrong == "nibble_order_swapped")
        return self.w(name + ".weight")

    def route(self, h, name):
        """Dense [T, E] weights, zero where an expert is not chosen."""
        c = self.c
        score = sigmoid(project(h, self.w(name + "gate.weight")))
        biased = score + self.w(name + "gate.e_score_correction_bias")
        ordered = np.sort(biased, axis=-1)
        self.margin = np.minimum(self.margin, ordered[:, -c.top_k] - ordered[:, -c.top_k - 1])
        chosen = biased >= ordered[:, -c.top_k][:, None]
        assert (chosen.sum(-1) == c.top_k).all(), "a tie between router scores"
        kept = np.where(chosen, biased if self.wrong == "router_bias_in_weights" else score, 0.0)
        if self.wrong != "weights_not_renormalised":
            kept = kept / (kept.sum(-1, keepdims=True) + 1e-20)
        return kept if self.wrong == "routed_scale_missing" else kept * c.routed_scale

    def moe(self, h, name):
        c = self.c
        share = self.route(h, name)
        x = project(h, self.w(name + "routed_expert_down_proj.weight")) if c.latent else h
        total = np.zeros_like(x)
        for e in range(c.experts):
            gate, down, up = (self.expert_matrix(f"{name}experts.{e}.{part}") for part in ("w1", "w2", "w3"))
            if self.wrong == "experts_gate_up_swapped":
                gate, up = up, gate
            y = project(self.glu(project(x, gate), project(x, up)), down)
            if self.wrong == "latent_norm_per_expert":
                y = rms_norm(y, self.w(name + "routed_expert_norm.weight"), c.eps)
            total += share[:, e : e + 1] * y
        if c.latent:
            if self.wrong not in ("latent_norm_per_expert", "latent_norm_missing"):
                total = rms_norm(total, self.w(name + "routed_expert_norm.weight"), c.eps)
            total = project(total, self.w(name + "routed_expert_up_proj.weight"))
        return total + self.mlp(x if self.wrong == "shared_reads_latent" else h, name + "shared_experts.")


def load(folder):
    return Config(json.loads((Path(folder) / "config.json").read_text())), read_folder(folder)


def run(config, tensors, tokens, wrong=None):
    return Pass(config, tensors, wrong).run(tokens)


if __name__ == "__main__":
    for value in run(*load(sys.argv[1]), [int(token) for token in sys.argv[2:]]).logits[-1]:
        print(f"{value:.9g}")
