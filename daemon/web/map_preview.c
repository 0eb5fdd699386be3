// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/map_preview.h"

#include <math.h>
#include <string.h>

#include "proto/wire.h"

#define FIRST_VOXEL_M 0.05
#define COARSER       1.5
#define STEPS         65535.0f
#define LEAST_STEP_M  1e-3f
#define DEADLINE_MS   8000

// In front of the points.
struct head {
    uint32_t n, epoch;
    float step_m, corner_m[3];
};

size_t map_preview_request(const struct map_preview *preview, const char *camera, uint64_t id,
                           uint8_t out[MAP_PREVIEW_REQUEST_BYTES])
{
    static posed_Request request; // large, and the web thread alone comes here
    request = (posed_Request){
        .id = id, .deadline_ms = DEADLINE_MS, .which_what = posed_Request_get_map_cloud_tag};
    request.what.get_map_cloud.voxel_m = preview->voxel_m > 0 ? preview->voxel_m : FIRST_VOXEL_M;
    wire_copy_text(request.camera, sizeof request.camera, camera);
    int n = wire_encode_request(&request, out, MAP_PREVIEW_REQUEST_BYTES);
    return n > 0 ? (size_t)n : 0;
}

uint64_t map_preview_reply_id(const uint8_t *reply, size_t n_bytes)
{
    static posed_Reply decoded;
    return wire_decode(posed_Reply_fields, reply, n_bytes, &decoded) == 0 ? decoded.id : 0;
}

// The box around the points as corner and step.
static void measure(const float *points_m, struct head *head)
{
    float high_m[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (int k = 0; k < 3; k++)
        head->corner_m[k] = INFINITY;
    for (size_t i = 0; i < 3 * (size_t)head->n; i++) {
        head->corner_m[i % 3] = fminf(head->corner_m[i % 3], points_m[i]);
        high_m[i % 3] = fmaxf(high_m[i % 3], points_m[i]);
    }
    head->step_m = LEAST_STEP_M;
    for (int k = 0; k < 3; k++)
        head->step_m = fmaxf(head->step_m, (high_m[k] - head->corner_m[k]) / STEPS);
}

// `points_m` and `normals` as GetMapCloud has them, three floats each.
static struct payload *pack(struct head *head, const float *points_m, const float *normals)
{
    const size_t n = 3 * (size_t)head->n;
    struct payload *payload = payload_create(sizeof *head + 3 * n);
    if (!payload)
        return NULL;
    measure(points_m, head);
    memcpy(payload->bytes, head, sizeof *head);
    for (size_t i = 0; i < n; i++) {
        const float steps = (points_m[i] - head->corner_m[i % 3]) / head->step_m;
        const uint16_t at = (uint16_t)fminf(fmaxf(roundf(steps), 0), STEPS);
        memcpy(payload->bytes + sizeof *head + 2 * i, &at, sizeof at);
        payload->bytes[sizeof *head + 2 * n + i] =
            (uint8_t)(int8_t)roundf(fminf(fmaxf(normals[i], -1), 1) * 127);
    }
    return payload;
}

struct payload *map_preview_make(struct map_preview *preview, const uint8_t *reply, size_t n_bytes,
                                 bool *out_again)
{
    static const uint32_t paths[2][2] = {{posed_Reply_get_map_cloud_tag, WIRE_CLOUD_POINTS},
                                         {posed_Reply_get_map_cloud_tag, WIRE_CLOUD_NORMALS}};
    static posed_Reply decoded; // as the request
    static float points_m[3 * MAP_PREVIEW_MAX_POINTS], normals[3 * MAP_PREVIEW_MAX_POINTS];
    const uint8_t *from_points, *from_normals;
    size_t n_points, n_normals;
    *out_again = false;
    if (wire_decode(posed_Reply_fields, reply, n_bytes, &decoded) != 0 ||
        decoded.which_what != posed_Reply_get_map_cloud_tag || decoded.code != posed_Code_OK)
        return NULL;
    const posed_MapCloud *cloud = &decoded.what.get_map_cloud;
    if (cloud->n_points > MAP_PREVIEW_MAX_POINTS) {
        preview->voxel_m = cloud->voxel_m * COARSER;
        *out_again = true;
        return NULL;
    }
    wire_find_bytes(reply, n_bytes, paths[0], 2, &from_points, &n_points);
    wire_find_bytes(reply, n_bytes, paths[1], 2, &from_normals, &n_normals);
    if (cloud->n_points == 0 || n_points != cloud->n_points * 3 * sizeof *points_m ||
        n_normals != n_points)
        return NULL;
    memcpy(points_m, from_points, n_points); // any alignment
    memcpy(normals, from_normals, n_normals);
    struct head head = {.n = cloud->n_points, .epoch = cloud->map_epoch};
    return pack(&head, points_m, normals);
}
