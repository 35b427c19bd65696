// Any bytes as a chat request: an error with a message, or a request within its limits.

#include "api/chat_request.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace perigee;
  const auto value = parse_json({reinterpret_cast<const char*>(data), size});
  if (!value || !value->is_object()) return 0;
  const ApiLimits limits;
  const auto request = read_chat_request(value->get_object(), 1000, limits, {"low", "high", "max"});
  if (!request) {
    PERIGEE_CHECK(request.error().status == 400 && !request.error().message.empty(), "status {}",
                  request.error().status);
    return 0;
  }
  const SamplingParams& p = request->sampling.params;
  PERIGEE_CHECK(
      p.temperature >= 0 && p.temperature <= 2 && p.top_p > 0 && p.top_p <= 1 && request->sampling.choices >= 1,
      "sampling");
  PERIGEE_CHECK(!request->input.messages.empty(), "no messages");
  return 0;
}
