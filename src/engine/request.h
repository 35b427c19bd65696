// Request: what one generation wants, and Sink: where its tokens go. Made by api/, owned by the Engine after submit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace perigee {

/// How the next token is chosen. Ranges are checked by api/ (a 400), here they are assumed.
struct SamplingParams {
  float temperature = 1.0F;         ///< >= 0; 0 = greedy
  float top_p = 1.0F;               ///< (0, 1]
  int32_t top_k = -1;               ///< -1 = off
  float min_p = 0.0F;               ///< [0, 1]: drop tokens below min_p times the best probability
  float repetition_penalty = 1.0F;  ///< > 0; over prompt and output: positive logits divided, negative multiplied
  float presence_penalty = 0.0F;    ///< [-2, 2]; over the output
  float frequency_penalty = 0.0F;   ///< [-2, 2]; over the output, times the count
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::optional<uint64_t> seed;   ///< fixes the text whatever the batch; drawn by the engine when absent
  int64_t max_new_tokens = 0;     ///< >= 1; api/ resolves "unset" to the room left in the context
  int64_t min_new_tokens = 0;     ///< stop ids are masked until then
  std::vector<int32_t> stop_ids;  ///< end of text unless ignore_eos; the stop id itself is delivered as the last token
  bool ignore_eos = false;        ///< api/ leaves the model's eos ids out of stop_ids; kept for reports
  int32_t logprobs = -1;          ///< -1 = none; k >= 0: the chosen token's and the k best (before temperature)
};

struct Request {
  std::string id;               ///< unique among live requests; given by the client or made by api/
  std::vector<int32_t> prompt;  ///< >= 1 token, all < vocabulary
  SamplingParams sampling;
  int32_t priority = 0;               ///< carried for the scheduler's later policies; FCFS today
  std::vector<int64_t> message_ends;  ///< token offsets where a cache checkpoint would pay (from the chat encoder)
  std::string cache_salt;             ///< namespace of the prefix cache
};

enum class FinishReason : uint8_t { stop, length, cancelled, error };

/// One generated token.
struct TokenOutput {
  int32_t id = 0;
  float logprob = 0;                           ///< set when logprobs >= 0
  std::vector<std::pair<int32_t, float>> top;  ///< the k best tokens and their logprobs, best first
};

/// The end of a request: exactly one per accepted request.
struct Finish {
  FinishReason reason = FinishReason::stop;
  std::optional<int32_t> stop_id;  ///< the stop id that ended it
  std::string message;             ///< for error and cancelled: why
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  ///< prompt tokens not recomputed
};

/// Receives a request's output. Called on the engine thread, in order: on_tokens any number of times, then on_finish
/// once. Must return at once: hand the work to a Strand.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_tokens(std::span<const TokenOutput> tokens) = 0;
  virtual void on_finish(const Finish& finish) = 0;
};

}  // namespace perigee
