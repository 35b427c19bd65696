// `perigee serve`: loads a model, serves it over HTTP, drains on SIGTERM or SIGINT.

#include <sys/resource.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <ctime>
#include <stdexcept>

#include "api/service.h"
#include "apps/commands.h"
#include "apps/model_setup.h"
#include "apps/sglang_flags.h"
#include "base/log.h"
#include "http/server.h"

namespace perigee {
namespace {

struct ServeCommand {
  ModelOptions model;
  std::string served_name;
  std::string host = "127.0.0.1";
  int port = 30000;
  std::string api_key;
  std::string reasoning_parser = "kimi_k3";
  std::string tool_call_parser = "kimi_k3";
  std::string log_level = "info";
  double drain_timeout = 30;
  int64_t stream_interval = 1;
  int io_threads = 1;
  int task_threads = 2;
  int64_t max_body_mb = 64;
  int64_t max_connections = 4096;
  double heartbeat = 15;
  bool trust_remote_code = false;  // accepted, since there is no remote code to trust
  bool enable_metrics = false;     // accepted: metrics are always there
};

/// SIGTERM and SIGINT, taken by the main thread alone; every thread made later inherits the mask.
sigset_t block_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return set;
}

int wait_signal(const sigset_t& set) {
  int received = 0;
  while (sigwait(&set, &received) != 0) {
  }
  return received;
}

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

json::object describe(const LoadedModel& loaded, const ServeCommand& command) {
  return {{"version", PERIGEE_VERSION},
          {"model_path", loaded.folder},
          {"served_model_name", command.served_name},
          {"architecture", loaded.config.architecture},
          {"backend", loaded.backend},
          {"backend_reason", loaded.backend_reason},
          {"precision", json::object{{"experts", loaded.config.mxfp4_experts ? "mxfp4" : "as stored"},
                                     {"linears", "as stored"},
                                     {"activations", "float32"},
                                     {"kv_cache", loaded.kv_dtype},
                                     {"state", "float32"},
                                     {"conv", "float32"}}},
          {"context_length", loaded.limits.context_length},
          {"max_running_requests", loaded.limits.max_running},
          {"max_queued_requests", loaded.limits.max_queued},
          {"max_total_num_tokens", loaded.limits.pages * loaded.limits.page_size},
          {"chunked_prefill_size", loaded.limits.chunk_tokens},
          {"page_size", loaded.limits.page_size},
          {"memory", json::object{{"weights", loaded.memory.weights},
                                  {"latent_cache", loaded.memory.latent_cache},
                                  {"states", loaded.memory.states},
                                  {"workspace", loaded.memory.workspace}}},
          {"load_seconds", loaded.load_seconds}};
}

ServicePtr make_service(const LoadedModel& loaded, const ServeCommand& command) {
  auto encoder = ChatEncoder::create(*loaded.tokenizer);
  if (!encoder) throw std::runtime_error(encoder.error().message);
  auto service = std::make_shared<Service>();
  service->options.model_name = command.served_name;
  service->options.model_path = loaded.folder;
  service->options.api_key = command.api_key;
  service->options.context_length = loaded.limits.context_length;
  service->options.vocab = loaded.tokenizer->vocab_size();
  service->options.eos_ids = loaded.config.eos_ids;
  service->options.reasoning_parser = command.reasoning_parser != "none";
  service->options.tool_parser = command.tool_call_parser != "none";
  service->options.stream_interval = command.stream_interval;
  service->options.server_info = describe(loaded, command);
  service->engine = loaded.engine;
  service->tokenizer = loaded.tokenizer;
  service->encoder = std::make_shared<const ChatEncoder>(std::move(*encoder));
  service->tasks = std::make_shared<TaskPool>(command.task_threads);
  service->metrics = std::make_shared<ServiceMetrics>(*loaded.engine, command.served_name, loaded.limits.page_size);
  service->started_unix = std::time(nullptr);
  return service;
}

ServerOptions server_options(const ServeCommand& command) {
  ServerOptions options;
  options.host = command.host;
  options.port = static_cast<uint16_t>(command.port);
  options.io_threads = command.io_threads;
  options.limits.body_bytes = static_cast<size_t>(command.max_body_mb) << 20;
  options.limits.connections = static_cast<size_t>(command.max_connections);
  options.limits.heartbeat_interval = std::chrono::milliseconds(static_cast<int64_t>(command.heartbeat * 1e3));
  return options;
}

/// A second signal ends the wait at once.
void drain(const sigset_t& signals, const ServicePtr& service, HttpServer& server, double seconds_allowed) {
  log_info("draining: {} s at most for what runs; a second signal ends at once", seconds_allowed);
  service->ready = false;
  server.stop_accepting();
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_allowed);
  const timespec tick{0, 50'000'000};
  while (!service->engine->drain(std::chrono::milliseconds(1)) && std::chrono::steady_clock::now() < until) {
    if (sigtimedwait(&signals, nullptr, &tick) > 0) {
      log_warning("second signal: aborting what runs");
      break;
    }
  }
  service->engine->cancel_all("the server is shutting down");
  service->engine->drain(std::chrono::seconds(5));
  server.wait_idle(std::chrono::seconds(5));
  server.stop();
}

