// The thread pools and the queue between them.

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "base/queue.h"
#include "base/task_pool.h"
#include "base/thread_pool.h"

namespace perigee {
namespace {

TEST(ThreadPool, RunsEveryItemOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t count : {0, 1, 2, 3, 100, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      pool.parallel_for(count, [&](int64_t i, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        seen[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
    }
  }
}

TEST(ThreadPool, ManyShortJobsWithPausesBetween) {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int job = 0; job < 3000; ++job) {
    std::atomic<int64_t> sum{0};
    pool.parallel_for(7, [&](int64_t i, int) { sum.fetch_add(i); });
    total += sum.load();
    // Long enough for the workers to park now and then.
    if (job % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(total, 3000 * 21);
}

TEST(Queue, RefusesWhenFullAndDrainsAfterClose) {
  Queue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  queue.close();
  EXPECT_FALSE(queue.try_push(4));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(Queue, PopForTimesOut) {
  Queue<int> queue(1);
  EXPECT_EQ(queue.pop_for(std::chrono::milliseconds(5)), std::nullopt);
}

TEST(TaskPool, RunsAcceptedTasksBeforeItEnds) {
  std::atomic<int> done{0};
  {
    TaskPool pool(2);
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(pool.submit([&] { done.fetch_add(1); }));
  }
  EXPECT_EQ(done.load(), 1000);
}

TEST(Strand, KeepsOrderAlsoWhenThePoolIsFull) {
  TaskPool pool(2, 1);
  constexpr int kStrands = 8;
  constexpr int kTasks = 500;
  std::vector<std::vector<int>> seen(kStrands);
  std::atomic<int> done{0};
  for (int s = 0; s < kStrands; ++s) {
    const auto strand = std::make_shared<Strand>(pool);
    for (int t = 0; t < kTasks; ++t) {
      strand->post([&seen, &done, s, t] {
        seen[static_cast<size_t>(s)].push_back(t);
        done.fetch_add(1);
      });
    }
  }
  while (done.load() < kStrands * kTasks) std::this_thread::yield();
  std::vector<int> expected(kTasks);
  std::iota(expected.begin(), expected.end(), 0);
  for (const auto& order : seen) EXPECT_EQ(order, expected);
}

}  // namespace
}  // namespace perigee
