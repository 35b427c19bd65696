#include "apps/model_setup.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "base/log.h"
#include "cpu/ops.h"
#include "engine/worker.h"
#include "model/hub.h"
#include "model/memory_plan.h"
#include "model/weight_loader.h"

namespace perigee {
namespace {

template <class T>
T or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

/// What the kernel calls available, in bytes.
int64_t available_memory() {
  std::ifstream info("/proc/meminfo");
  std::string key;
  int64_t kilobytes = 0;
  std::string unit;
  while (info >> key >> kilobytes) {
    std::getline(info, unit);
    if (key == "MemAvailable:") return kilobytes * 1024;
  }
  return int64_t{4} << 30;
}

int64_t memory_budget(const ModelOptions& options) {
  if (options.memory.empty()) return available_memory() / 10 * 8;
  const auto bytes = parse_bytes(options.memory);
  if (!bytes) throw std::runtime_error("--memory: " + bytes.error().message);
  return *bytes;
}

/// Requests first, then pages: the state slot is the scarce thing.
struct Pools {
  int64_t running = 0;
  int64_t pages = 0;
};

Pools size_pools(const ModelConfig& config, const ModelOptions& options, DType kv_dtype, int64_t context,
                 int64_t budget, int64_t workspace) {
  const MemoryPlan plan = plan_memory(config, kv_dtype, context, budget);
  const int64_t page_bytes = options.page_size * plan.kv_per_token;
  const int64_t room = budget - plan.weights - workspace;
  const int64_t context_pages = (context + options.page_size - 1) / options.page_size;
  Pools pools;
  pools.running = options.max_running_requests != 0 ? options.max_running_requests : 32;
  const auto too_small = [&](std::string_view flag) {
    return std::runtime_error(
        fmt::format("the memory budget of {} does not hold weights of {}, workspace of {}, {} states of {} and one "
                    "request of {} tokens ({}): "
                    "raise --memory or lower {}",
                    human_bytes(budget), human_bytes(plan.weights), human_bytes(workspace), pools.running,
                    human_bytes(plan.state_per_request), context, human_bytes(context_pages * page_bytes), flag));
  };
  if (options.max_running_requests == 0) {
    // Half of the room at most goes to states when nobody said how many.
    pools.running = std::clamp<int64_t>(room / 2 / std::max<int64_t>(1, plan.state_per_request), 1, 32);
  }
  const int64_t left = room - pools.running * plan.state_per_request;
  if (options.max_total_tokens != 0) {
    pools.pages = (options.max_total_tokens + options.page_size - 1) / options.page_size;
    if (pools.pages * page_bytes > left) throw too_small("--max-total-tokens or --max-running-requests");
    return pools;
  }
  // Every running request at full context is the most that can ever be used.
  pools.pages =
      page_bytes == 0 ? pools.running * context_pages : std::min(left / page_bytes, pools.running * context_pages);
  if (pools.pages < context_pages) throw too_small("--context-length or --max-running-requests");
  return pools;
}

DType kv_dtype_of(const std::string& name) {
  return name == "float32" ? DType::f32 : DType::bf16;
}

void check_backend(const ModelOptions& options) {
  const CpuChoice& choice = cpu_choice();
  if (!options.require_backend.empty() && options.require_backend != cpu_level_name(choice.level)) {
    throw std::runtime_error(fmt::format("--require-backend {}: this machine runs {} ({})", options.require_backend,
                                         cpu_level_name(choice.level), choice.reason));
  }
  log_info("backend cpu/{}: {}", cpu_level_name(choice.level), choice.reason);
  for (const auto& [level, reason] : choice.rejected) log_info("  not {}: {}", cpu_level_name(level), reason);
}

void log_memory(const LoadedModel& loaded) {
  const MemoryTable& m = loaded.memory;
  log_info("memory: weights {}, latent cache {} ({} tokens), states {} ({} requests), workspace {}, total {}",
           human_bytes(m.weights), human_bytes(m.latent_cache), loaded.limits.pages * loaded.limits.page_size,
           human_bytes(m.states), loaded.limits.slots, human_bytes(m.workspace), human_bytes(m.total()));
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& o) {
  command.add_option("--model-path,--model", o.model_path, "folder, or hub id in the local cache")->required();
  command.add_option("--device", o.device, "where to run")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu"}));
  command.add_option("--require-backend", o.require_backend, "fail unless this backend is chosen")
      ->check(CLI::IsMember({"reference", "avx2", "avx512"}));
  command.add_option("--kv-cache-dtype", o.kv_cache_dtype, "of the latent cache")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "bfloat16", "float32"}));
  command.add_option("--context-length", o.context_length, "longest prompt + output (default: the model's)")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--max-running-requests", o.max_running_requests,
                  "requests in a step (default: what fits, 32 at most)")
      ->check(CLI::Range(1, 4096));
  command.add_option("--max-queued-requests", o.max_queued_requests, "waiting requests before 503")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.add_option("--max-total-tokens", o.max_total_tokens, "size of the latent cache in tokens")
      ->check(CLI::PositiveNumber);
  command.add_option("--chunked-prefill-size", o.chunked_prefill_size, "rows of a step")
      ->capture_default_str()
      ->check(CLI::Range(64, 16384));
  command.add_option("--page-size", o.page_size, "tokens per cache page")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command.add_option("--memory", o.memory,
                     "budget for weights, caches and workspace, e.g. 16GB (default: 80 % of free memory)");
  command.add_option("--cpu-threads", o.cpu_threads, "compute threads (default: all)")->check(CLI::Range(1, 1024));
  command.add_flag("--pin-threads", o.pin_threads, "keep each compute thread on one CPU");
  command.add_option("--random-seed", o.random_seed, "base of the seeds of requests without one");
  command.add_option("--check-interval", o.check_interval, "steps between invariant checks, 0 = never")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
}

