// WeightLayout: where every tensor of a checkpoint goes in the one buffer behind Weights. Private to model/.
//
// Built twice: once without memory, to learn the size, and once over the buffer. The same code makes both, so they
// agree.
#pragma once

#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/tensor_list.h"
#include "model/weights.h"

namespace perigee {

/// One tensor's way from the file to memory.
struct TensorRead {
  TensorSpec spec;              ///< as expected
  std::byte* target = nullptr;  ///< first byte
  int64_t elements = 0;         ///< how many of the tensor's elements are kept (a prefix)
  std::string factor;           ///< a second vector to multiply with elementwise (folded residual weights)
};

/// Finds the dtype a matrix has in the files; BF16 when it is not there (the check reports it) or no checkpoint is
/// given.
class WeightLayout {
 public:
  WeightLayout(const ModelConfig& config, const Checkpoint* checkpoint, std::byte* base);

  Weights weights;  ///< without its Buffer
  std::vector<TensorRead> reads;
  int64_t bytes() const { return used_; }

 private:
  void place_layer(int64_t layer);
  KdaWeights place_kda(const std::string& prefix);
  MlaWeights place_mla(const std::string& prefix);
  MlpWeights place_dense(const std::string& prefix);
  MoeWeights place_moe(int64_t layer, const std::string& prefix);
  Experts place_experts(int64_t layer);

  std::byte* take(int64_t bytes);
  const TensorSpec& spec(const std::string& name) const;
  DType stored_matrix_dtype(const std::string& name) const;
  /// Matrices with one input width, one below the other.
  Linear stack(const std::vector<std::string>& names);
  View vectors(const std::vector<std::string>& names, int64_t keep = 0);
  View folded(const std::string& norm, const std::string& projection);

  const ModelConfig& config_;
  const Checkpoint* checkpoint_;
  std::byte* base_;
  int64_t used_ = 0;
  std::vector<TensorSpec> current_;  // specs of the layer (or top) being placed
};

}  // namespace perigee
