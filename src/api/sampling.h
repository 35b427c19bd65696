// The sampling fields that every generating endpoint shares, checked, and what they leave open.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/fields.h"
#include "engine/request.h"

namespace perigee {

/// Limits of one request; docs/api.md lists them.
struct ApiLimits {
  int64_t choices = 128;
  int64_t top_logprobs = 20;
  size_t stops = 16;
  size_t stop_bytes = 512;
  size_t logit_bias = 1024;
  size_t messages = 16384;
  size_t id_bytes = 256;
};

struct SamplingFields {
  SamplingParams params;  ///< max_new_tokens 0: unset
  std::vector<std::string> stops;
  bool keep_stop = false;  ///< no_stop_trim
  bool skip_special_tokens = true;
  int64_t choices = 1;
};

/// Reads temperature, top_p, top_k, min_p, penalties, seed, stop, stop_token_ids, ignore_eos, min_tokens, logit_bias,
/// n, the max-token keys and the flags above. Problems go to `fields`.
SamplingFields read_sampling(Fields& fields, int64_t vocab, const ApiLimits& limits);

/// A 400 for fields that ask for constrained output, which this server does not enforce yet.
void refuse_constraints(Fields& fields);

}  // namespace perigee