LoadedModel set_up_model(const ModelOptions& options) {
  LoadedModel loaded;
  loaded.folder = or_throw(resolve_model_path(options.model_path));
  loaded.config = or_throw(load_config(loaded.folder));
  const ModelConfig& config = loaded.config;
  const auto checkpoint = or_throw(Checkpoint::open(loaded.folder));
  loaded.tokenizer = std::make_shared<const Tokenizer>(or_throw(Tokenizer::load(loaded.folder)));
  if (loaded.tokenizer->vocab_size() > config.vocab) {
    throw std::runtime_error(
        fmt::format("the tokenizer has {} ids, the model {}", loaded.tokenizer->vocab_size(), config.vocab));
  }
  check_backend(options);
  const Ops& ops = cpu_ops();

  const DType kv_dtype = kv_dtype_of(options.kv_cache_dtype);
  const int64_t context = options.context_length != 0 ? options.context_length : config.max_positions;
  if (context > config.max_positions) {
    throw std::runtime_error(
        fmt::format("--context-length {} is beyond the model's {}", context, config.max_positions));
  }
  const int64_t chunk = options.chunked_prefill_size / kKdaChunk * kKdaChunk;
  const int64_t most_running = options.max_running_requests != 0 ? options.max_running_requests : 32;
  if (most_running > chunk) {
    throw std::runtime_error(
        fmt::format("--max-running-requests {} is more than a step's --chunked-prefill-size {}", most_running, chunk));
  }
  const int64_t workspace =
      Model(config, weights_without_memory(config)).arena_bytes(chunk, most_running, ops.activation);
  const Pools pools = size_pools(config, options, kv_dtype, context, memory_budget(options), workspace);

  const int threads = options.cpu_threads != 0 ? options.cpu_threads : available_cpus();
  LoadReport report;
  Weights weights =
      load_weights(checkpoint, config, ops, {.threads = std::max(2, threads), .quiet = options.quiet}, &report);
  loaded.load_seconds = report.seconds;
  loaded.memory.weights = weights.memory.bytes();
  const CacheShape shape{
      .kv_dtype = kv_dtype, .page_size = options.page_size, .pages = pools.pages, .slots = pools.running};
  auto model = std::make_shared<const Model>(config, std::move(weights));
  auto worker =
      std::make_unique<Worker>(model, Device::create(ops, threads, options.pin_threads), shape, chunk, pools.running);
  loaded.memory.workspace = worker->arena_bytes() + ops.scratch_bytes * threads;
  loaded.memory.latent_cache = pools.pages * options.page_size * kv_bytes_per_token(config, kv_dtype);
  loaded.memory.states = pools.running * state_bytes_per_slot(config);

  loaded.limits = {.page_size = options.page_size,
                   .pages = pools.pages,
                   .slots = pools.running,
                   .max_running = pools.running,
                   .max_queued = options.max_queued_requests,
                   .chunk_tokens = chunk,
                   .context_length = std::min(context, pools.pages * options.page_size),
                   .seed = options.random_seed};
  loaded.backend = fmt::format("cpu/{}", cpu_level_name(cpu_choice().level));
  loaded.backend_reason = cpu_choice().reason;
  loaded.kv_dtype = kv_dtype == DType::f32 ? "float32" : "bfloat16";
  log_memory(loaded);
  loaded.engine = std::make_shared<Engine>(std::move(worker), loaded.limits, std::make_shared<SteadyClock>(),
                                           options.check_interval);
  return loaded;
}

}  // namespace perigee
