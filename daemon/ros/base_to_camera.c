// SPDX-License-Identifier: Apache-2.0
#include "daemon/ros/base_to_camera.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "capture/ros/frames.h"
#include "proto/se3.h"

int ros_place_of_camera(const struct config *config, struct se3 *out_T_base_optical,
                        const struct log_sink *log)
{
    double v[6];
    char rest;
    int n = sscanf(config->ros.camera_in_base, "%lf %lf %lf %lf %lf %lf %c", &v[0], &v[1], &v[2],
                   &v[3], &v[4], &v[5], &rest);
    for (int i = 0; i < n && i < 6; i++)
        n = fabs(v[i]) < 1000 ? n : 0; // 0 for NaN, too
    if (n != 6) {
        log_to(log, LOG_LEVEL_ERROR, "ros.camera_in_base: \"%s\" is not x y z roll pitch yaw",
               config->ros.camera_in_base);
        return -EINVAL;
    }
    const double roll[6] = {0, 0, 0, v[3], 0, 0}, pitch[6] = {0, 0, 0, 0, v[4], 0};
    const double yaw[6] = {0, 0, 0, 0, 0, v[5]};
    struct se3 T = se3_exp(yaw), next = se3_exp(pitch), optical = ros_optical_in_base();
    T = se3_compose(&T, &next);
    next = se3_exp(roll);
    T = se3_compose(&T, &next);
    memcpy(T.t_m, v, sizeof T.t_m);
    *out_T_base_optical = se3_compose(&T, &optical);
    return 0;
}
