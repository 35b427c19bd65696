// set_up_model: from command-line options to a loaded model, tokenizer and running engine. Shared by `serve` and `run`.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "model/config.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace perigee {

/// Options that say which model runs how; names are SGLang's where it has them.
struct ModelOptions {
  std::string model_path;
  std::string device = "auto";          ///< auto, cpu
  std::string require_backend;          ///< reference, avx2, avx512: anything else chosen is an error
  std::string kv_cache_dtype = "auto";  ///< auto (bfloat16), bfloat16, float32
  int64_t context_length = 0;           ///< 0: the model's
  int64_t max_running_requests = 0;     ///< 0: as many as fit, 32 at most
  int64_t max_queued_requests = 256;
  int64_t max_total_tokens = 0;  ///< latent cache in tokens; 0: from the memory budget
  int64_t chunked_prefill_size = 512;
  int64_t page_size = 64;
  std::string memory;   ///< budget for weights, pools and workspace; empty: 80 % of what is free
  int cpu_threads = 0;  ///< 0: all this process may use
  bool pin_threads = false;
  uint64_t random_seed = 0;
  int64_t check_interval = 0;  ///< steps between invariant checks
  bool quiet = false;          ///< no progress bar
};

/// Registers the options above on a sub-command.
void add_model_options(CLI::App& command, ModelOptions& options);

/// Bytes by purpose, as allocated.
struct MemoryTable {
  int64_t weights = 0;
  int64_t latent_cache = 0;
  int64_t states = 0;
  int64_t workspace = 0;
  int64_t total() const { return weights + latent_cache + states + workspace; }
};

struct LoadedModel {
  std::string folder;
  ModelConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<Engine> engine;
  SchedulerOptions limits;
  MemoryTable memory;
  std::string backend;  ///< "cpu/avx2"
  std::string backend_reason;
  std::string kv_dtype;  ///< "bfloat16", "float32"
  double load_seconds = 0;
};

/// Throws std::runtime_error with a full sentence that names the flag to change.
LoadedModel set_up_model(const ModelOptions& options);

}  // namespace perigee
