# SPDX-License-Identifier: Apache-2.0
"""Real recordings (and one synthetic one by other people) from POSED_DATA, default settings: the
error of the trajectory on disk against their ground truth. A keyframe as reference must do better
than the previous frame on each."""
import os

import harness
from harness import check, check_at_most

# Source, and ATE RMSE frame to frame [m]: the best of the programs that we compare with.
RECORDINGS = {
    "fr1_xyz": ("tum", 0.021),
    "redkitchen": ("sevenscenes", 0.040),
    "icl_lr_kt2": ("tum", 0.0006),
}


def scenario():
    data = os.environ.get("POSED_DATA")
    if not data:
        harness.skip("POSED_DATA is not set")
    n_run = 0
    for name, (driver, limit_m) in RECORDINGS.items():
        folder = f"{data}/{name}"
        if not os.path.isdir(folder):
            print(f"SKIP: no {name} in POSED_DATA")
            continue
        n_run += 1
        errors_m = {}
        for reference in ("previous", "keyframe"):
            daemon = harness.Daemon(f"{driver}:{folder}", "--reference", reference)
            daemon.wait()
            harness.check_poses(daemon.poses, len(daemon.poses))
            lost = harness.count_states(daemon.poses).get("LOST", 0)
            check(lost == 0, f"{name}: {lost} frames lost")
            result = harness.evaluate(folder, daemon.trajectory)
            check(result["n_unmatched"] <= 1, f"{name}: {result['n_unmatched']} without truth")
            errors_m[reference] = result["ate_m"]["rmse"]
            print(f"{name}, {reference}: RPE over 30 frames "
                  f"{result['rpe']['translation_m']['rmse'] * 1000:.2f} mm")
        check_at_most(errors_m["previous"], limit_m, f"{name}, previous: ATE RMSE [m]")
        check_at_most(errors_m["keyframe"], errors_m["previous"], f"{name}, keyframe: ATE RMSE [m]")
    if not n_run:
        harness.skip("none of the recordings is in POSED_DATA")


harness.run(scenario)
