// Golden: one folder of tests/reference/goldens, a tiny checkpoint and what the independent numpy model computed from
// it (tools/reference/make_goldens.py names the tensors). Read by the whole-model tests; owns everything it shows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/k3.h"

namespace perigee::test {

/// A tensor of expected/model.safetensors, widened to float.
struct Expected {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct Golden {
  std::string folder;
  std::vector<int32_t> prompt;
  std::vector<int32_t> positions;                   ///< rows whose logits are kept, ascending, the last row among them
  std::vector<std::vector<float>> logits;           ///< one per position
  std::map<std::string, std::vector<float>> wrong;  ///< misreading -> logits of the last row
  std::map<std::string, Expected> caches;           ///< "layer.L.kv", "layer.L.state", "layer.L.conv"
  double logits_rms = 0;
};

/// tests/reference/goldens/`name`.
std::string golden_folder(const std::string& name);

/// Throws std::runtime_error when the folder is not as make_goldens.py leaves it.
Golden read_golden(const std::string& name);

/// The model of a checkpoint folder in the memory of `ops`. Throws std::runtime_error.
Model load_model(const std::string& folder, const Ops& ops);

}  // namespace perigee::test
