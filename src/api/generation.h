// Generation: the core of every generating endpoint. Submits one engine request per choice and turns their tokens into
// visible text, in order, on the stream's Strand: detokenizer or chat parser, stop strings, counts, finish reason.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/service.h"
#include "text/chat_parser.h"

namespace perigee {

/// How one API call's answers are made.
struct GenerationRequest {
  std::string id;
  std::vector<int32_t> prompt;
  std::vector<int64_t> message_ends;
  SamplingFields sampling;
  std::optional<ChatParserOptions> chat;  ///< set: parse channels; otherwise plain text
};

/// What changed for one choice. Text endpoints find their text in delta.content.
struct ChoiceUpdate {
  int choice = 0;
  ChatDelta delta;
  std::vector<TokenOutput> tokens;
  bool ended = false;
  std::string finish_reason;  ///< with ended: stop, length, tool_calls, abort, error
  json::value matched_stop;   ///< string, token id, or null
  std::string error;          ///< with finish_reason error
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;
};

/// Called on the Strand, one at a time.
using UpdateHandler = std::function<void(ChoiceUpdate&)>;

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  /// Submits all choices or none. On success `on_update` sees every choice end exactly once.
  static Result<std::shared_ptr<Generation>, ApiError> start(const ServicePtr& service, GenerationRequest request,
                                                             UpdateHandler on_update);
  ~Generation();

  /// Cancels the choices that still run (the client is gone).
  void cancel(const std::string& reason);

 private:
  class Choice;
  class ChoiceSink;
  Generation(const ServicePtr& service, UpdateHandler on_update);

  ServicePtr service_;
  UpdateHandler on_update_;
  std::shared_ptr<Strand> strand_;
  std::vector<std::string> ids_;
  std::mutex gate_;       ///< held by start() until every choice is in, then by each update
  bool refused_ = false;  ///< a choice was refused: nobody listens
};

/// Starts one generation for `reply` and cancels it when the client is lost. What is returned as an error was not sent.
Result<void, ApiError> start_for(const ServicePtr& service, GenerationRequest request,
                                 const std::shared_ptr<Reply>& reply, UpdateHandler on_update);

/// Ends a stream as OpenAI does: [DONE], then the end of the answer.
void finish_stream(EventStream& stream);

/// Ends an answer with an error: as an event when the stream has begun (`stream` not null), else as the whole answer.
void send_failure(Reply& reply, EventStream* stream, const ApiError& error);

/// A prompt's room for output; 400 naming both numbers when it does not fit.
std::optional<ApiError> settle_max_tokens(const Service& service, size_t prompt_tokens, SamplingParams& params);

}  // namespace perigee
