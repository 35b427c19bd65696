// Norms, sums and gates over rows.

#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/ref/ops.h"

namespace perigee::ref {
namespace {

double mean_square(const float* x, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) sum += static_cast<double>(x[d]) * x[d];
  return sum / static_cast<double>(size);
}

}  // namespace

void rms_norm(OpContext& context, View x, View weight, float eps, View out) {
  const int64_t H = x.cols();
  check_rows(out, x.rows(), H, "rms_norm out");
  check_vector(weight, H, "rms_norm weight");
  const float* w = weight.as<float>();
  parallel_blocks(context, x.rows(), 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float* in = x.row<float>(t);
      const double inverse = 1.0 / std::sqrt(mean_square(in, H) + eps);
      for (int64_t d = 0; d < H; ++d) out.row<float>(t)[d] = static_cast<float>(in[d] * inverse * w[d]);
    }
  });
}

void add(OpContext& context, View x, View y, View out) {
  check_rows(y, x.rows(), x.cols(), "add y");
  check_rows(out, x.rows(), x.cols(), "add out");
  parallel_blocks(context, x.rows(), 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t d = 0; d < x.cols(); ++d) out.row<float>(t)[d] = x.row<float>(t)[d] + y.row<float>(t)[d];
    }
  });
}

void residual_mix(OpContext& context, const ResidualMixArgs& a) {
  const int64_t R = a.bank.dim(0);
  const int64_t T = a.x.rows();
  const int64_t H = a.x.cols();
  PERIGEE_CHECK(a.bank.rank == 3 && a.bank.dim(1) == T && a.bank.dim(2) == H && R >= 1 && R < 64, "bank [{}, {}, {}]",
                R, a.bank.dim(1), a.bank.dim(2));
  check_rows(a.out, T, H, "residual_mix out");
  check_vector(a.weight, H, "residual_mix weight");
  const float* c = a.weight.as<float>();
  parallel_blocks(context, T, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float* rows[64];
      double scores[64];
      for (int64_t r = 0; r < R; ++r) rows[r] = a.bank.at(r).row<float>(t);
      rows[R] = a.x.row<float>(t);
      for (int64_t r = 0; r <= R; ++r) {
        double dot = 0;
        for (int64_t d = 0; d < H; ++d) dot += static_cast<double>(c[d]) * rows[r][d];
        scores[r] = dot / std::sqrt(mean_square(rows[r], H) + a.eps);
      }
      const double top = *std::max_element(scores, scores + R + 1);
      double total = 0;
      for (int64_t r = 0; r <= R; ++r) total += scores[r] = std::exp(scores[r] - top);
      for (int64_t d = 0; d < H; ++d) {
        double sum = 0;
        for (int64_t r = 0; r <= R; ++r) sum += scores[r] / total * rows[r][d];
        a.out.row<float>(t)[d] = static_cast<float>(sum);
      }
    }
  });
}

void glu(OpContext& context, View gate, View up, Activation act, View out) {
  check_rows(up, gate.rows(), gate.cols(), "glu up");
  check_rows(out, gate.rows(), gate.cols(), "glu out");
  parallel_blocks(context, gate.rows(), 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t d = 0; d < gate.cols(); ++d) {
        const double g = gate.row<float>(t)[d];
        const double u = up.row<float>(t)[d];
        // SiTU: the sigmoid sees the uncapped gate.
        const double value = act.kind == Activation::Kind::silu ? g * sigmoid(g) * u
                                                                : act.beta * std::tanh(g / act.beta) * sigmoid(g) *
                                                                      act.linear_beta * std::tanh(u / act.linear_beta);
        out.row<float>(t)[d] = static_cast<float>(value);
      }
    }
  });
}

void sigmoid_gate(OpContext& context, View x, View gate, View out) {
  check_rows(gate, x.rows(), x.cols(), "sigmoid_gate gate");
  check_rows(out, x.rows(), x.cols(), "sigmoid_gate out");
  parallel_blocks(context, x.rows(), 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t d = 0; d < x.cols(); ++d) {
        out.row<float>(t)[d] =
            static_cast<float>(x.row<float>(t)[d] * sigmoid(static_cast<double>(gate.row<float>(t)[d])));
      }
    }
  });
}

void gated_head_norm(OpContext& context, View x, View weight, float eps, View gate, View out) {
  const int64_t D = weight.dim(0);
  PERIGEE_CHECK(x.cols() % D == 0, "{} columns in heads of {}", x.cols(), D);
  check_rows(gate, x.rows(), x.cols(), "gated_head_norm gate");
  check_rows(out, x.rows(), x.cols(), "gated_head_norm out");
  const float* w = weight.as<float>();
  parallel_blocks(context, x.rows(), 2, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t h = 0; h < x.cols(); h += D) {
        const float* in = x.row<float>(t) + h;
        const float* g = gate.row<float>(t) + h;
        const double inverse = 1.0 / std::sqrt(mean_square(in, D) + eps);
        for (int64_t d = 0; d < D; ++d) {
          out.row<float>(t)[h + d] = static_cast<float>(in[d] * inverse * w[d] * sigmoid(static_cast<double>(g[d])));
        }
      }
    }
  });
}

}  // namespace perigee::ref
