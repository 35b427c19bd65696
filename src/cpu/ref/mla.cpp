// Multi-head latent attention: append to the paged cache, then expanded attention per head and row, softmax in FP64.

#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/ref/matrix.h"
#include "cpu/ref/ops.h"

namespace perigee::ref {
namespace {

/// Address of a cached token: its page and the row inside.
struct TokenPlace {
  int32_t page;
  int64_t row;
};

TokenPlace place(const Segment& s, std::span<const int32_t> pages, int64_t page_size, int64_t position) {
  const int64_t entry = position / page_size;
  PERIGEE_CHECK(entry < s.page_count, "position {} beyond {} pages of {}", position, s.page_count, page_size);
  return {pages[static_cast<size_t>(s.page_begin + entry)], position % page_size};
}

/// One head of one segment: k and v of a block of keys are expanded once for all rows of the segment.
struct HeadAttention {
  const MlaArgs& a;
  const Segment& s;
  int64_t h;
  float* row;   // [latent] decode buffer
  double* top;  // per row of a tile: running maximum, sum, and v accumulators
  static constexpr int64_t kKeys = 16;
  static constexpr int64_t kRows = 64;

  int64_t latent() const { return a.kv_b.in(); }
  int64_t width() const { return a.nope + a.rope; }

  void run_rows(int64_t first, int64_t count, double* expanded) const {
    const int64_t V = a.v;
    double* sum = top + kRows;
    double* acc = sum + kRows;  // [kRows, V]
    std::fill(top, top + kRows, -INFINITY);
    std::fill(sum, sum + kRows + kRows * V, 0.0);
    const int64_t end = s.position + first + count;
    for (int64_t key = 0; key < end; key += kKeys) {
      const int64_t keys = std::min(kKeys, end - key);
      expand(key, keys, expanded);
      for (int64_t i = 0; i < count; ++i) absorb(first + i, key, keys, expanded, top[i], sum[i], acc + i * V);
    }
    for (int64_t i = 0; i < count; ++i) {
      float* out = a.out.row<float>(s.row_begin + first + i) + h * V;
      for (int64_t d = 0; d < V; ++d) out[d] = static_cast<float>(acc[i * V + d] / sum[i]);
    }
  }

  /// expanded [keys, nope + rope + v]
  void expand(int64_t key, int64_t keys, double* expanded) const {
    const int64_t L = latent();
    const int64_t stride = width() + a.v;
    for (int64_t part = 0; part < a.nope + a.v; ++part) {
      decode_row(a.kv_b, h * (a.nope + a.v) + part, row);
      for (int64_t j = 0; j < keys; ++j) {
        const auto [page, in_page] = place(s, a.pages, a.cache.dim(1), key + j);
        const RowReader c = row_reader(a.cache.at(page), in_page);
        double value = 0;
        for (int64_t d = 0; d < L; ++d) value += static_cast<double>(row[d]) * c[d];
        expanded[j * stride + (part < a.nope ? part : a.rope + part)] = value;
      }
    }
    for (int64_t j = 0; j < keys; ++j) {
      const auto [page, in_page] = place(s, a.pages, a.cache.dim(1), key + j);
      const RowReader c = row_reader(a.cache.at(page), in_page);
      for (int64_t d = 0; d < a.rope; ++d) expanded[j * stride + a.nope + d] = c[L + d];
    }
  }

  /// Online softmax of row `i` of the segment over the block.
  void absorb(int64_t i, int64_t key, int64_t keys, const double* expanded, double& maximum, double& sum,
              double* acc) const {
    const int64_t stride = width() + a.v;
    const float* q = a.q.row<float>(s.row_begin + i) + h * width();
    for (int64_t j = 0; j < keys && key + j <= s.position + i; ++j) {
      const double* k = expanded + j * stride;
      double score = 0;
      for (int64_t d = 0; d < width(); ++d) score += q[d] * k[d];
      score *= a.scale;
      const double next = std::max(maximum, score);
      const double keep = std::exp(maximum - next);
      const double p = std::exp(score - next);
      maximum = next;
      sum = sum * keep + p;
      for (int64_t d = 0; d < a.v; ++d) acc[d] = acc[d] * keep + p * k[width() + d];
    }
  }
};

}  // namespace

void mla_append(OpContext&, const MlaAppendArgs& a) {
  const int64_t L = a.norm.dim(0);
  const int64_t width = a.cache.dim(2);
  check_rows(a.x, a.x.rows(), width, "mla_append x");
  for (const Segment& s : a.segments) {
    for (int64_t i = 0; i < s.row_count; ++i) {
      const float* x = a.x.row<float>(s.row_begin + i);
      const auto [page, row] = place(s, a.pages, a.cache.dim(1), s.position + i);
      const View target = a.cache.at(page);
      const double inverse = 1.0 / std::sqrt(dot(x, x, L) / static_cast<double>(L) + a.eps);
      for (int64_t d = 0; d < width; ++d) {
        const double value = d < L ? x[d] * inverse * a.norm.as<float>()[d] : x[d];
        store(target, row, d, static_cast<float>(value));
      }
    }
  }
}

void mla(OpContext& context, const MlaArgs& a) {
  const int64_t T = a.q.rows();
  const int64_t width = a.nope + a.rope;
  check_rows(a.q, T, a.heads * width, "mla q");
  check_rows(a.out, T, static_cast<int64_t>(a.heads) * a.v, "mla out");
  PERIGEE_CHECK(a.kv_b.out() == static_cast<int64_t>(a.heads) * (a.nope + a.v), "mla kv_b has {} rows", a.kv_b.out());
  PERIGEE_CHECK(a.cache.dim(2) == a.kv_b.in() + a.rope, "mla cache is {} wide", a.cache.dim(2));
  for (const Segment& s : a.segments) {
    context.pool->parallel_for(a.heads, [&](int64_t h, int thread) {
      using H = HeadAttention;
      const int64_t doubles = H::kKeys * (width + a.v) + H::kRows * (2 + a.v);
      double* memory = scratch<double>(context, thread, doubles + a.kv_b.in());
      double* expanded = memory + H::kRows * (2 + a.v);
      const H head{a, s, h, reinterpret_cast<float*>(memory + doubles), memory};
      for (int64_t first = 0; first < s.row_count; first += H::kRows) {
        head.run_rows(first, std::min<int64_t>(H::kRows, s.row_count - first), expanded);
      }
    });
  }
}

}  // namespace perigee::ref
