// y = x W^T for F32, BF16 and MXFP4 weights, and what is built on it: the router and the routed experts.

#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/ref/matrix.h"
#include "cpu/ref/ops.h"

namespace perigee::ref {

void decode_row(const Linear& w, int64_t row, float* out) {
  const int64_t in = w.in();
  if (w.weight.dtype != DType::mxfp4) {
    const RowReader reader = row_reader(w.weight, row);
    for (int64_t d = 0; d < in; ++d) out[d] = reader[d];
    return;
  }
  const uint8_t* codes = w.weight.as<uint8_t>() + row * w.weight.strides[0] / 2;
  const uint8_t* scales = w.scale.row<uint8_t>(row);
  for (int64_t d = 0; d < in; ++d) {
    const int code = d % 2 == 0 ? codes[d / 2] & 15 : codes[d / 2] >> 4;
    out[d] = kE2m1[code] * e8m0_to_float(scales[d / kMxGroup]);
  }
}

double dot(const float* x, const float* y, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) sum += static_cast<double>(x[d]) * y[d];
  return sum;
}

void matmul(OpContext& context, View x, const Linear& w, View out) {
  check_rows(x, x.rows(), w.in(), "matmul x");
  check_rows(out, x.rows(), w.out(), "matmul out");
  parallel_blocks(context, w.out(), 8, [&](int64_t begin, int64_t end, int thread) {
    float* row = scratch<float>(context, thread, w.in());
    for (int64_t n = begin; n < end; ++n) {
      decode_row(w, n, row);
      for (int64_t t = 0; t < x.rows(); ++t) {
        out.row<float>(t)[n] = static_cast<float>(dot(x.row<float>(t), row, w.in()));
      }
    }
  });
}

void choose_experts(const RouterArgs& a, int64_t t) {
  const int64_t E = a.gate.out();
  const int64_t K = a.ids.cols();
  const float* logits = a.logits.row<float>(t);
  const float* bias = a.bias.as<float>();
  int32_t* ids = a.ids.row<int32_t>(t);
  float* weights = a.weights.row<float>(t);
  // Insertion into the K best so far; NaN compares as the smallest, so that the ids stay valid and distinct.
  int64_t count = 0;
  float best[1024];
  PERIGEE_CHECK(K <= 1024, "{} experts per token", K);
  for (int64_t e = 0; e < E; ++e) {
    const float raw = sigmoid(logits[e]) + bias[e];
    const float score = std::isnan(raw) ? -INFINITY : raw;
    if (count == K && !(score > best[K - 1])) continue;
    int64_t at = count < K ? count++ : K - 1;
    for (; at > 0 && score > best[at - 1]; --at) {
      best[at] = best[at - 1];
      ids[at] = ids[at - 1];
    }
    best[at] = score;
    ids[at] = static_cast<int32_t>(e);
  }
  float sum = 0;
  for (int64_t i = 0; i < K; ++i) sum += weights[i] = sigmoid(logits[ids[i]]);
  for (int64_t i = 0; i < K; ++i) weights[i] = weights[i] / (sum + 1e-20F) * a.scale;
}

void router(OpContext& context, const RouterArgs& a) {
  const int64_t T = a.x.rows();
  PERIGEE_CHECK(a.ids.cols() <= a.gate.out(), "{} of {} experts", a.ids.cols(), a.gate.out());
  check_rows(a.ids, T, a.ids.cols(), "router ids");
  check_rows(a.weights, T, a.ids.cols(), "router weights");
  check_vector(a.bias, a.gate.out(), "router bias");
  matmul(context, a.x, a.gate, a.logits);
  for (int64_t t = 0; t < T; ++t) choose_experts(a, t);
}

void moe(OpContext& context, const MoeArgs& a) {
  const int64_t T = a.x.rows();
  const int64_t X = a.x.cols();
  const int64_t K = a.ids.cols();
  const int64_t E = a.experts.gate_up.dim(0);
  const int64_t F = a.experts.gate_up.dim(1) / 2;
  check_rows(a.hidden, T * K, 2 * F, "moe hidden");
  check_rows(a.partial, T * K, X, "moe partial");
  check_rows(a.out, T, X, "moe out");
  // One expert per row of work: (token, choice) in turn.
  for (int64_t i = 0; i < T * K; ++i) {
    const int64_t e = a.ids.row<int32_t>(i / K)[i % K] - a.expert_begin;
    if (e < 0 || e >= E) continue;
    const bool packed = a.experts.gate_up.dtype == DType::mxfp4;
    const Linear gate_up{a.experts.gate_up.at(e), packed ? a.experts.gate_up_scale.at(e) : View{}};
    const Linear down{a.experts.down.at(e), packed ? a.experts.down_scale.at(e) : View{}};
    const View hidden = a.hidden.rows(i, 1);
    matmul(context, a.x.rows(i / K, 1), gate_up, hidden);
    glu(context, hidden.cols(0, F), hidden.cols(F, F), a.activation, hidden.cols(0, F));
    matmul(context, hidden.cols(0, F), down, a.partial.rows(i, 1));
  }
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t d = 0; d < X; ++d) {
      double sum = 0;
      for (int64_t i = 0; i < K; ++i) {
        const int64_t e = a.ids.row<int32_t>(t)[i] - a.expert_begin;
        if (e >= 0 && e < E)
          sum += static_cast<double>(a.weights.row<float>(t)[i]) * a.partial.row<float>(t * K + i)[d];
      }
      a.out.row<float>(t)[d] = static_cast<float>(sum);
    }
  }
}

}  // namespace perigee::ref
