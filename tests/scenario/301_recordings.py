# SPDX-License-Identifier: Apache-2.0
"""Real recordings (and one synthetic one by other people) from POSED_DATA, default settings: the
error of the poses as they were published, and of the trajectory on disk, which is adjusted at the
end, against their ground truth, whose clock offset is taken out. What is the default must do no
worse than the previous frame as reference, over all of them: of the published poses, which the
reference alone decides. All hold every direction: hardly a frame is DEGRADED, whatever the
reference."""
import math
import os

import harness
from harness import check, check_at_most

# Source, and ATE RMSE frame to frame [m]: the best of the programs that we compare with (fr1_rpy:
# what the tracker had to begin with).
RECORDINGS = {
    "fr1_xyz": ("tum", 0.021),
    "fr1_rpy": ("tum", 0.035),
    "redkitchen": ("sevenscenes", 0.040),
    "icl_lr_kt2": ("tum", 0.0006),
}
# The reference of redkitchen was made frame by frame from the same depth: it has no other clock.
ONE_CLOCK = ("redkitchen", "icl_lr_kt2")
# The trajectory on disk, default settings: what is promised of it [m].
ADJUSTED = {"fr1_xyz": 0.011, "fr1_rpy": 0.019, "redkitchen": 0.0124, "icl_lr_kt2": 0.0001}
PUBLISHED = ("--set", "output.trajectory_poses=published")
# On one recording the default may be so much worse; it must be better in the geometric mean.
WORSE_LIMIT = 1.1
FALSE_ALARMS = 0.01  # of the frames


def scenario():
    data = os.environ.get("POSED_DATA")
    if not data:
        harness.skip("POSED_DATA is not set")
    ratios = []
    for name, (driver, limit_m) in RECORDINGS.items():
        folder = f"{data}/{name}"
        if not os.path.isdir(folder):
            print(f"SKIP: no {name} in POSED_DATA")
            continue
        errors_m = {}
        for reference, options in (("previous", ("--reference", "previous", *PUBLISHED)),
                                   ("model", ("--reference", "model", *PUBLISHED)),
                                   ("", PUBLISHED), ("adjusted", ())):
            if reference == "adjusted" and name not in ADJUSTED:
                continue
            daemon = harness.Daemon(f"{driver}:{folder}", *options)
            daemon.wait()
            harness.check_poses(daemon.poses, len(daemon.poses))
            states = harness.count_states(daemon.poses)
            check("LOST" not in states, f"{name}, {reference}: {states}")
            check_at_most(states.get("DEGRADED", 0), FALSE_ALARMS * len(daemon.poses),
                          f"{name}, {reference or 'default'}: frames DEGRADED")
            result = harness.evaluate(folder, daemon.trajectory,
                                      time_offset="0" if name in ONE_CLOCK else "auto")
            check(result["n_unmatched"] <= 1, f"{name}: {result['n_unmatched']} without truth")
            errors_m[reference] = result["ate_m"]["rmse"]
            print(f"{name}, {reference or 'default'}: offset {result['time_offset_s'] * 1000:.1f} "
                  f"ms, RPE over 30 frames {result['rpe']['translation_m']['rmse'] * 1000:.2f} mm")
        ratios.append(errors_m[""] / errors_m["previous"])
        check_at_most(errors_m["previous"], limit_m, f"{name}, previous: ATE RMSE [m]")
        check_at_most(errors_m["model"], limit_m, f"{name}, model: ATE RMSE [m]")
        check_at_most(errors_m[""], limit_m, f"{name}, default: ATE RMSE [m]")
        if name in ADJUSTED:
            check_at_most(errors_m["adjusted"], ADJUSTED[name], f"{name}, adjusted: ATE RMSE [m]")
        check_at_most(ratios[-1], WORSE_LIMIT, f"{name}: default by previous")
    if not ratios:
        harness.skip("none of the recordings is in POSED_DATA")
    mean = math.prod(ratios)**(1 / len(ratios))
    check_at_most(mean, 1, "default by previous, geometric mean")


harness.run(scenario)
