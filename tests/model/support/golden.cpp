// Reads goldens with the program's own safetensors reader: the numpy side has its own writer.
#include "model/support/golden.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/log.h"
#include "model/checkpoint.h"
#include "model/weight_loader.h"

namespace perigee::test {
namespace {

template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

/// The bytes of a tensor as 32-bit values.
template <class T>
std::vector<T> read_values(const Checkpoint& checkpoint, std::string_view name, std::string_view dtype) {
  const Checkpoint::Place place = checkpoint.find(name);
  if (place.tensor == nullptr || place.tensor->dtype != dtype) {
    throw std::runtime_error(fmt::format("the golden has no {} tensor {}", dtype, name));
  }
  std::vector<T> values(static_cast<size_t>(place.tensor->bytes) / sizeof(T));
  const File& file = checkpoint.files()[static_cast<size_t>(place.file)];
  if (const auto read = file.read_at(place.tensor->offset, std::as_writable_bytes(std::span(values))); !read) {
    throw std::runtime_error(read.error().message);
  }
  return values;
}

}  // namespace

std::string golden_folder(const std::string& name) {
  return std::string(PERIGEE_SOURCE_DIR) + "/tests/reference/goldens/" + name;
}

Golden read_golden(const std::string& name) {
  Golden golden;
  golden.folder = golden_folder(name);
  const auto expected = value_or_throw(Checkpoint::open(golden.folder + "/expected"));
  golden.prompt = read_values<int32_t>(expected, "prompt", "I32");
  golden.positions = read_values<int32_t>(expected, "positions", "I32");
  const auto logits = read_values<float>(expected, "logits", "F32");
  const size_t vocab = logits.size() / golden.positions.size();
  double square = 0;
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    golden.logits.emplace_back(&logits[i * vocab], &logits[i * vocab] + vocab);
  }
  for (const float value : logits) square += static_cast<double>(value) * static_cast<double>(value);
  golden.logits_rms = std::sqrt(square / static_cast<double>(logits.size()));
  constexpr std::string_view kWrong = "wrong.";
  for (const std::string_view tensor : expected.names()) {
    if (tensor.starts_with(kWrong)) {
      golden.wrong[std::string(tensor.substr(kWrong.size()))] = read_values<float>(expected, tensor, "F32");
    } else if (tensor.starts_with("layer.")) {
      golden.caches[std::string(tensor)] = {expected.find(tensor).tensor->shape,
                                            read_values<float>(expected, tensor, "F32")};
    }
  }
  return golden;
}

Model load_model(const std::string& folder, const Ops& ops) {
  set_log_level(LogLevel::warning);  // one line for every load would bury the tests' own output
  const auto checkpoint = value_or_throw(Checkpoint::open(folder));
  ModelConfig config = value_or_throw(load_config(folder));
  Weights weights = load_weights(checkpoint, config, ops, {.threads = 2, .quiet = true});
  return Model(std::move(config), std::move(weights));
}

}  // namespace perigee::test
