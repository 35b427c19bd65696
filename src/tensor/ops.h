// THE list of operations: one struct of plain function pointers that a backend fills. cpu_ops() and cuda_ops() start
// from their reference table and override what the hardware allows; model/ calls nothing else.
//
// Contract of every operation
// - It checks its shapes (PERIGEE_CHECK), never allocates, never synchronises, writes only its outputs.
// - Rank-2 operands may have a row stride larger than their width; the innermost dimension is contiguous. Outputs do
// not
//   overlap inputs unless the comment says "in place allowed".
// - A row's result depends on that row's inputs alone, bit for bit: not on the other rows of the batch, nor on the
// number
//   of threads. This is what makes a request's greedy answer independent of its company.
// - Letters: T rows of the step, H hidden, N heads, D head width, P = N D, V vocabulary, E experts, F expert width,
//   X width of the experts' input (latent or hidden), K experts per token.
// Formulas: Kimi Linear (arXiv 2510.26692), Kimi K3 report (arXiv 2607.24653); the text model's are spelled out in
// docs/model.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/view.h"

namespace perigee {

class ThreadPool;

/// What an operation needs besides its operands. Owned by the Device; one caller at a time.
struct OpContext {
  ThreadPool* pool = nullptr;    ///< CPU: the compute threads
  std::byte* scratch = nullptr;  ///< CPU: threads x scratch_bytes, 64-byte aligned, content undefined
  int64_t scratch_bytes = 0;     ///< per thread; Ops::scratch_bytes is the minimum
  void* stream = nullptr;        ///< GPU: the compute stream
};

/// Consecutive rows of one sequence in a step. Rows of one sequence stand together; two segments never share a slot.
struct Segment {
  int32_t row_begin = 0;  ///< first row in the step's flat batch
  int32_t row_count = 0;  ///< >= 1
  int32_t position = 0;   ///< tokens of the sequence before row_begin (all of them are in the caches)
  int32_t commit = 0;     ///< rows that advance the persistent state, <= row_count (the rest is speculation or padding)
  int32_t slot = 0;       ///< state slot written
  int32_t source_slot = -1;  ///< state slot read; -1 = the zero state; == slot for a sequence already running
  int32_t page_begin = 0;  ///< first entry in the step's flat page table; entry i holds positions [i, i+1) * page size
  int32_t page_count = 0;
};

/// Gate activations of the GLU.
struct Activation {
  enum class Kind : uint8_t { silu, situ } kind = Kind::silu;
  float beta = 4.0F;          ///< SiTU: gate cap
  float linear_beta = 25.0F;  ///< SiTU: up cap
};

/// Attention residual: out = sum_r softmax_r(s) V_r over the rows V = bank..., x;
/// s_r = sum_d c_d V_{r,d} / sqrt(mean_d V_r^2 + eps). In FP32.
struct ResidualMixArgs {
  View bank;    ///< [R, T, H] earlier block rows, oldest first; R >= 1
  View x;       ///< [T, H] the running stream
  View weight;  ///< [H] F32: norm weight times projection, folded
  float eps = 0;
  View out;  ///< [T, H]
};

/// Causal depthwise convolution over time, then SiLU: u_t = sum_j w[j] in_{t-k+1+j}; history from and to the state.
struct ShortConvArgs {
  View x;       ///< [T, C]
  View weight;  ///< [C, taps] F32, last tap = current row
  View state;   ///< [slots, taps-1, C] F32 or BF16: the last raw inputs, oldest first
  std::span<const Segment> segments;
  View out;  ///< [T, C]
};

/// Kimi Delta Attention: S <- Diag(exp g) S; e = v - S^T k; S <- S + beta k e^T; o = S^T q, with q and k L2-normalised
/// (sum of squares + 1e-6 inside the root), q scaled by D^-1/2, beta = sigmoid(beta logit) and, per head h and channel
/// d, u = z + dt_bias: g = bound * sigmoid(exp(A_log[h]) u) with a lower bound, else -exp(A_log[h]) softplus(u).
/// A backend may use the chunked form for segments of several rows, with chunks of kKdaChunk rows counted from the
/// segment's first row: the scheduler cuts prefill on that grid, so a cut changes no bit.
struct KdaArgs {
  View qkv;      ///< [T, 3P] after the convolution: q, k, v
  View z;        ///< [T, P] raw decay gate
  View beta;     ///< [T, N] raw
  View a_log;    ///< [N] F32
  View dt_bias;  ///< [P] F32
  std::optional<float> gate_lower_bound;
  View state;  ///< [slots, N, D(k), D(v)] F32
  std::span<const Segment> segments;
  View out;  ///< [T, P]
};
inline constexpr int kKdaChunk = 64;

/// Appends one row (latent, rope part) per token to the paged cache: RMS over the first `latent` columns, rest
/// verbatim.
struct MlaAppendArgs {
  View x;     ///< [T, latent + rope]
  View norm;  ///< [latent] F32
  float eps = 0;
  View cache;  ///< [pages, page size, latent + rope] F32 or BF16
  std::span<const Segment> segments;
  std::span<const int32_t> pages;  ///< flat page table of the step
};

/// Multi-head latent attention without positions over the paged cache (which already holds this step's rows).
/// Per head: score = scale (q_nope . W_k c + q_rope . r), causal softmax in FP32, out = sum p W_v c.
struct MlaArgs {
  View q;       ///< [T, N (nope + rope)]
  Linear kv_b;  ///< [N (nope + v), latent]: per head W_k rows, then W_v rows
  View cache;   ///< [pages, page size, latent + rope]
  int32_t heads = 0, nope = 0, rope = 0, v = 0;
  float scale = 0;
  std::span<const Segment> segments;
  std::span<const int32_t> pages;
  View out;  ///< [T, N v]
};

/// Routed experts of one layer, stacked. MXFP4, BF16 or F32.
struct Experts {
  View gate_up;        ///< [E, 2F, X]: gate rows, then up rows
  View gate_up_scale;  ///< [E, 2F, X/32] for MXFP4
  View down;           ///< [E, X, F]
  View down_scale;     ///< [E, X, F/32] for MXFP4
};

/// out_t = sum_i p_ti down_i(act(gate_i x_t, up_i x_t)) over the token's K experts that lie in
/// [expert_begin, expert_begin + E), summed in the order of `ids`, FP32.
struct MoeArgs {
  View x;           ///< [T, X]
  View ids;         ///< [T, K] I32, global expert numbers
  View weights;     ///< [T, K] F32
  Experts experts;  ///< E local experts
  int32_t expert_begin = 0;
  Activation activation;
  View hidden;   ///< workspace [T K, 2F] F32
  View partial;  ///< workspace [T K, X] F32
  View out;      ///< [T, X] F32
};

/// Router: logits = x W^T in FP32, s = sigmoid(logits); ids = the K largest of s + bias (ties: lower id first), in
/// descending order; weights = s / (sum of chosen s + 1e-20) * scale.
struct RouterArgs {
  View x;       ///< [T, H]
  Linear gate;  ///< [E, H]
  View bias;    ///< [E] F32
  float scale = 1;
  View ids;      ///< [T, K] I32
  View weights;  ///< [T, K] F32
  View logits;   ///< workspace [T, E] F32
};

struct Ops {
  std::string_view name;          ///< "cpu", "cuda", "null"
  DType activation = DType::f32;  ///< dtype of the stream between operations
  int64_t scratch_bytes = 0;      ///< least OpContext::scratch_bytes
  bool host_memory = false;       ///< allocate()'s memory can be read and written by the host