LogLevel parse_level(const std::string& name) {
  if (name == "debug") return LogLevel::debug;
  if (name == "warning") return LogLevel::warning;
  if (name == "error") return LogLevel::error;
  return LogLevel::info;
}

void run_serve(ServeCommand& command) {
  set_log_level(parse_level(command.log_level));
  const sigset_t signals = block_signals();
  raise_file_limit();
  const TimePoint start = SteadyClock().now();
  const LoadedModel loaded = set_up_model(command.model);
  if (command.served_name.empty()) command.served_name = command.model.model_path;
  const ServicePtr service = make_service(loaded, command);
  HttpServer server(server_options(command), make_router(service));
  log_info("ready after {:.2f} s: http://{}:{} serves {}", seconds(SteadyClock().now() - start), command.host,
           server.port(), command.served_name);
  wait_signal(signals);
  drain(signals, service, server, command.drain_timeout);
  log_info("stopped");
}

}  // namespace

void add_serve_command(CLI::App& app) {
  auto command = std::make_shared<ServeCommand>();
  CLI::App* sub = app.add_subcommand("serve", "serve a model over HTTP");
  add_model_options(*sub, command->model);
  sub->add_option("--served-model-name", command->served_name, "name in the API (default: --model-path)");
  sub->add_option("--host", command->host, "address to listen on")->capture_default_str();
  sub->add_option("--port", command->port, "0: any free port")->capture_default_str()->check(CLI::Range(0, 65535));
  sub->add_option("--api-key", command->api_key, "required as a bearer token");
  sub->add_option("--reasoning-parser", command->reasoning_parser)
      ->capture_default_str()
      ->check(CLI::IsMember({"kimi_k3", "none"}));
  sub->add_option("--tool-call-parser", command->tool_call_parser)
      ->capture_default_str()
      ->check(CLI::IsMember({"kimi_k3", "none"}));
  sub->add_option("--log-level", command->log_level)
      ->capture_default_str()
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  sub->add_option("--drain-timeout", command->drain_timeout, "seconds that running requests get after SIGTERM")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--stream-interval", command->stream_interval, "tokens per streamed event")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  sub->add_option("--io-threads", command->io_threads)->capture_default_str()->check(CLI::Range(1, 64));
  sub->add_option("--tokenizer-worker-num", command->task_threads, "threads that parse, tokenise and detokenise")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  sub->add_option("--max-body-mb", command->max_body_mb, "largest request body in MiB")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  sub->add_option("--max-connections", command->max_connections)->capture_default_str()->check(CLI::Range(1, 1000000));
  sub->add_option("--heartbeat-interval", command->heartbeat, "seconds of silence before a comment on a stream")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 3600.0));
  sub->add_flag("--trust-remote-code", command->trust_remote_code, "accepted; nothing remote is ever run");
  sub->add_flag("--enable-metrics", command->enable_metrics, "accepted; /metrics is always there");
  sub->allow_extras();
  sub->callback([command, sub] {
    refuse_unknown_flags(*sub);
    run_serve(*command);
  });
}

}  // namespace perigee
