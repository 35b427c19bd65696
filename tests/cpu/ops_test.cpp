// The vector operations against the reference, over odd shapes and saturated inputs; and the bit-for-bit contract.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "cpu/ops.h"
#include "tensor/device.h"

namespace perigee {
namespace {

constexpr float kPoison = 12345.0F;

/// A matrix of floats with a guard column on the right of every row.
struct Matrix {
  Matrix(int64_t rows, int64_t cols)
      : rows_(rows), cols_(cols), data(static_cast<size_t>(rows * (cols + 1)), kPoison) {}
  View view() {
    View whole(data.data(), DType::f32, {rows_, cols_ + 1});
    return whole.cols(0, cols_);
  }
  bool guards_intact() const {
    for (int64_t r = 0; r < rows_; ++r) {
      if (data[static_cast<size_t>(r * (cols_ + 1) + cols_)] != kPoison) return false;
    }
    return true;
  }
  int64_t rows_, cols_;
  std::vector<float> data;
};

class OpsTest : public testing::TestWithParam<CpuLevel> {
 protected:
  void SetUp() override {
    if (!cpu_supports(GetParam())) GTEST_SKIP() << "this CPU lacks " << cpu_level_name(GetParam());
    fast_.emplace(Device::create(cpu_ops(GetParam()), 2));
    reference_.emplace(Device::create(reference_ops(), 1));
  }
  Matrix random(int64_t rows, int64_t cols, float spread = 1) {
    Matrix m(rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) m.view().row<float>(r)[c] = spread * random_.next_normal();
    }
    return m;
  }
  std::vector<float> vector(int64_t size) {
    std::vector<float> v(static_cast<size_t>(size));
    for (float& x : v) x = random_.next_normal();
    return v;
  }
  /// A weight matrix of the given dtype; its bytes live in `bytes_`.
  Linear weights(DType dtype, int64_t out, int64_t in) {
    bytes_.emplace_back(static_cast<size_t>(out * in * 4));
    std::byte* data = bytes_.back().data();
    if (dtype == DType::mxfp4) {
      for (auto& b : bytes_.back()) b = static_cast<std::byte>(random_.next_u32());
      bytes_.emplace_back(static_cast<size_t>(out * in / kMxGroup));
      for (auto& b : bytes_.back()) b = static_cast<std::byte>(118 + random_.next_below(6));
      return {View(data, DType::mxfp4, {out, in}), View(bytes_.back().data(), DType::u8, {out, in / kMxGroup})};
    }
    for (int64_t i = 0; i < out * in; ++i) {
      const float value = random_.next_normal() / std::sqrt(static_cast<float>(in));
      if (dtype == DType::f32) {
        std::memcpy(data + i * 4, &value, 4);
      } else {
        const bf16 rounded = to_bf16(value);
        std::memcpy(data + i * 2, &rounded, 2);
      }
    }
    return {View(data, dtype, {out, in}), {}};
  }
  static void expect_near(Matrix& a, Matrix& b, double tolerance, const std::string& what, double scale = 1e-6) {
    double worst = 0;
    for (int64_t r = 0; r < a.rows_; ++r) {
      for (int64_t c = 0; c < a.cols_; ++c) {
        worst = std::max(worst, std::abs(static_cast<double>(a.view().row<float>(r)[c]) - b.view().row<float>(r)[c]));
        scale = std::max(scale, std::abs(static_cast<double>(b.view().row<float>(r)[c])));
      }
    }
    EXPECT_LE(worst / scale, tolerance) << what;
    EXPECT_TRUE(a.guards_intact() && b.guards_intact()) << what;
  }

