// The tensors of a text checkpoint, by name: one list that synth writes, the loader checks and inspect counts.
//
// Names, shapes and dtypes are those of the released files (docs/model.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace perigee {

/// What a tensor belongs to, for the accounts.
enum class Part : uint8_t { embedding, lm_head, kda, mla, dense, router, latent, shared, experts, norms };
inline constexpr int kParts = 10;
std::string_view part_name(Part part);

/// How a tensor is filled by synth and read by the loader.
enum class TensorRole : uint8_t {
  matrix,  ///< BF16 (or F32)
  vector,  ///< BF16 or F32, widened to F32 at load
  packed,  ///< U8: two E2M1 codes a byte
  scale,   ///< U8: E8M0
};

struct TensorSpec {
  std::string name;            ///< with the checkpoint's prefix
  std::vector<int64_t> shape;  ///< as released; loaders also take the same elements in another shape of vectors
  DType dtype = DType::bf16;   ///< as released
  TensorRole role = TensorRole::matrix;
  Part part = Part::norms;

  int64_t elements() const;
  int64_t bytes() const { return elements() * dtype_bits(dtype) / 8; }
  /// Parameters: packed bytes hold two, scales none.
  int64_t parameters() const;
};

/// Calls visit(spec) for every tensor, in the order of the released checkpoint: each layer's trunk, then its experts
/// (w1, w2, w3: packed, scale); the top tensors last.
template <class Visit>
void for_each_tensor(const ModelConfig& config, Visit&& visit);

std::vector<TensorSpec> list_text_tensors(const ModelConfig& config);

/// Tensors of one layer without its experts, and of the experts alone.
std::vector<TensorSpec> layer_trunk(const ModelConfig& config, int64_t layer);
std::vector<TensorSpec> expert_tensors(const ModelConfig& config, int64_t layer, int64_t expert);
std::vector<TensorSpec> top_tensors(const ModelConfig& config);

/// Totals by part.
struct PartTotals {
  int64_t tensors = 0, parameters = 0, bytes = 0;
};
struct ModelTotals {
  PartTotals parts[kParts];
  PartTotals all;
};
ModelTotals count_tensors(const ModelConfig& config);

template <class Visit>
void for_each_tensor(const ModelConfig& config, Visit&& visit) {
  for (int64_t l = 0; l < config.layers; ++l) {
    for (const TensorSpec& spec : layer_trunk(config, l)) visit(spec);
    if (config.is_dense(l)) continue;
    for (int64_t e = 0; e < config.experts; ++e) {
      for (const TensorSpec& spec : expert_tensors(config, l, e)) visit(spec);
    }
  }
  for (const TensorSpec& spec : top_tensors(config)) visit(spec);
}

}  // namespace perigee
