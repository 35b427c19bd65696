// ModelRig: a model with caches, driven step by step as a Worker would drive it, for the whole-model tests. The test
// owns the sequences and says which pages and slots they use; the rig owns device, arena and caches.
//
// Cache memory starts as NaN everywhere, so a read of anything that no step has written shows in the logits.
#pragma once

#include <span>
#include <vector>

#include "model/cache_memory.h"
#include "model/k3.h"

namespace perigee::test {

/// Logits of one row.
using Row = std::vector<float>;

struct TestSequence {
  int32_t slot = 0;
  std::vector<int32_t> pages;  ///< enough for all tokens of the test
  int32_t source = -1;         ///< slot the next step reads; step() sets it to `slot`
  int32_t position = 0;        ///< tokens committed; step() advances it
};

/// The rows of one sequence in a step.
struct TestPiece {
  TestSequence* sequence = nullptr;
  std::span<const int32_t> tokens;
  int32_t commit = -1;  ///< rows to commit; -1 = all
};

class ModelRig {
 public:
  /// Keeps a reference to `model`; its weights must lie in memory that `ops` can read.
  ModelRig(const Model& model, const Ops& ops, int threads, const CacheShape& shape);

  /// Runs the pieces as one step; logits of all rows in the order of the pieces.
  std::vector<Row> step(std::span<const TestPiece> pieces);
  std::vector<Row> step(TestSequence& sequence, std::span<const int32_t> tokens, int32_t commit = -1);
  /// As step, but only each piece's last row.
  std::vector<Row> step_last(std::span<const TestPiece> pieces);

  /// What layer `layer` has stored, widened to float: kv [position, width] of an MLA layer, state [N, D, D] or conv
  /// [taps - 1, 3P] of a KDA layer.
  Row kv(const TestSequence& sequence, size_t layer) const;
  Row state(int32_t slot, size_t layer) const;
  Row conv(int32_t slot, size_t layer) const;
  /// All of the above for every layer, joined.
  Row everything(const TestSequence& sequence) const;

 private:
  std::vector<Row> run(std::span<const TestPiece> pieces, std::span<const int32_t> wanted);

  const Model& model_;
  Device device_;
  CacheMemory caches_;
};

/// Greedy choice.
int32_t argmax(const Row& logits);

}  // namespace perigee::test