  PhiloxStream random_{42};
  std::optional<Device> fast_;
  std::optional<Device> reference_;
  std::vector<std::vector<std::byte>> bytes_;
};

TEST_P(OpsTest, MatmulMatchesTheReference) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::mxfp4}) {
    for (const int64_t in : {32, 64, 96, 160, 1024}) {
      for (const int64_t extra : {0, 5}) {
        const int64_t width = dtype == DType::mxfp4 ? in : in + extra;
        for (const auto& [rows, out] :
             {std::pair<int64_t, int64_t>{1, 1}, {1, 37}, {2, 64}, {3, 7}, {7, 33}, {70, 41}}) {
          Matrix x = random(rows, width);
          const Linear w = weights(dtype, out, width);
          Matrix a(rows, out);
          Matrix b(rows, out);
          fast_->ops->matmul(fast_->context, x.view(), w, a.view());
          reference_->ops->matmul(reference_->context, x.view(), w, b.view());
          // Outputs have about unit variance; a single one may be small by cancellation.
          expect_near(a, b, 3e-6, fmt::format("{} {}x{}x{}", dtype_name(dtype), rows, out, width), 1.0);
        }
      }
    }
  }
}

TEST_P(OpsTest, ARowDoesNotDependOnItsCompanyOrTheThreads) {
  Device one = Device::create(cpu_ops(GetParam()), 1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::mxfp4}) {
    Matrix x = random(19, 224);
    const Linear w = weights(dtype, 101, 224);
    Matrix all(19, 101);
    fast_->ops->matmul(fast_->context, x.view(), w, all.view());
    for (const int64_t count : {1, 2, 3, 4, 5, 8}) {
      Matrix some(count, 101);
      one.ops->matmul(one.context, x.view().rows(7, count), w, some.view());
      for (int64_t r = 0; r < count; ++r) {
        EXPECT_EQ(std::memcmp(some.view().row<float>(r), all.view().row<float>(7 + r), 101 * 4), 0)
            << dtype_name(dtype) << " " << count;
      }
    }
  }
}

TEST_P(OpsTest, RowOperationsMatchTheReference) {
  for (const int64_t width : {1, 7, 8, 33, 128, 1000}) {
    for (const float spread : {1.0F, 60.0F}) {
      Matrix x = random(5, width, spread);
      Matrix y = random(5, width, spread);
      std::vector<float> weight = vector(width);
      const View w(weight.data(), DType::f32, {width});
      const auto both = [&](double tolerance, const char* what, auto&& run) {
        Matrix a(5, width);
        Matrix b(5, width);
        run(*fast_, a.view());
        run(*reference_, b.view());
        expect_near(a, b, tolerance, fmt::format("{} {} {}", what, width, spread));
      };
      both(1e-6, "rms_norm", [&](Device& d, View out) { d.ops->rms_norm(d.context, x.view(), w, 1e-5F, out); });
      both(0, "add", [&](Device& d, View out) { d.ops->add(d.context, x.view(), y.view(), out); });
      both(1e-6, "sigmoid_gate", [&](Device& d, View out) { d.ops->sigmoid_gate(d.context, x.view(), y.view(), out); });
      both(1e-6, "gated_head_norm",
           [&](Device& d, View out) { d.ops->gated_head_norm(d.context, x.view(), w, 1e-5F, y.view(), out); });
      for (const auto kind : {Activation::Kind::silu, Activation::Kind::situ}) {
        both(1e-6, "glu", [&](Device& d, View out) { d.ops->glu(d.context, x.view(), y.view(), {.kind = kind}, out); });
      }
      std::vector<float> bank(static_cast<size_t>(3 * 5 * width));
      for (float& v : bank) v = random_.next_normal();
      both(2e-6, "residual_mix", [&](Device& d, View out) {
        d.ops->residual_mix(d.context, {.bank = View(bank.data(), DType::f32, {3, 5, width}),
                                        .x = x.view(),
                                        .weight = w,
                                        .eps = 1e-5F,
                                        .out = out});
      });
    }
  }
}

