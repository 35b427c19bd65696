// Builds StepInputs by hand and reads the caches back.
#include "model/support/model_rig.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace perigee::test {
namespace {

void poison(const View& view) {
  if (view.rank == 0) return;
  if (view.dtype == DType::bf16) {
    std::fill_n(view.as<bf16>(), view.elements(), to_bf16(std::numeric_limits<float>::quiet_NaN()));
  } else {
    std::fill_n(view.as<float>(), view.elements(), std::numeric_limits<float>::quiet_NaN());
  }
}

void append(Row& out, const View& view) {
  for (int64_t i = 0; i < view.elements(); ++i) {
    out.push_back(view.dtype == DType::bf16 ? to_float(view.as<bf16>()[i]) : view.as<float>()[i]);
  }
}

}  // namespace

ModelRig::ModelRig(const Model& model, const Ops& ops, int threads, const CacheShape& shape)
    : model_(model), device_(Device::create(ops, threads)), caches_(ops, model.config(), shape) {
  PERIGEE_CHECK(ops.host_memory, "the rig reads caches on the host");
  for (const LayerCache& layer : caches_.layers()) {
    poison(layer.kv);
    poison(layer.state);
    poison(layer.conv);
  }
}

std::vector<Row> ModelRig::run(std::span<const TestPiece> pieces, std::span<const int32_t> wanted) {
  std::vector<int32_t> tokens;
  std::vector<int32_t> pages;
  std::vector<Segment> segments;
  for (const TestPiece& piece : pieces) {
    TestSequence& sequence = *piece.sequence;
    const auto count = static_cast<int32_t>(piece.tokens.size());
    const int32_t commit = piece.commit < 0 ? count : piece.commit;
    const auto page_size = static_cast<int32_t>(caches_.shape().page_size);
    const int32_t page_count = (sequence.position + count + page_size - 1) / page_size;
    PERIGEE_CHECK(static_cast<size_t>(page_count) <= sequence.pages.size(), "the sequence needs {} pages", page_count);
    segments.push_back({.row_begin = static_cast<int32_t>(tokens.size()),
                        .row_count = count,
                        .position = sequence.position,
                        .commit = commit,
                        .slot = sequence.slot,
                        .source_slot = sequence.source,
                        .page_begin = static_cast<int32_t>(pages.size()),
                        .page_count = page_count});
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    pages.insert(pages.end(), sequence.pages.begin(), sequence.pages.begin() + page_count);
    sequence.position += commit;
    sequence.source = sequence.slot;
  }
  const auto rows = static_cast<int64_t>(tokens.size());
  const auto wanted_rows = static_cast<int64_t>(wanted.size());
  Arena arena(*device_.ops, model_.arena_bytes(rows, wanted_rows, device_.ops->activation));
  StepInput input;
  input.tokens = arena.make(DType::i32, {rows});
  input.logit_rows = arena.make(DType::i32, {wanted_rows});
  device_.ops->upload(device_.context, input.tokens, tokens.data());
  device_.ops->upload(device_.context, input.logit_rows, wanted.data());
  input.segments = segments;
  input.pages = pages;
  const View logits = model_.forward(input, caches_.layers(), arena, device_);
  std::vector<Row> out;
  for (int64_t i = 0; i < wanted_rows; ++i) append(out.emplace_back(), logits.at(i));
  return out;
}

std::vector<Row> ModelRig::step(std::span<const TestPiece> pieces) {
  size_t rows = 0;
  for (const TestPiece& piece : pieces) rows += piece.tokens.size();
  std::vector<int32_t> wanted(rows);
  std::iota(wanted.begin(), wanted.end(), 0);
  return run(pieces, wanted);
}

std::vector<Row> ModelRig::step(TestSequence& sequence, std::span<const int32_t> tokens, int32_t commit) {
  const TestPiece piece{&sequence, tokens, commit};
  return step(std::span(&piece, 1));
}

std::vector<Row> ModelRig::step_last(std::span<const TestPiece> pieces) {
  std::vector<int32_t> wanted;
  int32_t rows = 0;
  for (const TestPiece& piece : pieces) wanted.push_back((rows += static_cast<int32_t>(piece.tokens.size())) - 1);
  return run(pieces, wanted);
}

Row ModelRig::kv(const TestSequence& sequence, size_t layer) const {
  Row out;
  for (int64_t i = 0; i < sequence.position; ++i) {
    const int64_t page_size = caches_.shape().page_size;
    const int64_t page = sequence.pages[static_cast<size_t>(i / page_size)];
    append(out, caches_.layers()[layer].kv.at(page).at(i % page_size));
  }
  return out;
}

Row ModelRig::state(int32_t slot, size_t layer) const {
  Row out;
  append(out, caches_.layers()[layer].state.at(slot));
  return out;
}

Row ModelRig::conv(int32_t slot, size_t layer) const {
  Row out;
  append(out, caches_.layers()[layer].conv.at(slot));
  return out;
}

Row ModelRig::everything(const TestSequence& sequence) const {
  Row out;
  const auto join = [&out](const Row& part) { out.insert(out.end(), part.begin(), part.end()); };
  for (size_t layer = 0; layer < caches_.layers().size(); ++layer) {
    if (caches_.layers()[layer].kv.rank != 0) {
      join(kv(sequence, layer));
    } else {
      join(state(sequence.slot, layer));
      join(conv(sequence.slot, layer));
    }
  }
  return out;
}

int32_t argmax(const Row& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace perigee::test
