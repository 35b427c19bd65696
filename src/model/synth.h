// Synthetic checkpoints: complete, valid, of any dimensions, from a seed. For tests, benchmarks and trying the server.
//
// Weights come from Philox keyed by the tensor's name and the seed, so any tensor can be made alone and the same seed
// gives the same bytes. Generated block by block in parallel and streamed to disk; the model never lies in memory as a
// whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/config.h"
#include "model/tensor_list.h"

namespace perigee {

/// "tiny", "small", "bench", "kimi-linear-tiny", "k3".
std::span<const std::string_view> synth_presets();

/// The config.json of a preset, with `overrides` ("key=value", value in JSON; keys of text_config, or
/// "linear_attn_config.key") applied. Layer lists follow num_hidden_layers unless given.
Result<json::value> synth_config(std::string_view preset, std::span<const std::string> overrides = {});

struct SynthOptions {
  uint64_t seed = 0;
  int threads = 2;
  int64_t shard_bytes = int64_t{5} << 30;  ///< a shard ends with the tensor that reaches this
  bool quiet = false;
};

/// Writes config.json, generation_config.json, the tokenizer's files, shards and index into the existing folder.
/// Throws std::runtime_error when the disk refuses.
void write_synthetic_checkpoint(const json::value& config, const std::string& folder, const SynthOptions& options);

/// The bytes of one tensor (the loader's view of the same numbers, for tests).
std::vector<std::byte> synth_tensor(const TensorSpec& spec, const ModelConfig& config, uint64_t seed);

/// tiktoken.model and tokenizer_config.json for a vocabulary of `vocab` ids, 256 of them special.
std::string synth_tokenizer_model(int64_t vocab, uint64_t seed);
std::string synth_tokenizer_config(int64_t vocab);

/// Specials take the last 256 ids; <|end_of_msg|> is the third of them.
inline constexpr int64_t kSpecialSlots = 256;

}  // namespace perigee
