// SPDX-License-Identifier: Apache-2.0
// Things of a household, as depth cameras are asked to find them: vessels with handles and spouts,
// bottles, hand tools, toy animals, trays with bumps, and clamps. Of each much hides other parts of
// itself, and it has a side to lie on; what testscene_mesh_assemble makes is more compact.
#ifndef POSED_TOOLS_BENCH_HOUSEHOLD_H
#define POSED_TOOLS_BENCH_HOUSEHOLD_H

#include "tools/bench/testscene.h"

// 9 to 28 cm across, another one for each seed, another sort for each of six that follow. Returns 0
// or -ENOMEM.
__attribute__((warn_unused_result)) int household_make(uint64_t seed, struct testscene_mesh *out);

#endif