  // Memory
  void* (*allocate)(int64_t bytes);  ///< zeroed, 64-byte aligned; nullptr when there is none
  void (*release)(void* data, int64_t bytes);
  void (*upload)(OpContext&, View dst, const void* host);  ///< contiguous
  void (*download)(OpContext&, void* host, View src);      ///< contiguous; returns when the bytes are there
  void (*copy)(OpContext&, View dst, View src);            ///< same shape and dtype, rows may be strided
  void (*fill_zero)(OpContext&, View dst);                 ///< contiguous

  // Rows and norms
  void (*embed)(OpContext&, View ids, View table, View out);               ///< ids [T] I32, table [V, H], out [T, H]
  void (*gather_rows)(OpContext&, View x, View rows, View out);            ///< rows [R] I32, out [R, H]
  void (*rms_norm)(OpContext&, View x, View weight, float eps, View out);  ///< weight [H] F32; in place allowed
  void (*add)(OpContext&, View x, View y, View out);                       ///< in place allowed
  void (*residual_mix)(OpContext&, const ResidualMixArgs&);

  // Matrices
  void (*matmul)(OpContext&, View x, const Linear& w, View out);      ///< [T, in] -> [T, out], FP32 accumulation
  void (*glu)(OpContext&, View gate, View up, Activation, View out);  ///< [T, F] each; out may be gate
  void (*sigmoid_gate)(OpContext&, View x, View gate, View out);      ///< x * sigmoid(gate); out may be x
  /// Per head of width D = weight.dim(0): RMS(x; weight, eps) * sigmoid(gate); x, gate, out [T, P]; out may be x.
  void (*gated_head_norm)(OpContext&, View x, View weight, float eps, View gate, View out);

  // Attention
  void (*short_conv)(OpContext&, const ShortConvArgs&);
  void (*kda)(OpContext&, const KdaArgs&);
  void (*mla_append)(OpContext&, const MlaAppendArgs&);
  void (*mla)(OpContext&, const MlaArgs&);

  // Mixture of experts
  void (*router)(OpContext&, const RouterArgs&);
  void (*moe)(OpContext&, const MoeArgs&);
};

/// A table that computes nothing and allocates nothing: for sizing an Arena by a dry run.
const Ops& null_ops();

}  // namespace perigee
