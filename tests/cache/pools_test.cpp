// Pools: counts, generations, shared references, the retire fence, transfers, and the faults they must catch.
#include "cache/pools.h"

#include <gtest/gtest.h>

#include <set>

#include "base/random.h"

namespace perigee {
namespace {

TEST(Pools, HandsOutEveryIdOnce) {
  KvPool pool(3);
  std::set<int32_t> seen;
  std::vector<PageRef> refs;
  for (int i = 0; i < 3; ++i) {
    refs.push_back(pool.take());
    ASSERT_TRUE(refs.back());
    seen.insert(refs.back().index());
  }
  EXPECT_EQ(seen, (std::set<int32_t>{0, 1, 2}));
  EXPECT_FALSE(pool.take());
  EXPECT_EQ(pool.in_use(), 3);
  refs.clear();
  EXPECT_EQ(pool.free(), 3);
  EXPECT_EQ(pool.in_use(), 0);
}

TEST(Pools, TakesSeveralOrNone) {
  KvPool pool(4);
  const PageRef one = pool.take();
  EXPECT_FALSE(pool.take(4).has_value());
  EXPECT_EQ(pool.free(), 3);
  {
    const auto three = pool.take(3);
    ASSERT_TRUE(three.has_value());
    EXPECT_EQ(pool.free(), 0);
  }
  EXPECT_EQ(pool.free(), 3);
  EXPECT_TRUE(pool.take(0).has_value());
}

TEST(Pools, MovedReferencesAreEmptyAndReleaseOnce) {
  StatePool pool(1);
  SlotRef a = pool.take();
  SlotRef b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): a moved reference is empty by contract
  EXPECT_EQ(a.index(), -1);
  EXPECT_TRUE(b);
  b.reset();
  b.reset();
  EXPECT_EQ(pool.free(), 1);
  b = pool.take();
  SlotRef& self = b;
  b = std::move(self);
  EXPECT_TRUE(b);
}

TEST(Pools, SharedIdsLiveUntilTheLastReference) {
  StatePool pool(1);
  SlotRef a = pool.take();
  SlotRef b = a.share();
  const PoolId id = a.id();
  EXPECT_EQ(pool.references(id), 2);
  EXPECT_EQ(pool.in_use(), 1);
  a.reset();
  EXPECT_TRUE(pool.alive(id));
  EXPECT_EQ(pool.free(), 0);
  b.reset();
  EXPECT_FALSE(pool.alive(id));
  EXPECT_EQ(pool.free(), 1);
  EXPECT_FALSE(SlotRef().share());
}

TEST(Pools, StaleGenerationIsNotAlive) {
  StatePool pool(1);
  SlotRef a = pool.take();
  const PoolId old = a.id();
  a.reset();
  a = pool.take();
  EXPECT_EQ(a.index(), old.index);
  EXPECT_FALSE(pool.alive(old));
  EXPECT_EQ(pool.references(old), 0);
  EXPECT_TRUE(pool.alive(a.id()));
  EXPECT_FALSE(pool.alive({}));
  EXPECT_FALSE(pool.alive({7, 0}));
}

TEST(Pools, ReleasedIdsWaitForTheStepLaunchedLast) {
  KvPool pool(2);
  PageRef a = pool.take();
  PageRef b = pool.take();
  pool.launched(1);
  a.reset();
  EXPECT_EQ(pool.retiring(), 1);
  EXPECT_FALSE(pool.take());
  pool.launched(2);
  b.reset();
  pool.completed(1);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.retiring(), 1);
  pool.completed(2);
  EXPECT_EQ(pool.free(), 2);
  PageRef c = pool.take();
  c.reset();
  EXPECT_EQ(pool.free(), 2) << "nothing is in flight, so nothing is fenced";
}

TEST(Pools, TransfersHoldAnIdBack) {
  StatePool pool(2);
  SlotRef a = pool.take();
  const PoolId id = a.id();
  pool.begin_transfer(a);
  pool.begin_transfer(a);
  pool.launched(1);
  a.reset();
  pool.completed(1);
  EXPECT_EQ(pool.retiring(), 1) << "the step is over, the copy is not";
  pool.end_transfer(id);
  EXPECT_EQ(pool.retiring(), 1);
  pool.end_transfer(id);
  EXPECT_EQ(pool.free(), 2);

  SlotRef b = pool.take();
  pool.begin_transfer(b);
  pool.launched(2);
  const PoolId second = b.id();
  b.reset();
  pool.end_transfer(second);
  EXPECT_EQ(pool.retiring(), 1) << "the copy is over, the step is not";
  pool.completed(2);
  EXPECT_EQ(pool.free(), 2);
}

TEST(Pools, RandomUseMatchesAModel) {
  // The model: what every id may be, from a plain list of holders and of (id, epoch) fences.
  PhiloxStream random(5);
  KvPool pool(7);
  std::vector<PageRef> held;
  std::vector<std::pair<int32_t, uint64_t>> fenced;
  uint64_t launched = 0, completed = 0;
  for (int step = 0; step < 20000; ++step) {
    const uint64_t action = random.next_below(5);
    if (action == 0) {
      PageRef page = pool.take();
      EXPECT_EQ(static_cast<bool>(page), held.size() + fenced.size() < 7);
      for (const PageRef& other : held) EXPECT_NE(page.index(), other.index());
      for (const auto& [id, epoch] : fenced) EXPECT_NE(page.index(), id);
      if (page) held.push_back(std::move(page));
    } else if (action == 1 && !held.empty()) {
      const size_t i = random.next_below(held.size());
      if (launched > completed) fenced.emplace_back(held[i].index(), launched);
      held.erase(held.begin() + static_cast<ptrdiff_t>(i));
    } else if (action == 2) {
      pool.launched(++launched);
    } else if (action == 3 && completed < launched) {
      pool.completed(++completed);
      std::erase_if(fenced, [&](const auto& f) { return f.second <= completed; });
    }
    ASSERT_EQ(pool.in_use(), static_cast<int64_t>(held.size()));
    ASSERT_EQ(pool.retiring(), static_cast<int64_t>(fenced.size()));
    ASSERT_EQ(pool.free(), 7 - pool.in_use() - pool.retiring());
  }
}

TEST(PoolsDeath, FaultsAreCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        IdTable table("page", 2);
        const PoolId id = *table.take();
        table.drop_reference(id);
        table.drop_reference(id);
      },
      "release of page 0 generation 0, which was released");
  EXPECT_DEATH(
      {
        IdTable table("page", 2);
        const PoolId id = *table.take();
        table.drop_reference(id);
        table.add_reference(id);
      },
      "share of page 0");
  EXPECT_DEATH(
      {
        SlotRef slot;
        StatePool pool(1);
        slot = pool.take();
      },
      "1 state slots outlive their pool");
  EXPECT_DEATH(
      {
        IdTable table("page", 1);
        table.end_transfer({0, 0});
      },
      "end of transfer of page 0");
  EXPECT_DEATH(
      {
        KvPool pool(1);
        pool.launched(1);
        pool.completed(2);
      },
      "step 2 completed");
}

}  // namespace
}  // namespace perigee