TEST_P(OpsTest, MoeMatchesTheReferenceAndItsOwnRows) {
  constexpr int64_t T = 23, X = 96, F = 64, E = 6, K = 3;
  const Linear gate_up = weights(DType::mxfp4, E * 2 * F, X);
  const Linear down = weights(DType::mxfp4, E * X, F);
  Experts experts;
  experts.gate_up = View(gate_up.weight.data, DType::mxfp4, {E, 2 * F, X});
  experts.gate_up_scale = View(gate_up.scale.data, DType::u8, {E, 2 * F, X / 32});
  experts.down = View(down.weight.data, DType::mxfp4, {E, X, F});
  experts.down_scale = View(down.scale.data, DType::u8, {E, X, F / 32});
  Matrix x = random(T, X, 0.1F);
  std::vector<int32_t> ids;
  std::vector<float> weight;
  for (int64_t t = 0; t < T; ++t) {
    for (int32_t k = 0; k < K; ++k) {
      ids.push_back(static_cast<int32_t>((t * 2 + k) % 8) - 1);  // -1 and 6 belong to other ranks
      weight.push_back(random_.next_normal());
    }
  }
  const auto run = [&](Device& d, int64_t begin, int64_t count, View out) {
    Matrix hidden(count * K, 2 * F);
    Matrix partial(count * K, X);
    d.ops->moe(d.context, {.x = x.view().rows(begin, count),
                           .ids = View(ids.data() + begin * K, DType::i32, {count, K}),
                           .weights = View(weight.data() + begin * K, DType::f32, {count, K}),
                           .experts = experts,
                           .activation = {.kind = Activation::Kind::situ},
                           .hidden = hidden.view(),
                           .partial = partial.view(),
                           .out = out});
  };
  Matrix a(T, X);
  Matrix b(T, X);
  run(*fast_, 0, T, a.view());
  run(*reference_, 0, T, b.view());
  expect_near(a, b, 3e-6, "moe");
  for (int64_t t = 0; t < T; ++t) {
    Matrix alone(1, X);
    run(*fast_, t, 1, alone.view());
    EXPECT_EQ(std::memcmp(alone.view().row<float>(0), a.view().row<float>(t), X * 4), 0) << t;
  }
}

TEST_P(OpsTest, RouterBiasOnlySelectsTiesGoLowAndNanIsContained) {
  std::vector<float> x = {1, 0, 1, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> gate = {0.5F, 0, 0.5F, 0, 0.25F, 0, 2, 0};  // [4, 2]
  std::vector<float> bias = {0, 0, 10, 0};
  std::vector<int32_t> ids(4);
  std::vector<float> weights(4);
  std::vector<float> logits(8);
  fast_->ops->router(fast_->context, {.x = View(x.data(), DType::f32, {2, 2}),
                                      .gate = {View(gate.data(), DType::f32, {4, 2}), {}},
                                      .bias = View(bias.data(), DType::f32, {4}),
                                      .scale = 2,
                                      .ids = View(ids.data(), DType::i32, {2, 2}),
                                      .weights = View(weights.data(), DType::f32, {2, 2}),
                                      .logits = View(logits.data(), DType::f32, {2, 4})});
  EXPECT_EQ(ids[0], 2);  // by its bias
  EXPECT_EQ(ids[1], 3);
  const auto s = [](double v) { return 1 / (1 + std::exp(-v)); };
  EXPECT_NEAR(weights[0], 2 * s(0.25) / (s(0.25) + s(2)), 1e-6);
  EXPECT_NE(ids[2], ids[3]);
  EXPECT_TRUE(ids[2] >= 0 && ids[2] < 4 && ids[3] >= 0 && ids[3] < 4);
}

INSTANTIATE_TEST_SUITE_P(Levels, OpsTest, testing::Values(CpuLevel::reference, CpuLevel::avx2, CpuLevel::avx512),
                         [](const auto& info) { return std::string(cpu_level_name(info.param)); });

TEST(CpuChoice, IsTheWidestThisCpuHas) {
  EXPECT_TRUE(cpu_supports(cpu_choice().level));
  EXPECT_FALSE(cpu_choice().reason.empty());
  for (const auto& [level, reason] : cpu_choice().rejected) {
    EXPECT_FALSE(cpu_supports(level));
    EXPECT_THROW((void)cpu_ops(level), std::runtime_error);
  }
}

}  // namespace
}  // namespace perigee
