#include "api/sampling.h"

#include <charconv>

namespace perigee {
namespace {

void read_logit_bias(Fields& fields, int64_t vocab, const ApiLimits& limits, SamplingParams& p) {
  const json::object* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  if (bias->size() > limits.logit_bias) {
    fields.fail("logit_bias", fmt::format("must not hold more than {} entries", limits.logit_bias));
    return;
  }
  for (const auto& [key, value] : *bias) {
    int32_t id = -1;
    const auto end = std::from_chars(key.data(), key.data() + key.size(), id);
    const double amount = value.is_number() ? value.to_number<double>() : 1e9;
    if (end.ec != std::errc() || end.ptr != key.data() + key.size() || id < 0 || id >= vocab ||
        !(amount >= -100 && amount <= 100)) {
      fields.fail("logit_bias", fmt::format("must map token ids below {} to numbers in [-100, 100]", vocab));
      return;
    }
    p.logit_bias.emplace_back(id, static_cast<float>(amount));
  }
}

}  // namespace

SamplingFields read_sampling(Fields& fields, int64_t vocab, const ApiLimits& limits) {
  SamplingFields s;
  SamplingParams& p = s.params;
  const auto set = [](auto& target, const auto& value) {
    if (value) target = static_cast<std::remove_reference_t<decltype(target)>>(*value);
  };
  set(p.temperature, fields.number("temperature", 0, 2));
  set(p.top_p, fields.number("top_p", 0, 1));
  if (p.top_p <= 0) fields.fail("top_p", "must be above 0");
  set(p.top_k, fields.integer("top_k", -1, vocab));
  if (p.top_k == 0) fields.fail("top_k", "must be -1 (off) or at least 1");
  set(p.min_p, fields.number("min_p", 0, 1));
  set(p.repetition_penalty, fields.number("repetition_penalty", 0.01, 10));
  set(p.presence_penalty, fields.number("presence_penalty", -2, 2));
  set(p.frequency_penalty, fields.number("frequency_penalty", -2, 2));
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) p.seed = static_cast<uint64_t>(*seed);
  // max_completion_tokens is the newer name and wins.
  for (const char* key : {"max_new_tokens", "max_tokens", "max_completion_tokens"}) {
    set(p.max_new_tokens, fields.integer(key, 1, int64_t{1} << 31));
  }
  set(p.min_new_tokens, fields.integer("min_tokens", 0, int64_t{1} << 31));
  set(p.min_new_tokens, fields.integer("min_new_tokens", 0, int64_t{1} << 31));
  if (const auto ids = fields.ids("stop_token_ids", vocab)) p.stop_ids = *ids;
  set(p.ignore_eos, fields.boolean("ignore_eos"));
  read_logit_bias(fields, vocab, limits, p);
  s.stops = fields.texts("stop", limits.stops, limits.stop_bytes);
  set(s.keep_stop, fields.boolean("no_stop_trim"));
  set(s.skip_special_tokens, fields.boolean("skip_special_tokens"));
  set(s.choices, fields.integer("n", 1, limits.choices));
  return s;
}

void refuse_constraints(Fields& fields) {
  for (const char* key :
       {"regex", "ebnf", "json_schema", "structural_tag", "guided_json", "guided_regex", "guided_grammar"}) {
    if (fields.find(key) != nullptr)
      fields.fail(key, "is not supported yet: this server does not constrain its output");
  }
  const json::object* format = fields.object("response_format");
  if (format == nullptr) return;
  const json::value* type = format->if_contains("type");
  if (type == nullptr || !type->is_string()) {
    fields.fail("response_format", "must have a type");
  } else if (type->get_string() != "text") {
    fields.fail("response_format",
                fmt::format("of type {} is not supported yet: this server does not constrain its output",
                            std::string_view(type->get_string())));
  }
}

}  // namespace perigee
