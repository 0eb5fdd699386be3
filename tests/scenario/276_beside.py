# SPDX-License-Identifier: Apache-2.0
"""tools/bench/beside.py decides where it can, says so where it cannot, and runs."""
import random
import subprocess
import sys

import harness
from harness import SOURCE, check

PROGRAM = SOURCE + "/tools/bench/beside.py"


def decide(beside, factor, spread):
    """Windows of which each is slower than the quickest by up to the spread."""
    generator = random.Random(5)
    none, some = [], []
    for i in range(20):
        with_viewers = i % 4 in (1, 2)
        level = generator.uniform(1, 1 + spread) * (factor if with_viewers else 1)
        (some if with_viewers else none).append(
            [level * (1 + generator.random() / 50) for _ in range(300)])
    low, high = beside.ratio_interval(none, some, generator)
    return beside.decide(low, high, 1.1)[0]


def scenario():
    sys.path.insert(0, SOURCE + "/tools/bench")
    import beside
    for factor, spread, code in ((1, .02, 0), (1.05, .02, 0), (1.2, .02, 1), (1.1, .1, 3)):
        said = decide(beside, factor, spread)
        check(said == code, f"factor {factor}, spread {spread}: {said}")
    runs = {work: subprocess.Popen([sys.executable, PROGRAM, work, "--viewers", "2", "--seconds",
                                    "2", "--rounds", "1", "--source", "synth:room", "--set",
                                    "tracker.iterations=2,1,1"], stdout=subprocess.PIPE, text=True)
            for work in ("viewers", "optimise")}
    for work, unit in (("viewers", "kB/s"), ("optimise", "adjustments")):
        said = runs[work].communicate(timeout=harness.PATIENCE_S)[0]
        check(runs[work].returncode in (0, 1, 3) and said.count("window ") == 2 and
              "p99 with over without" in said and unit in said, f"{work}: {said}")


harness.run(scenario)
