// What the sanitizer programs of the structure's passes share: their random numbers.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

extern "C" int32_t m3d_best_isa();

using Numbers = std::vector<float>;

static std::mt19937 draw(0);

static Numbers random(int64_t count) {
  std::normal_distribution<float> normal;
  Numbers x(count);
  for (float& number : x) number = normal(draw);
  return x;
}
