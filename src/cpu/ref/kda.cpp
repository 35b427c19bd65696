// Short convolution and Kimi Delta Attention: the recurrence, row by row, in FP64 between loads and stores of the
// state.

#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/ref/ops.h"

namespace perigee::ref {
namespace {

/// The state a segment starts from: source slot, or zero.
template <class Body>
void load_state(const View& state, int32_t source_slot, int64_t size, int64_t offset, Body&& set) {
  for (int64_t i = 0; i < size; ++i) {
    set(i, source_slot < 0 ? 0.0F : state.row<float>(source_slot)[offset + i]);
  }
}

double softplus(double x) {
  return x > 30 ? x : std::log1p(std::exp(x));
}

/// One head of one segment.
struct Head {
  const KdaArgs& a;
  int64_t h;
  int64_t N;
  int64_t D;
  double* S;  // [D, D]

  double log_decay(int64_t t, int64_t d) const {
    const double a_h = std::exp(static_cast<double>(a.a_log.as<float>()[h]));
    const double u = static_cast<double>(a.z.row<float>(t)[h * D + d]) + a.dt_bias.as<float>()[h * D + d];
    return a.gate_lower_bound ? *a.gate_lower_bound * sigmoid(a_h * u) : -a_h * softplus(u);
  }

  void step(int64_t t) const {
    const float* q_in = a.qkv.row<float>(t) + h * D;
    const float* k_in = q_in + N * D;
    const float* v = k_in + N * D;
    double q_norm = 1e-6;
    double k_norm = 1e-6;
    for (int64_t d = 0; d < D; ++d) {
      q_norm += static_cast<double>(q_in[d]) * q_in[d];
      k_norm += static_cast<double>(k_in[d]) * k_in[d];
    }
    const double q_scale = 1.0 / std::sqrt(q_norm * static_cast<double>(D));
    const double k_scale = 1.0 / std::sqrt(k_norm);
    const double beta = sigmoid(static_cast<double>(a.beta.row<float>(t)[h]));
    for (int64_t d = 0; d < D; ++d) {
      const double decay = std::exp(log_decay(t, d));
      for (int64_t j = 0; j < D; ++j) S[d * D + j] *= decay;
    }
    for (int64_t j = 0; j < D; ++j) {
      double error = v[j];
      for (int64_t d = 0; d < D; ++d) error -= S[d * D + j] * (k_in[d] * k_scale);
      double o = 0;
      for (int64_t d = 0; d < D; ++d) {
        S[d * D + j] += beta * (k_in[d] * k_scale) * error;
        o += S[d * D + j] * (q_in[d] * q_scale);
      }
      a.out.row<float>(t)[h * D + j] = static_cast<float>(o);
    }
  }
};

}  // namespace

void short_conv(OpContext& context, const ShortConvArgs& a) {
  const int64_t C = a.x.cols();
  const int64_t taps = a.weight.cols();
  check_rows(a.weight, C, taps, "short_conv weight");
  check_rows(a.out, a.x.rows(), C, "short_conv out");
  PERIGEE_CHECK(a.state.rank == 3 && a.state.dim(1) == taps - 1 && a.state.dim(2) == C, "short_conv state");
  for (const Segment& s : a.segments) {
    parallel_blocks(context, C, 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t c = begin; c < end; ++c) {
        double window[16] = {};
        for (int64_t j = 0; j + 1 < taps; ++j) {
          window[j] = s.source_slot < 0 ? 0.0F : a.state.at(s.source_slot).row<float>(j)[c];
        }
        for (int64_t i = 0; i < s.row_count; ++i) {
          window[taps - 1] = a.x.row<float>(s.row_begin + i)[c];
          double u = 0;
          for (int64_t j = 0; j < taps; ++j) u += window[j] * a.weight.row<float>(c)[j];
          a.out.row<float>(s.row_begin + i)[c] = static_cast<float>(u * sigmoid(u));
          for (int64_t j = 0; j + 1 < taps; ++j) window[j] = window[j + 1];
          if (i + 1 == s.commit) {
            for (int64_t j = 0; j + 1 < taps; ++j) a.state.at(s.slot).row<float>(j)[c] = static_cast<float>(window[j]);
          }
        }
        if (s.commit == 0 && s.source_slot != s.slot) {
          for (int64_t j = 0; j + 1 < taps; ++j) {
            a.state.at(s.slot).row<float>(j)[c] = s.source_slot < 0 ? 0.0F : a.state.at(s.source_slot).row<float>(j)[c];
          }
        }
      }
    });
  }
}

void kda(OpContext& context, const KdaArgs& a) {
  const int64_t N = a.state.dim(1);
  const int64_t D = a.state.dim(2);
  const int64_t T = a.qkv.rows();
  check_rows(a.qkv, T, 3 * N * D, "kda qkv");
  check_rows(a.z, T, N * D, "kda z");
  check_rows(a.beta, T, N, "kda beta");
  check_rows(a.out, T, N * D, "kda out");
  check_vector(a.a_log, N, "kda a_log");
  check_vector(a.dt_bias, N * D, "kda dt_bias");
  for (const Segment& s : a.segments) {
    context.pool->parallel_for(N, [&](int64_t h, int thread) {
      const Head head{a, h, N, D, scratch<double>(context, thread, D * D)};
      const int64_t offset = h * D * D;
      load_state(a.state, s.source_slot, D * D, offset, [&](int64_t i, float value) { head.S[i] = value; });
      float* target = a.state.row<float>(s.slot) + offset;
      const auto save = [&] {
        std::transform(head.S, head.S + D * D, target, [](double x) { return static_cast<float>(x); });
      };
      if (s.commit == 0) save();
      for (int64_t i = 0; i < s.row_count; ++i) {
        head.step(s.row_begin + i);
        // What decode would find after each token is the rounded state, so round here too.
        for (int64_t j = 0; j < D * D; ++j) head.S[j] = static_cast<float>(head.S[j]);
        if (i + 1 == s.commit) save();
      }
    });
  }
}

}  // namespace perigee::ref
